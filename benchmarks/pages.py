"""How long the pages take: each one alone, then 50 people who read at once.

    python benchmarks/pages.py FILE                     a SQLite database, as many_results.py makes
    python benchmarks/pages.py postgresql://... --csv docs/results/pages-postgresql.csv
    python benchmarks/results/pages_table.py docs/results/pages-*.csv > docs/results/pages.md

`vkbench web` serves the database; the time is from the request to the last byte of the answer, on
the same machine. Each page is asked for with different devices, runs, series and kernels of the
database. People open a page, read it for a while (5 s in the mean) and open another one.
"""

from __future__ import annotations

import argparse
import csv
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from urllib.parse import quote, urlsplit

sys.path.append(sys.path.pop(0))  # this folder's queue.py is not the standard library's

from vkbench.settings import Settings
from vkbench_web.app import application
from vkbench_web.lab import Lab

LIMIT_SECONDS = 0.3  # of the median of a page
CROWD_SECONDS = 1.0  # of the 95th percentile of 50 readers
DAY = 86_400
# Pages by their route, or a route with options: {names} are of the database.
OPTIONS = (
    *("/heatmap?device={device}&show=roof", "/heatmap?device={device}&show=change&against={run}"),
    "/heatmap?device={device}&show=change&against={day}",
    *("/results?sort=hot_seconds&page=7", "/results?device={device}&kernel={kernel}"),
    *("/results?run={run}", "/results?series={series}", "/results?state=wrong"),
    *("/roofline?device={device}&y=bytes", "/compare?old={run}&new={other}"),
    *("/series?kernel={kernel}", "/series?sort=-smallest_effect&page=9"),
    *("/api/results?run={run}&limit=1000", "/api/series?limit=1000"),
    "/api/compare?old={run}&new={other}",
    *("/results?build={build}", "/results?program={program}"),
    "/compare?old=build:{build}&new=build:{newest}",
    "/heatmap?device={device}&program={program}&show=change&against=build:{build}",
    "/api/query?sql=SELECT+*+FROM+v_latest+ORDER+BY+seconds+DESC+LIMIT+100",
)
UNREAD = ("/api/openapi.json", "/api/compare", "/api/query")  # the last two need options


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A page that was asked for."""

    seconds: float
    status: int
    size: int


@dataclass(kw_only=True)
class Taken:
    """Seconds that a page took, over and over."""

    page: str
    seconds: list[float] = field(default_factory=list)
    size: int = 0
    busy: float = 0.0  # seconds of the server's CPU, a request
    database_busy: float = 0.0  # of PostgreSQL's, where its process is given
    refused: str = ""

    @property
    def median(self) -> float:
        """Of all but the first, which imports what the page needs."""
        return median(self.seconds[1:] or self.seconds)

    def share(self, fraction: float) -> float:
        """The time that so many are within."""
        return _share(self.seconds[1:] or self.seconds, fraction)


def main() -> None:
    """Serve, ask, print."""
    options = _arguments()
    url = options.database
    url = url if "://" in url else f"sqlite:///{Path(url).resolve()}"
    with _served(url) as (origin, server):
        values = _values(origin, url)
        print(f"{url.partition(':')[0]}: {options.times} times each\n{_HEAD}", flush=True)
        alone = []
        for page in pages(url):
            alone.append(_alone(origin, page, values, options.times, server, options.postmaster))
            print(_line(alone[-1]), flush=True)
        good = [taken.page for taken in alone if not taken.refused]
        crowd = _crowd(origin, good, values, options)
    print(f"{len(crowd.seconds)} pages in {options.seconds:.0f} s\n{_line(crowd)}")
    for taken in alone:
        if not taken.refused and taken.median > LIMIT_SECONDS:
            print(f"over {1000 * LIMIT_SECONDS:.0f} ms: {taken.page}")
    if crowd.share(0.95) > CROWD_SECONDS:
        print(f"over {1000 * CROWD_SECONDS:.0f} ms: p95 of {crowd.page}")
    if options.csv:
        _write(
            options.csv, [*(taken_alone for taken_alone in alone if not taken_alone.refused), crowd]
        )


def pages(url: str) -> list[str]:
    """Every page and answer that can be read, from the application's own routes."""
    app = application(Lab(Settings(database=url)))
    routes = [
        route.path
        for router in (app.routes, *(_routes_of(route) for route in app.routes))
        for route in router
        if "GET" in (getattr(route, "methods", None) or ())
    ]
    known = [path for path in dict.fromkeys(routes) if not path.startswith("/static")]
    return [path for path in known if path not in UNREAD] + list(OPTIONS)


def _routes_of(route: object) -> Sequence[object]:
    """The routes of an included router."""
    included = getattr(route, "original_router", None)
    return getattr(included, "routes", ())


def _values(origin: str, url: str) -> Mapping[str, Sequence[str]]:
    """What stands for the names in routes: values of the database, by the read API."""
    connection = _connected(origin)
    devices = _rows(connection, "/api/devices")
    results = [
        row
        for device in devices
        for row in _rows(connection, f"/api/results?limit=1000&device={device['key']}")
    ]
    series = [row["hot_series"] for row in results if row.get("hot_series")]
    runs = sorted({int(row["run"]) for row in results})
    builds = [str(row["name"]) for row in _rows(connection, "/api/builds")] or ["none"]
    programs = [str(row["program"]) for row in _rows(connection, "/api/programs")] or ["none"]
    newest = max((row["finished_at"] for row in results), default="2026-01-01")
    connection.close()
    return {
        "device": [device["key"] for device in devices],
        "run": [str(run) for last in runs for run in range(max(1, last - 40), last + 1, 4)],
        "job": [str(row["job"]) for row in results],
        "series": [str(number) for number in series] or ["1"],
        "kernel": sorted({row["kernel"] for row in results}),
        "build": builds,
        "newest": builds[-1:],
        "program": programs,
        "regression": [str(number) for number in range(1, 20)],
        "day": [f"{newest[:8]}{day:02}" for day in range(1, 28)],
    }


# The first folder of a route -> what its number or name is of.
_FOLDERS = {
    "runs": "run",
    "jobs": "job",
    "series": "series",
    "kernels": "kernel",
    "regressions": "regression",
    "programs": "program",
    "builds": "build",
}


def _filled(page: str, values: Mapping[str, Sequence[str]], random: Random) -> str:
    """A route with values of the database in place of its names."""
    path, mark, options = page.partition("?")
    parts = path.split("/")
    for place, part in enumerate(parts):
        if part.startswith("{"):
            parts[place] = quote(random.choice(values[_FOLDERS.get(parts[place - 1], "run")]))
    one = {name: random.choice(choices) for name, choices in values.items()}
    return "/".join(parts) + mark + options.format(**one, other=max(1, int(one["run"]) - 8))


def _alone(
    origin: str,
    page: str,
    values: Mapping[str, Sequence[str]],
    times: int,
    server: int,
    postmaster: int,
) -> Taken:
    """A page, asked for again and again by one reader."""
    random, taken = Random(1), Taken(page=page)
    connection = _connected(origin)
    busy = database_busy = 0.0
    for number in range(times + 1):
        if number == 1:
            busy, database_busy = _busy(server), _busy_children(postmaster)
        path = _filled(page, values, random)
        answer = _ask(connection, path)
        if answer.status != 200:
            taken.refused = f"{answer.status} {path}"
        taken.seconds.append(answer.seconds)
        taken.size = max(taken.size, answer.size)
    taken.busy = (_busy(server) - busy) / times
    taken.database_busy = (_busy_children(postmaster) - database_busy) / times
    connection.close()
    return taken


def _crowd(
    origin: str,
    known: Sequence[str],
    values: Mapping[str, Sequence[str]],
    arguments: argparse.Namespace,
) -> Taken:
    """The pages that many readers opened; they read in between."""
    seconds: list[float] = []
    until = time.monotonic() + arguments.seconds
    shown = [page for page in known if not page.startswith("/api/")]

    def read(number: int) -> None:
        random, connection = Random(number), _connected(origin)
        time.sleep(random.uniform(0, arguments.pause))
        while time.monotonic() < until:
            answer = _ask(connection, _filled(random.choice(shown), values, random))
            seconds.append(answer.seconds)
            time.sleep(random.expovariate(1 / arguments.pause))
        connection.close()

    readers = [threading.Thread(target=read, args=(n,)) for n in range(arguments.readers)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    return Taken(page=f"{arguments.readers} readers", seconds=seconds)


def _busy(process: int) -> float:
    """Seconds of CPU that a process has had."""
    return sum(_read_ticks(process)[:2]) / os.sysconf("SC_CLK_TCK")


def _busy_children(process: int) -> float:
    """Seconds of CPU that the children of a process have had, also those that ended; 0 of none."""
    if not process:
        return 0.0
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    ticks = sum(_read_ticks(process)[2:])
    for child in map(int, children):
        with suppress(OSError):  # it ended meanwhile
            ticks += sum(_read_ticks(child)[:2])
    return ticks / os.sysconf("SC_CLK_TCK")


def _read_ticks(process: int) -> list[int]:
    """A process's CPU time, of the user and of the system, then that of children that ended."""
    after_name = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return [int(ticks) for ticks in after_name[11:15]]


def _write(path: Path, measured: Sequence[Taken]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(
            ["page", "requests", "median_ms", "p95_ms", "worst_ms", "cpu_ms", "sql_ms", "kB"]
        )
        for taken in measured:
            times = (taken.median, taken.share(0.95), taken.share(1.0))
            times += (taken.busy, taken.database_busy)
            cells = [f"{1000 * seconds:.0f}" for seconds in times]
            writer.writerow([taken.page, len(taken.seconds), *cells, f"{taken.size / 1000:.0f}"])


def _connected(origin: str) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(urlsplit(origin).netloc, timeout=120)


def _ask(connection: http.client.HTTPConnection, path: str) -> Answer:
    began = time.perf_counter()
    try:
        connection.request("GET", path)
        response = connection.getresponse()
    except (http.client.RemoteDisconnected, ConnectionError):  # it was idle for too long
        connection.close()
        connection.request("GET", path)
        response = connection.getresponse()
    body = response.read()
    return Answer(seconds=time.perf_counter() - began, status=response.status, size=len(body))


def _rows(connection: http.client.HTTPConnection, path: str) -> list[dict[str, object]]:
    connection.request("GET", path)
    answer = json.loads(connection.getresponse().read())
    return list(answer["rows"])


@contextmanager
def _served(url: str) -> Iterator[tuple[str, int]]:
    """`vkbench web` on a database: its origin, and the process."""
    words = [str(Path(sys.prefix, "bin", "vkbench")), "web", "--port", "0", "--database", url]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            line = server.stdout.readline()
            origin = next(word for word in line.split() if word.startswith("http://"))
            yield origin, server.pid
        finally:
            server.terminate()


def _share(seconds: Sequence[float], fraction: float) -> float:
    return sorted(seconds)[min(len(seconds) - 1, int(len(seconds) * fraction))]


_HEAD = f"{'':62} {'median':>7} {'p95':>7} {'worst':>7} {'CPU':>5} {'SQL':>5}  ms {'kB':>6}"


def _line(taken: Taken) -> str:
    if taken.refused:
        return f"{taken.page:62} refused: {taken.refused}"
    times = (taken.median, taken.share(0.95), taken.share(1.0))
    cells = " ".join(f"{1000 * seconds:7.0f}" for seconds in times)
    busy = f"{1000 * taken.busy:5.0f} {1000 * taken.database_busy:5.0f}"
    return f"{taken.page:62} {cells} {busy}     {taken.size / 1000:6.0f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("database", help="a SQLite file, or a URL")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument(
        "--postmaster", type=int, default=0, help="PostgreSQL's process, to tell its CPU too"
    )
    parser.add_argument("--csv", type=Path, default=None, help="write the figures to this file")
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0, help="that they read")
    parser.add_argument("--pause", type=float, default=5.0, help="seconds on a page, the mean")
    return parser.parse_args()


if __name__ == "__main__":
    main()
