"""What the queue costs: the busy share of a device over short jobs, and the time to store many.

    python benchmarks/queue.py                      starts Redis and PostgreSQL of its own
    python benchmarks/queue.py --database URL       uses this database

The device is a process that sleeps, so all that is not its work is ours: the gap between two jobs
of a chunk is the runner's (one Python process that answers and reads on), the gap between two
chunks is the queue's. No GPU is needed.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# This folder first would make this file the standard library's queue.
sys.path[0] = str(HERE.parent / "tests" / "planted")

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import shutil  # noqa: E402
import statistics  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator, Sequence  # noqa: E402
from contextlib import ExitStack, contextmanager  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from itertools import pairwise  # noqa: E402

import planted_runner  # noqa: E402
from cluster import Event, Lab, RedisServer  # noqa: E402
from postgres_server import PostgresServer, program  # noqa: E402
from vkbench.job import Mode  # noqa: E402
from vkbench.messages.wire import Announcement  # noqa: E402
from vkbench.settings import Settings  # noqa: E402
from vkbench_db.database import Database  # noqa: E402
from vkbench_db.work import store  # noqa: E402
from vkbench_scheduler.planning.plan import count  # noqa: E402
from vkbench_scheduler.planning.selection import Selection  # noqa: E402
from vkbench_scheduler.planning.submit import submit  # noqa: E402

CHUNKS = (0.02, 0.1, 0.4, 1.0)  # seconds of work in a message, beside the chosen one
MANY = 100_000


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Where the time between the first and the last job went, in seconds."""

    wall: float
    busy: float
    runner: float  # between two jobs of a chunk
    queue: float  # between two chunks
    chunks: int
    per_chunk: dict[str, float]  # what a chunk costs the worker, medians

    def line(self, name: str) -> str:
        """One row of the table."""
        of = self.wall / 100
        message = self.queue / max(self.chunks - 1, 1)
        rest = message - sum(self.per_chunk.values())  # Celery, kombu and JSON
        cells = [
            f"{name:>8}",
            f"{self.chunks:>6}",
            f"{self.busy / of:>7.2f}",
            f"{self.runner / of:>7.2f}",
            f"{self.queue / of:>7.2f}",
            f"{1000 * message:>11.2f}",
            *(f"{1000 * seconds:>9.2f}" for seconds in (*self.per_chunk.values(), rest)),
        ]
        return " ".join(cells)


HEAD = (
    "   chunk chunks    busy  runner   queue  ms/message = claim +  lease +   send + Celery\n"
    "       s              %       %       %"
)


def main() -> None:
    """Measure and print."""
    options = _arguments()
    with ExitStack() as stack:
        url = stack.enter_context(_database(options.database))
        chosen = Settings().chunk_seconds
        print(f"{options.jobs} jobs of {options.milliseconds} ms; {url.partition(':')[0]}\n{HEAD}")
        for seconds in CHUNKS:
            shares = measure(url, seconds, max(options.jobs // 4, 50), options.milliseconds)
            print(shares.line(f"{seconds:g}"), flush=True)
        shares = measure(url, chosen, options.jobs, options.milliseconds)
        print(shares.line(f"{chosen:g} *"), "\n* the chunk that vkbench chooses\n", flush=True)
        for jobs in (1000, MANY):
            print(_planning(url, jobs), flush=True)


def measure(url: str, chunk_seconds: float, jobs: int, milliseconds: int) -> Shares:
    """Run jobs through a worker and see when the device was busy."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="vkbench-queue-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        redis = RedisServer(folder / "redis")
        redis.start()
        stack.callback(redis.close)
        settings = {"chunk_seconds": chunk_seconds, "window_seconds": max(4.0, 3 * chunk_seconds)}
        lab = Lab(folder=folder, database_url=url, redis=redis, changes=settings)
        stack.callback(lab.close)
        lab.start_scheduler()
        # -P: its folder holds a queue.py, which is not the standard library's
        lab.start("-P", str(HERE / "timed_worker.py"), "a", log="worker")
        lab.await_device("a")
        run = lab.submit([f"sleep/f32/n{milliseconds}"] * jobs)
        lab.await_end(run, seconds=60 + 2 * jobs * milliseconds / 1000)
        return _shares(lab)


def _shares(lab: Lab) -> Shares:
    chunks = [json.loads(line) for line in (lab.settings.data / "chunks").read_text().splitlines()]
    chunks = [chunk for chunk in chunks if chunk["jobs"]]
    last = {chunk["jobs"][-1] for chunk in chunks}
    events = lab.events()
    gaps = [(a, b.at - a.at) for a, b in pairwise(events) if a.kind == "end"]
    return Shares(
        wall=events[-1].at - events[0].at,
        busy=_busy(events),
        runner=sum(gap for before, gap in gaps if before.job not in last),
        queue=sum(gap for before, gap in gaps if before.job in last),
        chunks=len(chunks),
        per_chunk={
            key: statistics.median(chunk[key] for chunk in chunks)
            for key in ("claim", "hold", "join")
        },
    )


def _busy(events: Sequence[Event]) -> float:
    return sum(b.at - a.at for a, b in pairwise(events) if a.kind == "start")


def _planning(url: str, jobs: int) -> str:
    """Plan and store in a process of its own, for its peak memory."""
    command = [sys.executable, str(HERE / "queue.py"), "--plan", str(jobs), "--database", url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def plan_and_store(url: str, jobs: int) -> None:
    """Submit one run of about so many jobs, and print what that took."""
    facts = planted_runner.facts("a")
    environment = planted_runner.environment()
    with Database.open(url, create=True) as database:
        word = Announcement(worker="", facts=facts, environment=environment, bundle="")
        with database.transaction() as tx:
            store.register_device(tx, word, time.time())
        one = Selection(suite="spine", mode=Mode.CORRECTNESS, devices=(facts.key,))
        repeat = max(1, jobs // count(one, [facts]))
        before = _peak_mib()
        began = time.monotonic()
        many = Selection(suite="spine", mode=Mode.CORRECTNESS, devices=(facts.key,), repeat=repeat)
        made = submit(database, many, [facts])
        seconds = time.monotonic() - began
        with database.transaction() as tx:
            store.cancel(tx, made.run.id, time.time())
    print(
        f"{made.jobs} jobs planned and stored in {seconds:.2f} s, "
        f"peak memory {_peak_mib():.0f} MiB ({_peak_mib() - before:.0f} MiB of it for them)"
    )


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextmanager
def _database(named: str) -> Iterator[str]:
    if named:
        Database.open(named, create=True).close()
        yield named
    elif not program("initdb"):
        print("PostgreSQL is not installed: measuring with SQLite")
        with tempfile.TemporaryDirectory(prefix="vkbench-queue-") as folder:
            yield f"sqlite:///{folder}/queue.db"
    else:
        server = PostgresServer()
        try:
            server.start()
            server.make_template()
            yield server.make_database("queue")
        finally:
            server.close()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--database", default="", help="URL of a database to use")
    parser.add_argument("--jobs", type=int, default=1000, help="jobs at the chosen chunk size")
    parser.add_argument("--milliseconds", type=int, default=20, help="length of a job")
    parser.add_argument("--plan", type=int, default=0, help="only plan and store so many jobs")
    return parser.parse_args()


if __name__ == "__main__":
    if _arguments().plan:
        plan_and_store(_arguments().database, _arguments().plan)
    else:
        main()
