"""What devices, jobs and results cost the scheduler, and so where the first wall is.

    python benchmarks/scale.py                    500 and 2,000 devices, on servers of its own
    python benchmarks/scale.py --devices 500 --waiting 100000

The devices say what workers say, signed, and compute nothing. The parts of a scheduler take their
turns one after the other in this process, so that each has its own bill: processor time of Python,
of PostgreSQL and of Redis for a unit of work. Wall time is not measured: it depends on who else
uses the machine. Last, a real scheduler's process idles beside the devices.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# This folder first would make its queue.py the standard library's queue.
sys.path[0] = str(HERE.parent / "tests" / "planted")

import argparse  # noqa: E402
import os  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from contextlib import ExitStack, contextmanager  # noqa: E402
from dataclasses import dataclass  # noqa: E402
from itertools import islice  # noqa: E402
from typing import cast  # noqa: E402

from sqlalchemy import text  # noqa: E402

from cluster import Lab, kill, until  # noqa: E402
from own_servers import own_servers  # noqa: E402
from processes import cpu_seconds, family, program_of  # noqa: E402
from simulated_fleet import Fleet  # noqa: E402
from vkbench.job import Mode, PlannedJob  # noqa: E402
from vkbench.messages.keys import new_keys, read_keys  # noqa: E402
from vkbench.messages.redis_client import connect  # noqa: E402
from vkbench_db.work import store  # noqa: E402
from vkbench_detection.find import history  # noqa: E402
from vkbench_detection.steps import detect, scan  # noqa: E402
from vkbench_scheduler.queue.broker import Broker  # noqa: E402
from vkbench_scheduler.queue.collect import Collector  # noqa: E402
from vkbench_scheduler.queue.dispatch import Dispatcher  # noqa: E402
from vkbench_scheduler.queue.presence import Presence  # noqa: E402
from vkbench_scheduler.queue.reconcile import Reconciler  # noqa: E402
from vkbench_scheduler.queue.registry import Registry  # noqa: E402
from vkbench_scheduler.queue.stream import ResultStream  # noqa: E402
from vkbench_scheduler.queue.wishes import Wishes  # noqa: E402
from vkbench_scheduler.watch import health  # noqa: E402
from vkbench_shaders.catalogue import KERNELS  # noqa: E402

JOB_SECONDS = 14.4  # 5,000 devices do 10,000,000 jobs of this length in a night of eight hours
NIGHTS = 2  # the last one is billed: its series have a history
CASES = 2  # of each device and night
IDLE_SECONDS = 10.0
TURNS = 10  # that a mean is of
SIZES = (
    "job",
    "attempt",
    "verdict",
    "measurement",
    "latest",
    "series",
    "kernel_case",
    "fresh",
)


@dataclass(kw_only=True)
class Bill:
    """Processor time, in seconds."""

    python: float = 0.0
    postgres: float = 0.0
    redis: float = 0.0

    def line(self, name: str, units: float, unit: str) -> str:
        """A row of the table: milliseconds for a unit."""
        cells = (1000 * seconds / units for seconds in (self.python, self.postgres, self.redis))
        return f"{name:44} {' '.join(f'{cell:10.3f}' for cell in cells)}   ms a {unit}"


HEAD = f"{'':44} {'Python':>10} {'PostgreSQL':>10} {'Redis':>10}"


def main() -> None:
    """Measure and print."""
    options = _arguments()
    for count in options.devices:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            postgres, redis = stack.enter_context(own_servers(Path(folder)))
            new_keys(Path(folder) / "keys")
            lab = Lab(
                folder=Path(folder),
                database_url=postgres.make_database("lab"),
                redis=redis,
                changes={"keys": str(Path(folder) / "keys"), "lost_seconds": 0.0},
            )
            stack.callback(lab.close)
            print(f"\n{count:,} devices\n{HEAD}", flush=True)
            Scale(lab, count).measure(options.waiting)


class Scale:
    """The parts of a scheduler, and the devices that it serves."""

    def __init__(self, lab: Lab, count: int) -> None:
        keys, redis = read_keys(lab.settings), connect(lab.settings.redis)
        self._lab, self._count = lab, count
        self._fleet = Fleet(redis, keys, count, JOB_SECONDS)
        self._broker, self._presence = (
            Broker(lab.settings.redis, redis, keys),
            Presence(redis, keys),
        )
        self._registry = Registry(lab.database, self._presence, Wishes(redis, keys))
        self._dispatcher = Dispatcher(lab.database, self._broker, lab.settings)
        self._reconciler = Reconciler(
            lab.database, self._broker, self._presence, redis, lab.settings.lost_seconds, keys
        )
        self._collector = Collector(lab.database, ResultStream(redis, "scale", keys))
        servers = {pid: program_of(pid) for pid in family(os.getpid())}
        self._postgres = min(pid for pid, name in servers.items() if name == "postgres")
        [self._redis] = [pid for pid, name in servers.items() if name == "redis-server"]

    def measure(self, waiting: int) -> None:
        """Print what each part costs."""
        self._fleet.beat(self._fleet.devices)
        first = self._bill(self._look)
        print(first.line("first look: devices are registered", self._count, "device"))
        self._print_idle()
        self._queue_nights()
        self._print_sizes()
        self._print_process()
        if waiting:
            self._add_waiting(waiting)
            print(f"with {waiting:,} jobs waiting")
            self._print_turns()

    def _print_idle(self) -> None:
        looks = Bill()
        for _ in range(TURNS):
            self._fleet.beat(self._fleet.devices)
            with self._billed(looks):
                self._look()
        print(looks.line("a look at idle devices (each second)", TURNS, "look"))
        print(self._bill(self._turn, TURNS).line("a turn (ten a second)", TURNS, "turn"))
        steps = self._bill(lambda: health.step(self._lab.database, time.time()), TURNS)
        print(steps.line("health (each two seconds)", TURNS, "step"), flush=True)

    def _queue_nights(self) -> None:
        """Have the fleet do nights of jobs; print what those of the last one cost."""
        for night in range(NIGHTS):
            parts: dict[str, Bill] = {}
            jobs = self._count * CASES
            parts["submit"] = self._bill(lambda: self._submit(CASES))
            ended, sent = 0, 0
            while ended < jobs:
                self._add(parts, "dispatch", self._turn)
                self._fleet.beat(self._fleet.devices)
                self._add(parts, "look at busy devices", self._look)
                self._add(parts, "reconcile", lambda: self._reconciler.look(self._registry.leases))
                answered = self._fleet.beat(self._fleet.devices)
                self._add(parts, "collect", lambda: self._collect(answered))  # noqa: B023
                ended += answered
                sent += 1
            self._add(parts, "detect", self._detect)
            self._add(parts, "cut histories", self._scan)
            if night == NIGHTS - 1:
                looks = {"look at busy devices", "reconcile"}
                for name, bill in parts.items():
                    units, unit = (sent, "look") if name in looks else (jobs, "job")
                    print(bill.line(name, units, unit), flush=True)

    def _print_turns(self) -> None:
        """Turns in which no device has room, and one in which all have."""
        self._fleet.beat(self._fleet.devices)
        print(self._bill(self._turn).line("a turn that fills all windows", self._count, "device"))
        print(self._bill(self._turn, TURNS).line("a turn, all windows full", TURNS, "turn"))

    def _collect(self, answered: int) -> None:
        while answered > 0:
            answered -= self._collector.turn()

    def _look(self) -> None:
        self._registry.look()

    def _turn(self) -> None:
        self._dispatcher.turn(self._presence.taking)

    def _detect(self) -> None:
        while detect(self._lab.database, time.time()).jobs:
            pass

    def _scan(self) -> None:
        with self._lab.database.reading() as tx:
            due = history.due_series(tx, time.time() + 1e6, 10**9)
        scan(self._lab.database, due, time.time())

    def _submit(self, cases: int) -> None:
        names = [case.name for kernel in KERNELS for case in kernel.timed]
        jobs = (
            PlannedJob(
                device=device.key,
                case=case,
                mode=Mode.PERFORMANCE,
                limit_seconds=60.0,
                estimate_seconds=JOB_SECONDS,
            )
            for device in self._fleet.devices
            for case in islice(names, cases)
        )
        with self._lab.database.transaction() as tx:
            run = store.create_run(tx, mode=Mode.PERFORMANCE, selection={}, now=time.time())
            store.add_jobs(tx, run.id, jobs)

    def _add_waiting(self, waiting: int) -> None:
        """So many copies of the first jobs, made by the database, in a run of their own."""
        with self._lab.database.transaction() as tx:
            run = store.create_run(tx, mode=Mode.PERFORMANCE, selection={}, now=time.time())
            tx.execute(
                text(
                    "INSERT INTO job (run_id, position, device_id, case_id, mode, variant, bundle,"
                    " limit_seconds, measure_seconds, noise, estimate_seconds, state, token, tries,"
                    " dispatches, cause, reason) SELECT :run, i, device.id, 1, 'performance',"
                    " 'auto', '', 60, 1, 0.005, :seconds, 'queued', 0, 0, 0, '', ''"
                    " FROM generate_series(1, :waiting) AS i"
                    " JOIN device ON device.id = 1 + i % (SELECT count(*) FROM device)"
                ),
                {"run": run.id, "waiting": waiting, "seconds": JOB_SECONDS},
            )
        with self._lab.database.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT")
            connection.exec_driver_sql("VACUUM ANALYZE job")

    def _print_sizes(self) -> None:
        results = self._count * CASES * NIGHTS
        with self._lab.database.reading() as tx:
            sizes = {
                name: tx.execute(
                    text("SELECT pg_total_relation_size(:name)"), {"name": name}
                ).scalar_one()
                for name in SIZES
            }
        shares = ", ".join(f"{name} {size / results:,.0f}" for name, size in sizes.items())
        print(f"bytes of SQL a result, with indexes: {shares}")
        memory = cast(dict[str, int], self._lab.redis.client.info("memory"))["used_memory"]
        print(f"Redis holds {memory / self._count / 1000:.1f} kB a device", flush=True)

    def _print_process(self) -> None:
        """A real scheduler beside the devices."""
        self._lab.redis.client.flushall()
        fleet = self._lab.start("-m", "simulated_fleet", str(self._count), log="fleet")
        scheduler = self._lab.start_scheduler()
        waits = self._lab.redis.client
        until(lambda: waits.exists("vk:devices"), "no device", 60)
        time.sleep(IDLE_SECONDS)
        before, commands = self._spent(scheduler.pid), self._commands()
        began = time.monotonic()
        time.sleep(IDLE_SECONDS)
        wall = time.monotonic() - began
        after = self._spent(scheduler.pid)
        spent = [100 * (new - old) / wall for old, new in zip(before, after, strict=True)]
        print(
            f"a scheduler's process, all idle: {spent[0]:.1f} % of a core, PostgreSQL"
            f" {spent[1]:.1f} %, Redis {spent[2]:.1f} % with"
            f" {(self._commands() - commands) / wall:,.0f} commands a second",
            flush=True,
        )
        kill(scheduler)
        kill(fleet)

    def _commands(self) -> int:
        stats = cast(dict[str, int], self._lab.redis.client.info("stats"))
        return stats["total_commands_processed"]

    def _add(self, parts: dict[str, Bill], name: str, work: Callable[[], object]) -> None:
        bill, known = self._bill(work), parts.setdefault(name, Bill())
        known.python += bill.python
        known.postgres += bill.postgres
        known.redis += bill.redis

    def _bill(self, work: Callable[[], object], times: int = 1) -> Bill:
        bill = Bill()
        for _ in range(times):
            with self._billed(bill):
                work()
        return bill

    @contextmanager
    def _billed(self, bill: Bill) -> Iterator[None]:
        before, python = self._spent(), time.thread_time()
        yield
        after = self._spent()
        bill.python += time.thread_time() - python
        bill.postgres += after[1] - before[1]
        bill.redis += after[2] - before[2]

    def _spent(self, pid: int = 0) -> tuple[float, float, float]:
        """Processor seconds of a process, of PostgreSQL, and of Redis."""
        postgres = sum(map(cpu_seconds, family(self._postgres)))
        return (cpu_seconds(pid) if pid else 0.0, postgres, cpu_seconds(self._redis))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[500, 2000])
    parser.add_argument("--waiting", type=int, default=1_000_000, help="jobs that wait at last")
    return parser.parse_args()


if __name__ == "__main__":
    main()
