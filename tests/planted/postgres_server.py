"""A PostgreSQL server of our own, which may be stopped at once, started again and copied."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

import psycopg

from cluster import free_port, until
from processes import family
from vkbench_db.database import Database
from vkbench_scheduler.bundles import keep_packaged

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 1 << 32  # that have to be free there: the write-ahead log alone may take 1 GiB
PREFIX = "vkbench-pg-"  # of the names of clusters' folders
OWNER = "owner.lock"  # in each, locked by the process that it belongs to
_OWNED: list[IO[str]] = []  # open as long as this process lives
TEMPLATE = "vkbench_template"  # a database as a scheduler that had nothing to do leaves it


def cluster_folder() -> Path:
    """A new folder for a cluster, in memory where there is room: databases are made faster there.

    It is not one of root's: PostgreSQL refuses to run as root. It is this process's until that
    ends, however it ends: whoever makes the next one ends the servers of processes that are gone.
    """
    end_orphans()
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=MEMORY if has_room else None))
    _OWNED.append(lock := (folder / OWNER).open("w"))
    fcntl.flock(lock, fcntl.LOCK_EX)
    return folder


def end_orphans() -> None:
    """Stop the servers whose process was killed before it could, and remove their folders."""
    for place in {MEMORY, Path(tempfile.gettempdir())}:
        for path in place.glob(f"{PREFIX}*/{OWNER}"):
            with suppress(OSError), path.open("w") as lock:  # of another user, or just removed
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _end_server(path.parent)
                shutil.rmtree(path.parent, ignore_errors=True)


def _end_server(folder: Path) -> None:
    """Stop the server of a folder at once, if one runs, and wait until it is gone."""
    try:
        pid = int((folder / "data" / "postmaster.pid").read_text().split()[0])
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError, IndexError):
        return
    if str(folder).encode() in command:  # else the number is another process's by now
        os.kill(pid, signal.SIGQUIT)
        until(lambda: not Path(f"/proc/{pid}").exists(), f"the server {pid} does not end", 30)


class PostgresServer:
    """A cluster in a temporary folder, listening on this host alone."""

    def __init__(self) -> None:
        self._folder = cluster_folder()
        self._user = "postgres" if os.geteuid() == 0 else None
        if self._user:
            shutil.chown(self._folder, self._user)
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._data = str(self._folder / "data")

    def make_standby_of(self, primary: PostgresServer) -> None:
        """Make a copy of a running server, which follows it from its start on."""
        shutil.rmtree(self._data, ignore_errors=True)
        options = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        copying = [str(program("pg_basebackup")), "-d", primary.url("postgres"), *options]
        self._run([*copying, "-D", self._data])

    def url(self, name: str) -> str:
        """The URL of a database."""
        return f"postgresql://vk@{self.place}/{name}"

    @property
    def place(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self._port}"

    @property
    def folder(self) -> Path:
        """Where all it keeps lies."""
        return self._folder

    def start(self) -> None:
        """Start it, with an empty cluster if it has none, and wait until it answers."""
        if not Path(self._data).exists():
            self._make()
        flags = ["-p", str(self._port), "-F", "-c", "listen_addresses=127.0.0.1"]
        # What a server does now and then, it does soon: its processes are warm after a checkpoint.
        flags += ["-c", "unix_socket_directories=", "-c", "checkpoint_timeout=30s"]
        flags += ["-c", "wal_retrieve_retry_interval=200ms"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(program("postgres")), "-D", self._data, *flags],
                user=self._user,
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )
        until(lambda: self._answers(), "PostgreSQL does not answer", 30)

    def stop(self) -> None:
        """Stop it at once, as a crash would."""
        if self._process:
            self._process.send_signal(signal.SIGQUIT)  # immediate
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """kill -9 of all its processes, as a loss of power would."""
        if self._process:
            for pid in family(self._process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def set(self, setting: str) -> None:
        """Change a setting now, and for later starts."""
        self.execute(f"ALTER SYSTEM SET {setting}")
        self.execute("SELECT pg_reload_conf()")

    def close(self) -> None:
        """Stop it and remove all it kept."""
        self.stop()
        shutil.rmtree(self._folder)

    def make_template(self) -> None:
        """Make the database that others are copies of."""
        self.execute(f"CREATE DATABASE {TEMPLATE}")
        with Database.open(self.url(TEMPLATE), create=True) as database:
            keep_packaged(database)

    def make_database(self, name: str) -> str:
        """The URL of a new database with the schema and the packaged kernels."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        self.execute(copy_of(TEMPLATE, name))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Remove a database, which takes 47 MB; nothing if the server is down."""
        with suppress(psycopg.OperationalError):
            self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, statement: str) -> None:
        """Run one statement outside of any transaction."""
        with self._connected() as connection:
            connection.execute(statement.encode())

    def ask(self, question: str) -> object:
        """The one value that a statement answers."""
        with self._connected() as connection:
            row = connection.execute(question.encode()).fetchone()
            return row and row[0]

    def _connected(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self.url("postgres"), autocommit=True, connect_timeout=2)

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def _make(self) -> None:
        options = ["--username=vk", "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
        self._run([str(program("initdb")), "-D", self._data, *options])

    def _run(self, command: list[str]) -> None:
        subprocess.run(
            command, check=True, user=self._user, cwd=self._folder, stdout=subprocess.DEVNULL
        )


def copy_of(template: str, name: str) -> str:
    """The statement that makes a database as a copy of a template's files.

    Servers from 15 on would write each page to their log, which takes twice as long.
    """
    files = " STRATEGY FILE_COPY" if server_version() >= 15 else ""
    return f"CREATE DATABASE {name} TEMPLATE {template}{files}"


@cache
def server_version() -> int:
    """The major version of the server that is installed."""
    asked = [str(program("postgres")), "--version"]
    said = subprocess.run(asked, check=True, capture_output=True, text=True).stdout
    [number] = re.findall(r"\(PostgreSQL\) (\d+)", said)
    return int(number)


def program(name: str) -> Path | None:
    """A program of PostgreSQL, also where Debian keeps it; None if it is not installed."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    path = os.pathsep.join([*map(str, folders), os.environ["PATH"]])
    found = shutil.which(name, path=path)
    return Path(found) if found else None
