"""Fixtures: a database of each engine for every test, and a lab to fill it.

Each process of tests starts one PostgreSQL server, in a temporary folder. A test gets a copy of a
database whose schema is made once.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, make_url, select, text

from postgres_server import cluster_folder, copy_of, program
from shared_folder import shared_folder
from vkbench.device import DeviceFacts, Environment, HostDriver, device_key
from vkbench.job import Job, JobState, Mode, Outcome, PlannedJob
from vkbench.messages.wire import Announcement
from vkbench.result import Result, Timing, Verdict, pack_samples
from vkbench.run import RunWords
from vkbench.settings import Settings
from vkbench_db import schema
from vkbench_db.database import Database, upgrade
from vkbench_db.upkeep.roles import pages_role_sql, reader_role_sql
from vkbench_db.work import store
from vkbench_scheduler.bundles import keep_packaged

READER, PAGES = "reader", "pages"  # roles of PostgreSQL in each database
ENGINES = ("sqlite", "postgresql")
# Tests whose every statement other tests of their module run on both engines need but one of them.
one_engine = pytest.mark.parametrize("engine_name", ["sqlite"])
NOW = 1_790_000_000.0

Need = Callable[[str, str], NoReturn]


@dataclass
class Cluster:
    """A running PostgreSQL cluster."""

    folder: Path
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def url(self, name: str) -> str:
        return f"postgresql:///{name}?host={self.folder}&user=postgres"

    def create(self, template: str = "template1") -> str:
        name = f"test_{next(self.numbers)}"
        self.execute(copy_of(template, name))
        return name

    def execute(self, statement: str) -> None:
        with self.engine.connect() as connection:
            connection.execute(text(statement))

    @cached_property
    def engine(self) -> Engine:
        """Keeps its connection: two statements a test make and remove its database."""
        url = self.url("postgres").replace("postgresql", "postgresql+psycopg", 1)
        return create_engine(url, isolation_level="AUTOCOMMIT")


@pytest.fixture(scope="session")
def cluster(need: Need) -> Iterator[Cluster]:
    """A PostgreSQL cluster of this session's own."""
    initdb = program("initdb") or need("postgres", "initdb is not installed")
    folder = cluster_folder()
    prefix = _other_user(folder, need) if os.geteuid() == 0 else []
    control = [*prefix, str(initdb.with_name("pg_ctl")), "-D", str(folder / "data")]

    def run(*command: str) -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, timeout=60)

    form = ["-U", "postgres", "-A", "trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
    make = [str(initdb), "-D", str(folder / "data"), *form]
    run(*prefix, *make)
    options = (
        f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        " -c synchronous_commit=off -c full_page_writes=off"
    )
    log = ["-l", str(folder / "log")]
    run(*control, "-w", *log, "-o", options, "start")
    made = Cluster(folder)
    yield made
    made.engine.dispose()
    run(*control, "-m", "immediate", "stop")
    shutil.rmtree(folder)


def _other_user(folder: Path, need: Need) -> list[str]:
    """The words that run a command as user postgres: the server refuses to run as root."""
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        need("postgres", "there is no user postgres, and the server refuses to be root's")
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["runuser", "-u", "postgres", "--"]


@pytest.fixture(scope="session")
def template(cluster: Cluster) -> str:
    """The name of a database with the schema and nothing in it."""
    name = cluster.create()
    upgrade(cluster.url(name))
    return name


def with_roles(cluster: Cluster, template: str) -> str:
    """The name of a copy of a database that has the roles of the pages."""
    name = cluster.create(template)
    with psycopg.connect(cluster.url(name), autocommit=True) as admin:
        admin.execute(reader_role_sql(READER).encode())
        admin.execute(pages_role_sql(PAGES).encode())
    return name


@pytest.fixture(scope="session")
def template_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the schema and nothing in it."""
    path = tmp_path_factory.mktemp("template") / "vkbench.db"
    upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def after_a_run(template_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database as any command that runs kernels leaves it: it has those of this version.

    Packing all kernels takes the first command two seconds of a core.
    """
    with shared_folder(tmp_path_factory, "after") as folder:
        path = folder / "results.db"
        if not path.exists():
            shutil.copy(template_file, folder / "new.db")
            with Database.open(f"sqlite:///{folder}/new.db") as opened:
                keep_packaged(opened)
            (folder / "new.db").rename(path)
    return path


@pytest.fixture(params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def empty_url(engine_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database without tables."""
    with _empty(engine_name, tmp_path / "empty.db", request) as url:
        yield url


@pytest.fixture
def second_url(engine_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of another database without tables."""
    with _empty(engine_name, tmp_path / "second.db", request) as url:
        yield url


@contextmanager
def _empty(engine_name: str, path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    if engine_name == "sqlite":
        yield f"sqlite:///{path}"
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    name = cluster.create()
    yield cluster.url(name)
    cluster.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def url(engine_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a database with the schema."""
    if engine_name == "sqlite":
        path = tmp_path / "vkbench.db"
        shutil.copy(request.getfixturevalue("template_file"), path)
        yield f"sqlite:///{path}"
        return
    cluster: Cluster = request.getfixturevalue("cluster")
    name = cluster.create(request.getfixturevalue("template"))
    yield cluster.url(name)
    cluster.execute(f"DROP DATABASE {name} WITH (FORCE)")


def url_as(url: str, role: str) -> str:
    """The URL of the same database for a role of PostgreSQL; SQLite has no roles."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return url
    return parsed.update_query_dict({"user": role}).render_as_string(hide_password=False)


def settings_of_pages(url: str, folder: Path) -> Settings:
    """Settings of pages whose roles have no more rights than they need, where there are roles."""
    return Settings(
        database=url_as(url, PAGES),
        query_database=url_as(url, READER),
        data=folder,
        cache=folder,
        host="here",
    )


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """An open database of each engine."""
    with Database.open(url) as database:
        yield database


@pytest.fixture
def elsewhere(tmp_path: Path, template_file: Path) -> Iterator[Database]:
    """Another host's database."""
    path = tmp_path / "elsewhere.db"
    shutil.copy(template_file, path)
    with Database.open(f"sqlite:///{path}") as database:
        yield database


NO_WORDS = RunWords()


@dataclass
class Lab:
    """Devices, runs and results in a database, a few words each."""

    database: Database
    now: float = NOW

    def add_device(
        self,
        name: str = "llvmpipe",
        host: str = "alpha",
        *,
        kind: str = "cpu",
        environment: Environment | None = None,
        drivers: tuple[HostDriver, ...] | None = None,
    ) -> str:
        key = device_key(host, name)
        facts = replace(self.facts(name, host), type=kind)
        announcement = Announcement(
            worker=f"{host}:1",
            facts=facts,
            environment=environment or ENVIRONMENT,
            bundle="b",
            drivers=drivers,
        )
        with self.database.transaction() as tx:
            store.register_device(tx, announcement, self.now)
        return key

    def facts(self, name: str = "llvmpipe", host: str = "alpha") -> DeviceFacts:
        return DeviceFacts(
            key=device_key(host, name),
            host=host,
            index=0,
            name=name,
            uuid=name,
            vendor_id=0x10005,
            device_id=0,
            type="cpu",
            memory_bytes=2**40,
            subgroup_size=8,
            features=("int8", "subgroup"),
            limits={"max_storage_buffer_range": 2**27},
        )

    def planned(self, device: str, case: str | int = 1, **changes: Any) -> PlannedJob:
        name = case if isinstance(case, str) else f"mul_mat_vec/q4_0/m{case}_n1_k256"
        values: dict[str, Any] = {
            "device": device,
            "case": name,
            "mode": Mode.PERFORMANCE,
        } | changes
        return PlannedJob(**values)

    def submit(
        self, device: str, cases: Sequence[str | int] | int, *, priority: int = 0, **changes: Any
    ) -> int:
        wanted = range(1, cases + 1) if isinstance(cases, int) else cases
        with self.database.transaction() as tx:
            run = store.create_run(
                tx, mode=Mode.BOTH, selection={}, now=self.now, priority=priority
            ).id
            store.add_jobs(tx, run, (self.planned(device, case, **changes) for case in wanted))
        return run

    def submit_run(
        self, jobs: Sequence[PlannedJob], *, track: str = "", words: RunWords = NO_WORDS
    ) -> int:
        """A run of any kind."""
        with self.database.transaction() as tx:
            mode = Mode.PERFORMANCE
            run = store.create_run(
                tx, mode=mode, selection={}, now=self.now, track=track, words=words
            ).id
            store.add_jobs(tx, run, jobs)
        return run

    def pick(self, device: str, limit: int = 1000, **changes: Any) -> list[Job]:
        with self.database.transaction() as tx:
            return [picked.job for picked in store.pick(tx, device, limit, self.now, **changes)]

    def record(self, *results: Result) -> store.StoredBatch:
        with self.database.transaction() as tx:
            return store.record(tx, results, self.now)

    def answer(
        self, job: Job, outcome: Outcome = Outcome.PASSED, *, seconds: float = 1e-3
    ) -> Result:
        """What a worker would say of a job."""
        settled = outcome in (Outcome.PASSED, Outcome.WRONG)
        timed = outcome == Outcome.PASSED and job.mode == Mode.PERFORMANCE
        return Result(
            job=job.id,
            token=job.token,
            outcome=outcome,
            case=job.case,
            reason="" if outcome == Outcome.PASSED else f"because {outcome}",
            variant="subgroup",
            kernel_sha="5a" * 32,
            verdict=verdict(outcome == Outcome.PASSED) if settled else None,
            timings=(timing("hot", seconds), timing("cold", 2 * seconds)) if timed else (),
            environment=ENVIRONMENT.hash,
            worker="alpha:1",
            started=self.now - 1,
            seconds=0.02,
            telemetry={"clock_mhz": 1500.0},
        )

    def settle(self, run_device: str, outcome: Outcome = Outcome.PASSED, **changes: float) -> None:
        """Do all that waits for a device."""
        while jobs := self.pick(run_device):
            self.record(*(self.answer(job, outcome, **changes) for job in jobs))

    def states(self, run: int) -> list[JobState]:
        job = schema.job.c
        with self.database.reading() as tx:
            rows = tx.execute(select(job.state).where(job.run_id == run).order_by(job.position))
            return [JobState(state) for state in rows.scalars()]


ENVIRONMENT = Environment(
    driver="llvmpipe",
    driver_version="22.3.6",
    driver_info="Mesa",
    api_version="1.3.230",
    loader="1.3.239",
    os="Debian 12",
    os_kernel="6.1",
    cpu="two cores",
    vkbench="0.1.0",
)


def verdict(passed: bool) -> Verdict:
    return Verdict(
        passed=passed,
        reason="" if passed else "NMSE over its limit",
        path="f32",
        nmse=1e-14 if passed else 1e-2,
        nmse_limit=1e-10,
        max_abs=1e-6,
        max_abs_limit=1e-3,
        compared=64,
        total=4096,
        first_bad="" if passed else "y[3]: found 1, expected 2",
    )


def timing(metric: str, seconds: float) -> Timing:
    return Timing(
        metric=metric,
        seconds=seconds,
        mad=seconds / 100,
        low=seconds * 0.99,
        high=seconds * 1.01,
        confidence=0.95,
        best=seconds * 0.9,
        count=3,
        launches=1,
        stop="noise",
        clock="gpu",
        bytes_moved=1_000_000,
        flops=2_000_000,
        samples=pack_samples([seconds, seconds * 0.9, seconds * 1.1]),
        warnings=("shared machine",) if metric == "cold" else (),
    )


def put_in_one_series(lab: Lab) -> None:
    """Put all timings of a lab into series 1, which is made if there is none."""
    with lab.database.transaction() as tx:
        if not tx.execute(text("SELECT id FROM series")).first():
            tx.execute(
                text(
                    "INSERT INTO series (id, device_id, case_id, variant, metric,"
                    " environment_class, track, noise_kind) VALUES"
                    " (1, 1, 1, 'subgroup', 'hot', 'default', 'main', '')"
                )
            )
        tx.execute(
            text(
                "UPDATE measurement SET series_id = 1, measured_at ="
                " (SELECT finished_at FROM job WHERE job.id = measurement.job_id)"
            )
        )


@pytest.fixture
def environment() -> Environment:
    """What the lab's devices run on."""
    return ENVIRONMENT


@pytest.fixture
def lab(database: Database) -> Lab:
    """An empty database, and a lab that fills it."""
    return Lab(database)
