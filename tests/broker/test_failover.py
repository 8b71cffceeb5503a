"""PostgreSQL fails over to a standby: whoever has a URL of both goes on, and nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NoReturn

import pytest
from sqlalchemy import text

from cluster import Lab, RedisServer, free_port, until
from postgres_pair import PostgresPair
from postgres_server import PostgresServer, program
from vkbench.job import JobState
from vkbench_db.database import Database
from vkbench_db.errors import DatabaseUnreachable

Need = Callable[[str, str], NoReturn]
VKBENCH = str(Path(sys.executable).with_name("vkbench"))
PAGES = "from vkbench_cli.main import main; raise SystemExit(main())", "web", "--port"


@pytest.fixture
def pair(need: Need) -> Iterator[PostgresPair]:
    """Two servers with a lab's database."""
    if not program("initdb"):
        need("postgres", "initdb is not installed")
    server = PostgresServer()
    with closing(server):
        server.start()
        server.make_template()
        server.make_database("lab")
        with closing(PostgresPair(server)) as pair:
            yield pair


@pytest.fixture
def lab(pair: PostgresPair, tmp_path: Path, need: Need) -> Iterator[Lab]:
    """A lab on both."""
    if not shutil.which("redis-server"):
        need("redis", "redis-server is not installed")
    redis = RedisServer(tmp_path / "redis")
    with closing(redis):
        redis.start()
        with closing(Lab(folder=tmp_path, database_url=pair.url("lab"), redis=redis)) as lab:
            yield lab


def test_scheduler_pages_and_commands_go_on_by_themselves(lab: Lab, pair: PostgresPair) -> None:
    port = str(free_port())
    devices = f"http://127.0.0.1:{port}/api/devices"
    scheduler, pages = lab.start_scheduler(), lab.start("-c", *PAGES, port, log="pages")
    lab.start_worker()
    until(lambda: answered(devices), "no pages", 60)
    runs = [lab.submit(["sleep/f32/n50"] * 40)]
    lab.await_start(3)
    pair.fail_over()
    until(lambda: answered(devices), "the pages do not come back", 60)
    assert said(lab, "devices")["rows"]
    assert said(lab, "query", "SELECT count(*) FROM run")["rows"]
    runs.append(lab.submit(["sleep/f32/n50"] * 3))
    lab.await_end(*runs, seconds=90)
    lab.check(*runs)
    assert [dict(lab.counts(run)) for run in runs] == [
        {JobState.PASSED: 40},
        {JobState.PASSED: 3},
    ]
    assert {row.tries for run in runs for row in lab.jobs(run)} == {0}
    assert (scheduler.poll(), pages.poll()) == (None, None)


def test_nobody_stays_at_a_server_that_was_demoted(pair: PostgresPair) -> None:
    """Its sessions live on, and answer what was true before."""
    with Database.open(pair.url("lab")) as database:
        before, after = port_of(database), pair.standby
        pair.primary.set("default_transaction_read_only = on")
        after.execute("SELECT pg_promote()")
        assert port_of(database) != before
        with database.transaction() as tx:
            tx.execute(text("INSERT INTO host (name) VALUES ('h')"))
        assert after.place.endswith(str(port_of(database)))


def test_a_standby_is_a_database_to_wait_for(pair: PostgresPair) -> None:
    """Behind one name there may be a standby for a while."""
    with Database.open(pair.standby.url("lab")) as database:
        with pytest.raises(DatabaseUnreachable) as error, database.transaction() as tx:
            tx.execute(text("INSERT INTO host (name) VALUES ('h')"))
        assert "read-only" in str(error.value)
        pair.standby.execute("SELECT pg_promote()")
        with database.transaction() as tx:
            tx.execute(text("INSERT INTO host (name) VALUES ('h')"))


def test_a_host_that_falls_silent_is_noticed(pair: PostgresPair) -> None:
    """Whose power is cut resets no connection, and TCP alone would wait for two hours."""
    with Database.open(pair.url("lab")) as database, database.reading() as tx:
        raw = tx.connection.driver_connection
        assert raw
        with socket.socket(fileno=os.dup(raw.fileno())) as ours:
            idle, each, count, unheard = (
                ours.getsockopt(socket.IPPROTO_TCP, option)
                for option in (
                    socket.TCP_KEEPIDLE,
                    socket.TCP_KEEPINTVL,
                    socket.TCP_KEEPCNT,
                    socket.TCP_USER_TIMEOUT,
                )
            )
    assert 0 < idle + each * count <= 30
    assert 0 < unheard <= 30_000


def answered(url: str) -> object:
    """What the pages answer; None for an error."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)
    except OSError:
        return None


def said(lab: Lab, *words: str) -> dict[str, list[object]]:
    done = subprocess.run([VKBENCH, *words, "--json"], env=lab.environ(), capture_output=True)
    assert done.returncode == 0, done.stderr
    answer: dict[str, list[object]] = json.loads(done.stdout)
    return answer


def port_of(database: Database) -> int:
    with database.reading() as tx:
        return int(tx.execute(text("SELECT inet_server_port()")).scalar_one())
