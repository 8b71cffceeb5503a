"""Whatever is asked of whatever page: no internal error, no foreign HTML, and nothing is written.

The pages are found by their routes; what they can be asked is what their own links and forms name,
what they look up in a URL, and what OpenAPI describes. `BAD_REQUESTS=10000` asks more often.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import MetaData, insert, select
from starlette.datastructures import QueryParams

from databases import ENGINES, Cluster, Lab, settings_of_pages
from vkbench.job import Mode, Outcome
from vkbench.run import RunWords
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_detection.series import placing
from vkbench_web.app import application
from vkbench_web.lab import Lab as Pages

REQUESTS = int(os.environ.get("BAD_REQUESTS", "150"))  # of each engine
EVIL = """<xss a="'>&lt;script>alert(1)</script>"""
FORBIDDEN = ("<xss", "<script>alert", '" onxss=')
CASES = ("add/f32/h2_w3", "mul_mat_vec/q4_0/m8_n1_k256", "mul_mat_vec/q8_0/m8_n1_k256")
METHODS = ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD")
PLAUSIBLE = (
    *("1", "2", "3", "-1", "0", "99", "2147483648", "9" * 30, "1e9", "nan", "inf", "..", "1..2"),
    *(">1", "<1", ">x", "last", "hot", "cold", "csv", "json", "mul*", "*", "?", "[", "[a-", "a,b"),
    *("bundle:", "bundle:5a5a", "driver:22.3.6", "device:llvmpipe", "device:*", "date:2026-11-01"),
    *("date:9999-12-31", "date:0001-01-01", "baseline:x", "-sigma", "-", "ordinal", "zero", "true"),
    *("passed", "open", "add", "q4_0", "SELECT * FROM v_latest", "SELECT 1", "DELETE FROM run"),
    *("live", "content", "٣", "²", "\x00", "%00", "\r\nx: y", "\ud7ff", "é" * 1500, "*a" * 30),
    *('" onxss="1', EVIL, "'; DROP TABLE run; --", "{{ 7 * 7 }}", "${x}", "../../etc/passwd"),
)
COMMON = ("q", "part", "page", "sort", "format")
VALUES = st.one_of(st.sampled_from(PLAUSIBLE), st.text(max_size=20), st.integers().map(str))


@dataclass
class Site:
    """The pages of a lab full of names that others chose."""

    client: TestClient
    database: Database
    names: dict[str, set[str]] = field(default_factory=dict)  # of parameters, by the route's path

    def contents(self) -> str:
        """A digest of every row."""
        digest = hashlib.sha256()
        with self.database.reading() as tx:
            tables = MetaData()
            tables.reflect(tx)
            for table in sorted(tables.tables.values(), key=lambda one: one.name):
                rows = sorted(map(repr, tx.execute(select(table)).all()))
                digest.update(repr((table.name, rows)).encode())
        return digest.hexdigest()


class Named(HTMLParser):
    """The parameters that the links and forms of a page name, by the path that they lead to."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = self.target = path
        self.fields: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "form":
            self.target = attributes.get("action") or self.path
        if tag in ("input", "select", "textarea") and (name := attributes.get("name")):
            self.fields.append((self.target, name))
        for link in (attributes.get("href"), attributes.get("hx-get")):
            self._follow(link or "")

    def _follow(self, link: str) -> None:
        parts = urlsplit(link)
        for name, value in parse_qsl(parts.query):
            self.fields.append((parts.path or self.path, name))
            if name == "sort":  # a column, which also filters
                self.fields.append((parts.path or self.path, value.removeprefix("-")))


@pytest.fixture(scope="module", params=ENGINES)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("template_file"), folder / "vkbench.db")
        url = f"sqlite:///{folder / 'vkbench.db'}"
    else:
        cluster: Cluster = request.getfixturevalue("cluster")
        url = cluster.url(cluster.create(request.getfixturevalue("template")))
    app = application(Pages(settings_of_pages(url, folder)))
    with (
        Database.open(url) as database,
        TestClient(app, raise_server_exceptions=False, follow_redirects=False) as client,
    ):
        fill(Lab(database))
        made = Site(client, database)
        made.names = parameters(client, paths(client))
        yield made


def fill(lab: Lab) -> None:
    """Nights of two devices; what others named holds HTML."""
    devices = [lab.add_device(f"llvmpipe {EVIL}"), lab.add_device(EVIL, f"beta{EVIL}")]
    for night in range(3):
        for device in devices:
            with lab.database.transaction() as tx:
                run = store.create_run(
                    tx,
                    mode=Mode.BOTH,
                    selection={"kernel": [EVIL]},
                    now=lab.now,
                    words=RunWords(label=EVIL, user=EVIL, tags={EVIL: EVIL}),
                ).id
                store.add_jobs(tx, run, (lab.planned(device, case) for case in CASES))
            outcome = Outcome.WRONG if night == 2 else Outcome.PASSED
            lab.settle(device, outcome, seconds=1e-3 * (1 + night))
        lab.now += 86400
    lab.submit(devices[0], 2)
    with lab.database.transaction() as tx:
        placing.place(tx, lab.now)
        regress(tx, lab.now)


def regress(tx: Any, now: float) -> None:
    """A regression, and what it was pinned to."""
    change = {
        "series_id": 1, "method": "screen", "direction": "slower", "before_job": 1,
        "after_job": 7, "before_kernel": EVIL, "after_kernel": "b", "before_bundle": EVIL,
        "after_bundle": "b", "before_environment": "c", "after_environment": EVIL,
        "found_at": now, "ratio": 2.0, "low": 1.9, "high": 2.1, "p": 1e-9,
        "state": "confirmed", "cause": "kernel",
    }  # fmt: skip
    tx.execute(insert(schema.change_point).values(id=100, **change))
    tx.execute(
        insert(schema.change_point_event).values(
            change_point_id=100, at=now, state="confirmed", note=EVIL
        )
    )
    tx.execute(
        insert(schema.regression).values(
            id=1, group_key=EVIL, direction="slower", cause="kernel", title=EVIL, state="open",
            opened_at=now, changed_at=now, owner=EVIL,
        )
    )  # fmt: skip
    tx.execute(insert(schema.regression_member).values(change_point_id=100, regression_id=1))
    tx.execute(
        insert(schema.regression_event).values(
            regression_id=1, at=now, state="open", user_name=EVIL, note=EVIL
        )
    )
    tx.execute(
        insert(schema.baseline).values(
            name=EVIL, kind="run", value="1", created_at=now, user_name=EVIL
        )
    )


def paths(client: TestClient) -> list[str]:
    """The paths of all pages and of the API, with the names of what stands in them."""

    def paths_of(routes: Any) -> Iterator[str]:
        for route in routes:
            inner = getattr(route, "original_router", None)
            if inner is not None:
                yield from paths_of(inner.routes)
            elif "GET" in (getattr(route, "methods", None) or ()):
                yield route.path

    every = set(paths_of(client.app.routes))  # type: ignore[attr-defined]
    return sorted(every)


def parameters(client: TestClient, every: list[str]) -> dict[str, set[str]]:
    """The names that each path can be asked with."""
    names: dict[str, set[str]] = {path: {*COMMON, "unknown"} for path in every}
    described = client.get("/api/openapi.json").json()["paths"]
    for path, methods in described.items():
        names.setdefault(path, {*COMMON}).update(
            parameter["name"] for parameter in methods.get("get", {}).get("parameters", ())
        )
    for path in every:
        for query in ("", "?old=1&new=2&all=1", "?sql=SELECT 1 AS x"):
            with watched() as looked_up:
                answer = client.get(filled_in(path, lambda _: "1") + query)
            names[path] |= looked_up
            parser = Named(path)
            parser.feed(answer.text if "html" in answer.headers.get("content-type", "") else "")
            for target, name in parser.fields:
                if route := route_of(target, every):
                    names[route].add(name)
            names[path] |= columns(client, filled_in(path, lambda _: "1") + query)
    return names


def columns(client: TestClient, target: str) -> set[str]:
    """The columns of a page's table, hidden ones too, by which its URL filters."""
    download = client.get(target + ("&" if "?" in target else "?") + "format=json")
    kind = download.headers.get("content-disposition", "")
    rows = download.json()["rows"] if kind.startswith("attachment") else []
    return set(rows[0]) if rows else set()


class watched:
    """The names that are looked up in URLs meanwhile."""

    def __enter__(self) -> set[str]:
        keys: set[str] = set()
        self.patch = pytest.MonkeyPatch()
        for method in ("get", "getlist", "__getitem__"):
            real = getattr(QueryParams, method)

            def noting(self: Any, key: str, *more: Any, real: Any = real) -> Any:
                keys.add(key)
                return real(self, key, *more)

            self.patch.setattr(QueryParams, method, noting, raising=False)
        return keys

    def __exit__(self, *_: object) -> None:
        self.patch.undo()


def filled_in(path: str, value: Callable[[str], str]) -> str:
    return re.sub(r"\{(\w+)(?::\w+)?\}", lambda match: value(match[1]), path)


def route_of(path: str, every: list[str]) -> str | None:
    for route in every:
        if re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", route), path):
            return route
    return None


@given(data=st.data())
@settings(
    max_examples=REQUESTS,
    deadline=None,
    derandomize=REQUESTS < 1000,
    database=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.timeout(3600)
def test_no_request_breaks_a_page(site: Site, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(site.names)))
    target = filled_in(path, lambda _: quote(data.draw(VALUES), safe=""))
    pairs = st.lists(st.tuples(st.sampled_from(sorted(site.names[path])), VALUES), max_size=4)
    query = urlencode(data.draw(pairs), errors="replace")
    check(site, "GET", f"{target}?{query}")


def check(site: Site, method: str, target: str, **more: Any) -> None:
    answer = site.client.request(method, target, **more)
    assert answer.status_code < 500, (method, target, answer.status_code, answer.text[-300:])
    kind = answer.headers.get("content-type", "")
    if "html" in kind:
        shown = [text for text in FORBIDDEN if text in answer.text]
        assert not shown, (target, shown)
    elif "json" in kind and answer.content and method != "HEAD":
        json.loads(answer.text, parse_constant=lambda word: pytest.fail(f"{target}: {word}"))


def test_every_route_is_among_them(site: Site) -> None:
    """Each route is found with its parameters, and each page shows evil names as text."""
    assert {"q", "sigma", "host", "device", "kernel", "case_name"} <= site.names["/series"]
    assert {"with", "x", "y", "driver", "seconds"} <= site.names["/series/{number}"]
    assert {"old", "new", "all", "metric", "change"} <= site.names["/compare"]
    assert {"sql", "x"} <= site.names["/query"]
    assert {"limit", "state", "device"} <= site.names["/api/regressions"]
    before = site.contents()
    for path in site.names:
        for value in ("1", "last", "add"):
            check(site, "GET", filled_in(path, lambda _, value=value: value))  # type: ignore[misc]
    for query in ("old=1&new=3&all=1", "old=device:*&new=last", "old=2&new=4&all=1"):
        check(site, "GET", f"/compare?{query}")
    check(site, "GET", "/query?sql=SELECT device_name, title FROM v_regressions")
    assert site.contents() == before


def test_nothing_is_written_without_a_token(site: Site) -> None:
    before = site.contents()
    for path in site.names:
        target = filled_in(path, lambda _: "1")
        for method in METHODS:
            for body in (
                {},
                {"json": {"state": "closed", "note": EVIL, "kernel": ["add"]}},
                {"data": {"state": "closed", "csrf": "x"}, "headers": {"origin": "http://evil"}},
                {"content": b"\xff{", "headers": {"content-type": "application/json"}},
            ):
                check(site, method, target, **body)
    assert site.contents() == before
