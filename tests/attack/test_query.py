"""Strangers at /query: they take no page from others, and only so much memory and disk."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote, urlsplit

import pytest
import yaml

from browser import served
from databases import PAGES, READER, Cluster, Lab, url_as, with_roles
from processes import children, own_bytes
from vkbench_db.ask.sql import public, readonly
from vkbench_db.errors import QueryRefused
from vkbench_web.asking import AT_ONCE, WAITING

ROOT = Path(__file__).parents[2]
ASKERS = 80
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
PUBLIC = readonly.Bounds(is_public=True, seconds=public.MOST_SECONDS)
NUMBERS = "generate_series(1, {}) AS i"
GREEDY = {
    "a text of all rows": "SELECT length(string_agg(repeat('x', 1000000), '')) FROM "
    + NUMBERS.format(900),
    "an array of all rows": "SELECT cardinality(array_agg(i)) FROM " + NUMBERS.format(100_000_000),
    "texts of the plan": "SELECT "
    + ", ".join(f"length(repeat('x', 200000000)) AS a{number}" for number in range(9)),
    "a hash table": "SELECT count(DISTINCT i) FROM " + NUMBERS.format(100_000_000),
    "a sort": "SELECT * FROM (SELECT repeat(md5(i::text), 20) FROM "
    + NUMBERS.format(5_000_000)
    + " ORDER BY 1) AS s LIMIT 1 OFFSET 4000000",
    "rows that are kept": "SELECT count(*) FROM " + NUMBERS.format(100_000_000),
    "large rows": "SELECT repeat('x', 10000000) FROM " + NUMBERS.format(500),
}


@pytest.fixture(scope="module")
def template(cluster: Cluster, template: str) -> str:
    """The pages have roles of their own."""
    return with_roles(cluster, template)


def seconds_of(origin: str, path: str) -> float:
    """How long a page takes."""
    connection = HTTPConnection(urlsplit(origin).netloc, timeout=60)
    began = time.monotonic()
    connection.request("GET", path)
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200
    return time.monotonic() - began


@contextmanager
def askers(origin: str, sql: str, count: int = ASKERS) -> Iterator[list[socket.socket]]:
    """So many visitors who have all asked the same and wait for the answer."""
    place = urlsplit(origin)
    request = f"GET /query?sql={quote(sql)} HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n"
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection((place.hostname, place.port or 80)))
            for _ in range(count)
        ]
        for each in sockets:
            each.sendall(request.encode())
        yield sockets


def answered(sockets: list[socket.socket]) -> list[bytes]:
    """The heads of the answers that have come."""
    heads = []
    for each in sockets:
        each.setblocking(False)
        with suppress(BlockingIOError):
            heads.append(each.recv(4096).partition(b"\r\n\r\n")[0])
    return heads


@pytest.mark.timeout(300)
def test_eighty_askers_keep_pages_from_others(
    lab: Lab, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.settle(lab.add_device())
    monkeypatch.setenv("VKBENCH_DATABASE", url_as(url, PAGES))
    monkeypatch.setenv("VKBENCH_QUERY_DATABASE", url_as(url, READER))
    pages = ("/fleet", "/runs") * 10
    with served() as origin:
        idle = [seconds_of(origin, path) for path in pages]
        with askers(origin, ENDLESS) as sockets:
            beside = [seconds_of(origin, path) for path in pages]
            refused = answered(sockets)
    print(f"{max(idle):.3f} s at most alone, {max(beside):.3f} beside {ASKERS} askers")
    assert sum(beside) < 5 * sum(idle)
    assert len(refused) == ASKERS - AT_ONCE - WAITING
    assert all(head.startswith(b"HTTP/1.1 503 ") for head in refused)
    assert all(b"\r\nretry-after: " in head for head in refused)


@dataclass
class Peak:
    """What a server's processes and temporary files took at most, and a reader of its rows."""

    memory: int = 0  # of one process: its own, not what it shares with others
    files: int = 0
    reader: int = 0


def postmaster(cluster: Cluster) -> int:
    return int((cluster.folder / "data/postmaster.pid").read_text().split()[0])


def command(pid: int) -> bytes:
    """The words of a process: its parent's until it becomes another program."""
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@contextmanager
def watched(cluster: Cluster) -> Iterator[Peak]:
    """Looks at a server many times a second."""
    peak, over, server = Peak(), Event(), postmaster(cluster)
    others = {*children(os.getpid())}

    def look() -> None:
        while not over.wait(0.01):
            with suppress(FileNotFoundError):
                sizes = [own_bytes(pid, shared=False) for pid in children(server)]
                peak.memory = max(peak.memory, *sizes)
            with suppress(FileNotFoundError):
                begun = {*children(os.getpid())} - others
                readers = [pid for pid in begun if command(pid) != command(os.getpid())]
                peak.reader = max([peak.reader, *map(own_bytes, readers)])
            files = cluster.folder.glob("data/base/pgsql_tmp/*")
            with suppress(FileNotFoundError):
                peak.files = max(peak.files, sum(file.stat().st_size for file in files))

    thread = Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        over.set()
        thread.join()


@pytest.fixture
def bounded(cluster: Cluster) -> Iterator[int]:
    """Sessions of the server may have as much memory as those of compose.yaml."""
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    found = re.search(r"ulimit -d ([0-9]+) ", " ".join(services["postgres"]["command"]))
    assert found
    most = int(found[1]) << 10
    as_its_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    limit = [*as_its_user, "prlimit", f"--pid={postmaster(cluster)}"]  # and those that it starts
    subprocess.run([*limit, f"--data={most}:"], check=True)
    yield most
    subprocess.run([*limit, "--data=unlimited:"], check=True)


@pytest.mark.parametrize("engine_name", ["postgresql"])
@pytest.mark.parametrize("name", GREEDY)
def test_one_statement_takes_gigabytes_of_the_server(
    url: str, cluster: Cluster, bounded: int, name: str
) -> None:
    reader = url_as(url, READER)
    with watched(cluster) as peak, pytest.raises(QueryRefused) as refused:
        readonly.query(reader, GREEDY[name], PUBLIC)
    print(f"{peak.memory >> 20} MB, {peak.files >> 20} MB of files: {refused.value}")
    assert peak.memory <= 1.1 * bounded  # and what of its program is in memory
    assert peak.files <= PUBLIC.memory
    assert 0 < peak.reader <= PUBLIC.memory
    assert readonly.query(reader, "SELECT 1", PUBLIC)[1] == [(1,)]
