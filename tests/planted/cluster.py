"""A small lab for tests and benchmarks: Redis, scheduler and workers as real processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from redis import Redis
from sqlalchemy import Row, select

import planted_runner
from forked import OF_SERVICES, Forked
from vkbench.job import FINISHED, MAX_TRIES, JobState, Mode, PlannedJob
from vkbench.settings import PREFIX, Settings
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_worker.owner.marker import Marker

LOADED = 3  # how many times as long a machine takes that all tests share
HERE = Path(__file__).parent
HOST = "lab"


@dataclass(frozen=True, kw_only=True)
class Event:
    """A runner began or ended a job."""

    kind: str  # start | end
    device: str
    job: int
    token: int
    at: float
    pid: int


class RedisServer:
    """A redis-server of our own, which may be killed and started again."""

    def __init__(
        self,
        folder: Path,
        *,
        appendonly: bool = True,
        maxmemory: str = "0",
        login: tuple[str, str] | None = None,
        options: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        user, password = login or (None, None)
        self.client = Redis(port=self.port, socket_timeout=5, username=user, password=password)
        folder.mkdir(parents=True, exist_ok=True)
        all_options = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(folder),
            "save": "",
            "appendonly": "yes" if appendonly else "no",
            "maxmemory": maxmemory,
            "maxmemory-policy": "noeviction",
            "logfile": "redis.log",
            **options,
        }
        words = [word for name, value in all_options.items() for word in (f"--{name}", value)]
        self._command = ["redis-server", *words]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        until(self._answers, "redis-server does not answer")

    def kill(self) -> None:
        """kill -9."""
        if self._process:
            self._process.kill()
            self._process.wait()

    def freeze(self, seconds: float) -> None:
        """Have it answer no client for a while; its connections stay open."""
        assert self._process
        self._process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        """End it for good."""
        self.kill()
        self.client.close()

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except Exception:
            return False


@dataclass(kw_only=True)
class Lab:
    """One Redis, one database, and the processes that were started on them."""

    folder: Path
    database_url: str
    redis: RedisServer
    changes: Mapping[str, object] = field(default_factory=dict)  # of settings
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.database = Database.open(self.database_url, create=True)
        ours = Settings(
            database=self.database_url,
            redis=self.redis.url,
            host=HOST,
            data=self.folder / "data",
            cache=self.folder / "cache",
            runner="planted_runner",
            lost_seconds=2.0,
        )
        self.settings = replace(ours, **self.changes)  # type: ignore[arg-type]
        self.settings.data.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """End every process."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.database.close()

    def environ(self) -> dict[str, str]:
        """The variables that give a process this lab's settings."""
        ours = {
            PREFIX + name.upper(): str(value)
            for name, value in vars(self.settings).items()
            if value
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
        path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH", ""))))
        return kept | ours | {"PYTHONPATH": path}

    def start(self, *words: str, log: str, **environ: str) -> subprocess.Popen[bytes]:
        """A Python process; what it says goes to a file of this name."""
        env = self.environ() | environ
        with (self.folder / f"{log}.log").open("ab") as output:
            process: subprocess.Popen[bytes]
            if env["PYTHONPATH"] == str(HERE):
                process = Forked(words, OF_SERVICES, env=env, stdout=output, stderr=output)
            else:  # it imports other packages
                command = [sys.executable, *words]
                process = subprocess.Popen(command, env=env, stdout=output, stderr=output)
        self.processes.append(process)
        return process

    def start_scheduler(self, dies_at: str = "") -> subprocess.Popen[bytes]:
        """A scheduler, perhaps one that kills itself at a named point."""
        return self.start("-m", "planted_scheduler", dies_at, log="scheduler")

    def start_worker(self, name: str = "a") -> subprocess.Popen[bytes]:
        """A worker of one device that the scheduler knows."""
        worker = self.start("-m", "vkbench_worker.service.main", name, log=f"worker-{name}")
        self.await_device(name)
        return worker

    def start_fleet(self, *names: str) -> subprocess.Popen[bytes]:
        """A parent that keeps a worker of each device."""
        fleet = self.start("-m", "planted_fleet", *names, log="fleet")
        for name in names:
            self.await_device(name)
        return fleet

    def await_device(self, name: str) -> None:
        """Wait until the scheduler knows a device."""
        until(lambda: self.device_row(name) is not None, f"no device {name}", 20)

    def device_row(self, name: str) -> Row[int, str] | None:
        """Id and worker of a device, None while it is unknown."""
        device = schema.device.c
        with self.database.reading() as tx:
            asked = select(device.id, device.worker).where(device.key == self.key(name))
            return tx.execute(asked).first()

    def key(self, name: str) -> str:
        """The key of a planted device."""
        return planted_runner.facts(name, self.settings).key

    def submit(
        self,
        cases: Iterable[str],
        device: str = "a",
        limit: float = 20,
        priority: int = 0,
        bundle: str = "",
    ) -> int:
        """A run of planted cases; says its id."""
        jobs = [
            PlannedJob(
                device=self.key(device),
                case=case,
                mode=Mode.CORRECTNESS,
                bundle=bundle,
                limit_seconds=limit,
                estimate_seconds=0.05,
            )
            for case in cases
        ]
        with self.database.transaction() as tx:
            mode, now = Mode.CORRECTNESS, time.time()
            run = store.create_run(tx, mode=mode, selection={}, now=now, priority=priority)
            store.add_jobs(tx, run.id, jobs)
        return run.id

    def counts(self, run: int) -> Mapping[JobState, int]:
        """How many jobs of a run are in which state."""
        with self.database.reading() as tx:
            return store.run_progress(tx, run).counts

    def ended(self, run: int) -> int:
        """How many jobs of a run have ended."""
        return sum(count for state, count in self.counts(run).items() if state in FINISHED)

    def await_end(self, *runs: int, seconds: float = 30) -> None:
        """Wait until runs are over."""
        for run in runs:
            until(
                lambda run=run: self.ended(run) == sum(self.counts(run).values()),  # type: ignore[misc]
                lambda run=run: f"run {run}: {dict(self.counts(run))}",  # type: ignore[misc]
                seconds,
            )

    def jobs(self, run: int) -> Sequence[Row[*tuple[Any, ...]]]:
        """The jobs of a run with their cases, in order."""
        job, case = schema.job.c, schema.kernel_case.c
        with self.database.reading() as tx:
            return tx.execute(
                select(schema.job, case.name.label("case"))
                .join(schema.kernel_case, case.id == job.case_id)
                .where(job.run_id == run)
                .order_by(job.position)
            ).all()

    def attempts(self, run: int) -> list[tuple[int, int, str, str]]:
        """(job, token, outcome, reason) of every attempt of a run."""
        job, attempt = schema.job.c, schema.attempt.c
        with self.database.reading() as tx:
            rows = tx.execute(
                select(attempt.job_id, attempt.token, attempt.outcome, attempt.reason)
                .join(schema.job, job.id == attempt.job_id)
                .where(job.run_id == run)
                .order_by(attempt.job_id, attempt.token)
            ).all()
        return [(row[0], row[1], row[2], row[3]) for row in rows]

    def events(self, kind: str = "") -> list[Event]:
        """What the planted runners did, in order of time."""
        path = planted_runner.events_path(self.settings)
        lines = path.read_text().splitlines() if path.exists() else []
        events = [_event(line.split()) for line in lines if line.startswith(kind)]
        return sorted(events, key=lambda event: event.at)

    def await_start(self, count: int = 1, seconds: float = 20) -> None:
        """Wait until so many jobs have begun."""
        until(lambda: len(self.events("start")) >= count, "no job begins", seconds)

    def await_mark(self, job: int, device: str = "a") -> None:
        """Wait until the worker has noted on disk that this job is on the device.

        The worker notes it when it has read the answer of the job before, and the job may have
        begun by then.
        """
        (path,) = (self.settings.data / "markers").glob(f"{self.key(device)}.*")
        with Marker(path) as marker:
            until(lambda: (marker.read() or (0, 0))[0] == job, f"job {job} is not marked")

    def check(self, *runs: int) -> None:
        """Nothing was lost, nothing counted twice, nothing ran beside something else.

        Every job has ended, within its tries; what passed has the one attempt that settled it; no
        token ran twice; no two runs overlap on a device.
        """
        for run in runs:
            rows = self.jobs(run)
            attempts = {(job, token): outcome for job, token, outcome, _ in self.attempts(run)}
            assert {row.state for row in rows} <= set(FINISHED), self.counts(run)
            assert all(row.tries <= MAX_TRIES for row in rows)
            for row in rows:
                if row.state == JobState.PASSED:
                    assert attempts[row.id, row.settled_token] == "passed"
        starts = Counter((event.job, event.token) for event in self.events("start"))
        assert not [pair for pair, times in starts.items() if times > 1]
        self._check_no_overlap()

    def _check_no_overlap(self) -> None:
        on_device: dict[str, Event] = {}
        for event in self.events():
            running = on_device.get(event.device)
            if event.kind == "end":
                same = running and (running.job, running.token) == (event.job, event.token)
                assert same, f"{running} while {event} ends"
                del on_device[event.device]
            else:
                assert not running or not alive(running.pid) or running.pid == event.pid
                on_device[event.device] = event


def until(
    done: Callable[[], object], complaint: str | Callable[[], str], seconds: float = 10
) -> None:
    """Wait for something that takes so long on a quiet machine; fail with the complaint."""
    end = time.monotonic() + LOADED * seconds
    while not done():
        if time.monotonic() > end:
            raise AssertionError(complaint if isinstance(complaint, str) else complaint())
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process runs: it is there and no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rsplit(")", 1)[1].split()[0] != "Z"


def kill(process: subprocess.Popen[bytes]) -> None:
    """kill -9, and wait for the end."""
    process.send_signal(signal.SIGKILL)
    process.wait()


def free_port() -> int:
    """A TCP port that no process uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _event(words: list[str]) -> Event:
    kind, device, job, token, at, pid = words
    return Event(
        kind=kind, device=device, job=int(job), token=int(token), at=float(at), pid=int(pid)
    )
