"""How long the questions take that people ask most, on 5,000,000 results in 25,000 series.

    python benchmarks/queries.py                              SQLite, then PostgreSQL of its own
    python benchmarks/queries.py --engine sqlite --results 100000 --series 2000
    python benchmarks/queries.py --url postgresql://...       an empty database, filled and emptied

Four devices, each a run a night, each case timed hot and cold. The rows are made by the database
itself, the indexes afterwards, as a copy that is restored has them. SQLite is not given statistics,
which vkbench never makes there; PostgreSQL makes them by itself.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median

HERE = Path(__file__).resolve().parent
# This folder comes last: its queue.py is not the standard library's.
sys.path[0] = str(HERE.parent / "tests" / "planted")
sys.path.append(str(HERE))

from many_results import (  # noqa: E402
    BEGAN,
    DAY,
    DEVICES,
    METRICS,
    REGRESSIONS,
    Size,
    bundle_sha,
    fill,
)
from sqlalchemy import Connection  # noqa: E402

from postgres_server import PostgresServer  # noqa: E402
from vkbench_cli.main import GC_OBJECTS  # noqa: E402
from vkbench_db.ask.results import ResultFilter, results  # noqa: E402
from vkbench_db.database import Database, upgrade  # noqa: E402
from vkbench_detection.compare.comparison import compare  # noqa: E402
from vkbench_detection.compare.references import find  # noqa: E402
from vkbench_detection.regress.inbox import regressions  # noqa: E402
from vkbench_detection.series.points import origins, points  # noqa: E402
from vkbench_detection.series.profiles import noise  # noqa: E402

HISTORY = 200  # results that a page shows
COLD = 3  # times that each is asked of a database that lies on the disk alone


@dataclass(frozen=True, kw_only=True)
class Question:
    """Something asked, and how long it may take."""

    name: str
    ask: Callable[[Connection, Random], object]
    limit_seconds: float = 0.0  # 0: none was promised
    times: int = 50


def main() -> None:
    """Fill, ask, print, remove."""
    options = _arguments()
    gc.set_threshold(GC_OBJECTS)  # as the command line does
    size = Size(
        cases=options.series // DEVICES // len(METRICS),
        nights=max(2, options.results // options.series),
    )
    for engine in ["given"] if options.url else options.engine:
        with _place(engine, options.url, options.folder) as place:
            measure(place, size)


@dataclass(frozen=True, kw_only=True)
class Place:
    """A database, and how it comes to lie in memory or not."""

    url: str
    forget: Callable[[], None]  # nothing of it is in memory
    read: Callable[[], None]  # all of it is, as far as there is room


def measure(place: Place, size: Size) -> list[tuple[str, float]]:
    """Fill an empty database, and print what each question takes; says the median seconds."""
    began = time.monotonic()
    upgrade(place.url)
    fill(place.url, size)
    print(
        f"{place.url.partition(':')[0]}: {2 * size.jobs:,} results in "
        f"{2 * DEVICES * size.cases:,} series, made in {time.monotonic() - began:.0f} s\n{_HEAD}",
        flush=True,
    )
    measured = questions(size)
    with Database.open(place.url) as database:
        for question in measured:
            _ask(database, question, Random(0))  # imports what it needs
    cold = [_cold(place, question) for question in measured]
    place.read()
    with Database.open(place.url) as database:
        warm = [_warm(database, question) for question in measured]
    for question, first, taken in zip(measured, cold, warm, strict=True):
        print(_line(question, first, taken), flush=True)
    return [(question.name, taken.median) for question, taken in zip(measured, warm, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Seconds that a question took, over and over."""

    median: float
    worst: float
    busy: float  # of this process, which on SQLite does it all


def _cold(place: Place, question: Question) -> float:
    """The median of a few, nothing of the database being in memory before each."""
    taken = []
    for number in range(COLD):
        place.forget()
        with Database.open(place.url) as database:
            taken.append(_ask(database, question, Random(number))[0])
    return median(taken)


def _warm(database: Database, question: Question) -> Taken:
    random = Random(1)
    taken = [_ask(database, question, random) for _ in range(question.times)]
    return Taken(
        median=median(wall for wall, _ in taken),
        worst=max(wall for wall, _ in taken),
        busy=median(busy for _, busy in taken),
    )


def _ask(database: Database, question: Question, random: Random) -> tuple[float, float]:
    began, busy = time.perf_counter(), time.process_time()
    with database.reading() as tx:
        question.ask(tx, random)
    return time.perf_counter() - began, time.process_time() - busy


_HEAD = f"{'':46} {'limit':>7} {'median':>8} {'worst':>8} {'CPU here':>9} {'cold':>8}   ms"


def _line(question: Question, cold: float, taken: Taken) -> str:
    limit = f"{1000 * question.limit_seconds:.0f}" if question.limit_seconds else ""
    wall = f"{1000 * taken.median:8.1f} {1000 * taken.worst:8.1f} {1000 * taken.busy:9.1f}"
    return f"{question.name:46} {limit:>7} {wall} {1000 * cold:8.1f}"


def questions(size: Size) -> Sequence[Question]:
    """What is measured."""
    series = 2 * DEVICES * size.cases

    def two_runs(random: Random) -> tuple[str, str]:
        device, old, new = random.randrange(DEVICES), *random.sample(range(size.nights), 2)
        return str(1 + old * DEVICES + device), str(1 + new * DEVICES + device)

    def compare_two(tx: Connection, random: Random, metrics: Sequence[str] = ("hot",)) -> None:
        old, new = two_runs(random)
        compared = compare(tx, find(tx, old), find(tx, new), metrics=metrics)
        assert len(compared.pairs) == len(metrics) * size.cases

    def compare_all(tx: Connection, random: Random) -> None:
        compare_two(tx, random, METRICS)

    def history(tx: Connection, random: Random) -> None:
        points(tx, random.randint(1, series), HISTORY)

    def made(tx: Connection, random: Random) -> None:
        history_points = points(tx, random.randint(1, series), HISTORY)
        origins(tx, [point.job for point in history_points])

    def shown_history(tx: Connection, random: Random) -> None:
        results(tx, ResultFilter(series=random.randint(1, series)), limit=HISTORY)

    return (
        Question(name="history of a series", limit_seconds=0.02, ask=history, times=200),
        Question(name="the same, with what made each result", limit_seconds=0.02, ask=made),
        Question(name="the same by `vkbench results --series`", ask=shown_history),
        Question(name=f"two runs compared, {size.cases:,} hot", limit_seconds=0.1, ask=compare_two),
        Question(name="the same, hot and cold", ask=compare_all),
        Question(name="inbox of regressions", limit_seconds=0.1, ask=_inbox),
        Question(name="all noise", ask=_noise, times=5),
        Question(name="two days compared, all devices", ask=_two_days, times=2),
        Question(name="two bundles compared, all devices", ask=_two_bundles, times=2),
    )


def _inbox(tx: Connection, random: Random) -> None:
    assert len(regressions(tx, states=("open", "acknowledged", "fixed"))) == REGRESSIONS // 10


def _noise(tx: Connection, random: Random) -> None:
    noise(tx)


def _two_days(tx: Connection, random: Random) -> None:
    begin, end = (datetime.fromtimestamp(BEGAN + n * DAY, UTC).isoformat() for n in (1, 10**4))
    compare(tx, find(tx, f"date:{begin}"), find(tx, f"date:{end}"))


def _two_bundles(tx: Connection, random: Random) -> None:
    compare(tx, find(tx, f"bundle:{bundle_sha('0')}"), find(tx, f"bundle:{bundle_sha('1')}"))


@contextmanager
def _place(engine: str, url: str, folder: Path | None) -> Iterator[Place]:
    """A new database, which is gone afterwards; of one given nothing is made cold."""
    if url:
        yield Place(url=url, forget=lambda: None, read=lambda: None)
    elif engine == "sqlite":
        with tempfile.TemporaryDirectory(prefix="vkbench-queries-", dir=folder) as name:
            files = Path(name)
            yield Place(
                url=f"sqlite:///{files / 'vkbench.db'}",
                forget=lambda: _forget(files),
                read=lambda: _read(files),
            )
    else:
        server = PostgresServer()
        try:
            server.start()
            server.execute("CREATE DATABASE queries")
            yield Place(
                url=server.url("queries"),
                forget=lambda: _restart(server),
                read=lambda: _read(server.folder),
            )
        finally:
            server.close()


def _restart(server: PostgresServer) -> None:
    server.stop()
    _forget(server.folder)
    server.start()


def _forget(folder: Path) -> None:
    """What the files of a folder have in the system's memory."""
    for path in _files(folder):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(folder: Path) -> None:
    for path in _files(folder):
        with path.open("rb", buffering=0) as file:
            while file.read(2**24):
                pass


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=int, default=5_000_000)
    parser.add_argument("--series", type=int, default=25_000)
    parser.add_argument("--engine", nargs="+", default=["sqlite", "postgresql"])
    parser.add_argument("--url", default="", help="an empty database to fill")
    parser.add_argument("--folder", type=Path, default=None, help="where a SQLite file is made")
    return parser.parse_args()


if __name__ == "__main__":
    main()
