"""The pages of regressions show the evidence, and what people may do about it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser
from sqlalchemy import insert, select, update

from browser import DESKTOP, PHONE, Scheme, served, visiting
from databases import Lab, one_engine, put_in_one_series
from vkbench_db import demonstration, schema
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.bisections import Candidate
from vkbench_db.upkeep.tokens import Scope
from vkbench_detection.regress import regressions

Plant = Callable[..., int]


@pytest.fixture
def regressed(lab: Lab, planted_regression: Plant) -> Lab:
    """Regression 1, of two jobs that took 1 and 2 ms."""
    device = lab.add_device()
    planted_regression(device, "copy/f32/n4096", "aa" * 32, "bb" * 32)
    first, second = lab.pick(device)
    lab.record(lab.answer(first, seconds=1e-3), lab.answer(second, seconds=2e-3))
    put_in_one_series(lab)
    with lab.database.transaction() as tx:
        timing = schema.measurement
        tx.execute(update(timing).where(timing.c.metric != "hot").values(series_id=None))
    return lab


def test_the_inbox_shows_what_to_look_at(pages: TestClient, regressed: Lab) -> None:
    [row] = pages.get("/regressions?format=json").json()["rows"]
    assert (row["state"], row["direction"], row["cause"]) == ("open", "slower", "kernel")
    assert 'href="/regressions/1"' in pages.get("/regressions?part=live").text
    close(regressed)
    assert pages.get("/regressions?format=json").json()["rows"] == []
    for query in ("all=1", "state=closed"):
        assert len(pages.get(f"/regressions?{query}&format=json").json()["rows"]) == 1
        assert "are left out" not in pages.get(f"/regressions?{query}").text
    assert "are left out" in pages.get("/regressions").text


def test_uncertain_changes_are_listed_apart(pages: TestClient, regressed: Lab) -> None:
    assert "No change is waiting" in pages.get("/regressions").text
    with regressed.database.transaction() as tx:
        tx.execute(update(schema.change_point).values(state="suspected"))
    assert "1 suspected" in pages.get("/regressions").text
    [row] = pages.get("/regressions/suspected?format=json").json()["rows"]
    assert (row["state"], row["case_name"]) == ("suspected", "copy/f32/n4096")
    page = pages.get("/regressions/suspected").text
    assert re.search(r'<a href="/series/\d+">copy/f32/n4096</a>', page)
    heads = re.findall(r'sort=-?(\w+)">', page)
    assert heads[:3] == ["case_name", "device_name", "direction"]


def test_a_regression_shows_its_evidence(pages: TestClient, regressed: Lab) -> None:
    [row] = pages.get("/regressions/1?format=json").json()["rows"]
    assert (row["old_seconds"], row["new_seconds"]) == (1e-3, 2e-3)
    assert (row["low"], row["high"], row["p"], row["method"]) == (1.05, 1.15, 0.0001, "screen")
    page = pages.get("/regressions/1").text
    links = ("/series/1", "/jobs/1", "/jobs/2", "/kernels/copy")
    comparison = f"/compare?old=bundle%3A{'a' * 12}&amp;new=bundle%3A{'b' * 12}"
    for link in (*links, comparison):
        assert f'href="{link}"' in page
    assert '1 series of 1 case on 1 device: <a href="/kernels/copy">copy</a> 1' in page
    assert "vkbench bisect --regression 1" in page
    assert f"vkbench run --bundle {'b' * 12} --case copy/f32/n4096" in page
    assert "aaaaaaaaaaaa" in page  # the old bundle
    assert "Nothing is recorded of it" in page


def test_a_bundle_of_a_git_revision_says_so_wherever_it_ran(
    pages: TestClient, regressed: Lab
) -> None:
    assert "evision" not in pages.get("/regressions/1").text
    revisions = (("aa" * 32, ("a1 first, with changes", "a2 <second>")), ("bb" * 32, ("b1 third",)))
    with regressed.database.transaction() as tx:
        for sha, made_of in revisions:
            row = {"sha": sha, "name": "", "manifest": "{}", "created_at": 1.0}
            tx.execute(insert(schema.bundle), [row | {"made_of": made_of}])
            job = 1 if sha[0] == "a" else 2
            tx.execute(update(schema.job).where(schema.job.c.id == job).values(bundle=sha))
            ran = schema.attempt.c.job_id == job
            tx.execute(update(schema.attempt).where(ran).values(bundle=sha))
    page = pages.get("/regressions/1").text
    assert "<dt>Old revision</dt><dd>a1 first, with changes; a2 &lt;second&gt;</dd>" in page
    assert "<dt>New revision</dt><dd>b1 third</dd>" in page
    assert f"{'b' * 12}</span> of b1 third" in pages.get("/jobs/2").text
    rows = pages.get("/results?format=json").json()["rows"]
    assert [row["made_of"] for row in rows] == [["b1 third"]]
    assert pages.get("/api/results").json()["rows"][0]["made_of"]


def test_a_regression_tells_when_it_began_from_when_it_was_certain(
    pages: TestClient, regressed: Lab
) -> None:
    job, change = schema.job, schema.change_point
    with regressed.database.transaction() as tx:
        first = select(change.c.after_job).scalar_subquery()
        tx.execute(update(job).where(job.c.id == first).values(finished_at=1_000_000.0))
        later = 1_000_000.0 + 2 * 86_400
        tx.execute(update(schema.regression).values(opened_at=later))
    text = pages.get("/regressions/1").text
    assert "<dt>Began</dt><dd>1970-01-12 13:46 UTC, when the first slower result ended</dd>" in text
    assert re.search(
        r"<dt>Opened</dt><dd>1970-01-14 13:46 UTC, \d+ d ago, .*certain: 2 d later", text
    )


def test_a_regression_is_a_picture(pages: TestClient, regressed: Lab) -> None:
    page = pages.get("/regressions/1").text
    pictures = re.findall(r'<svg class="change-picture ([\w-]+)" data-word="slower"', page)
    assert pictures == ["of-device", "in-row"]
    assert page.count('aria-label="1.000 → 2.000 ms"') == 2
    assert "The worst: copy/f32/n4096 on llvmpipe" in page
    assert "new over old: 1.100 (1.050 to 1.150), p &lt; 0.001" in page
    plotted = re.search(r'id="plotted">(.*?)</script>', page, re.S)
    assert plotted
    assert json.loads(plotted[1])["series"][0]["levels"] == [
        {"begin": 0, "end": 0, "seconds": 1e-3},
        {"begin": 1, "end": 1, "seconds": 2e-3},
    ]
    heads = re.findall(r'<th scope="col"[^>]*>(?:<a[^>]*>)?([^<]+)', page)
    assert heads[:4] == ["case", "device", "before and after", "new/old"]


def test_a_kernel_names_its_open_regressions(pages: TestClient, regressed: Lab) -> None:
    assert '<a href="/regressions/1">copy is slower</a>' in pages.get("/kernels/copy").text
    assert "/regressions/1" not in pages.get("/kernels/add").text
    close(regressed)
    assert "/regressions/1" not in pages.get("/kernels/copy").text


def test_a_regression_of_verdicts_has_no_picture(pages: TestClient, regressed: Lab) -> None:
    with regressed.database.transaction() as tx:
        tx.execute(update(schema.series).values(metric="verdict"))
        tx.execute(update(schema.measurement).values(series_id=None))
        tx.execute(update(schema.change_point).values(ratio=None, direction="wrong"))
        tx.execute(update(schema.regression).values(direction="wrong"))
    page = pages.get("/regressions/1").text
    assert "change-picture" not in page
    assert "The worst" not in page


@one_engine
@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "dark"), (PHONE, "light")])
def test_a_regression_is_drawn_and_a_row_is_a_card_on_a_phone(
    regressed: Lab, url: str, chromium: Browser, size: tuple[int, int], scheme: Scheme
) -> None:
    with (
        served(Path(url.removeprefix("sqlite:///"))) as origin,
        visiting(chromium, origin, size=size, scheme=scheme) as visit,
    ):
        for path in ("/regressions", "/regressions/1"):
            page = visit.open(path)
            shown = page.evaluate("getComputedStyle(document.querySelector('.cards tr')).display")
            assert shown == ("block" if size == PHONE else "table-row")
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, path
            assert not visit.barriers(), path
        page.wait_for_selector("#plot[data-drawn]")
        assert not visit.faults


def test_a_regression_shows_its_bisections(pages: TestClient, regressed: Lab) -> None:
    with regressed.database.transaction() as tx:
        number = bisections.create(
            tx,
            bisections.NewBisection(
                devices=["k"],
                case="copy/f32/n4096",
                variant="auto",
                metric="hot",
                measure_seconds=1.0,
                candidates=[
                    Candidate(sha=sha * 32, label=f"commit {sha}") for sha in ("a", "b", "c")
                ],
                user="ann",
                regression=1,
            ),
            now=1.0,
        )
        bisections.add_step(tx, number, 1, 1, 4, 2.0)
        bisections.change_step(tx, number, 1, ratio=1.5, p=0.01, verdict="bad")
    page = pages.get("/regressions/1").text
    assert "commit b" in page
    assert 'data-word="bad"' in page


@pytest.mark.parametrize(
    ("scope", "state", "offered"),
    [
        (Scope.TRIAGE, "open", ("acknowledge", "close", "note", "owner")),
        (Scope.TRIAGE, "closed", ("reopen", "note", "owner")),
        (Scope.SUBMIT, "open", ()),
        (None, "open", ()),
    ],
)
def test_only_what_leads_somewhere_is_offered(
    pages: TestClient,
    regressed: Lab,
    secret_of: Callable[..., str],
    scope: Scope | None,
    state: str,
    offered: tuple[str, ...],
) -> None:
    if state == "closed":
        close(regressed)
    if scope:
        pages.cookies.set("vkbench_token", secret_of(scope))
    page = pages.get("/regressions/1").text
    actions = ("acknowledge", "close", "reopen", "note", "owner")
    assert tuple(action for action in actions if f'value="{action}">' in page) == offered
    assert ("Sign in</a> to acknowledge" in page) == (scope is None)


def close(lab: Lab) -> None:
    with lab.database.transaction() as tx:
        tx.execute(update(schema.regression).values(state="closed"))


def test_a_planted_regression_says_so(pages: TestClient, regressed: Lab) -> None:
    with regressed.database.transaction() as tx:
        note = "planted for the demonstration: a story"
        regressions.annotate(tx, 1, 0.0, user=demonstration.TELLER, note=note)
    for path in ("/", "/regressions", "/regressions/1"):
        assert "planted)" not in pages.get(path).text  # a note alone makes no demonstration
    with regressed.database.transaction() as tx:
        demonstration.mark(tx)
    for path in ("/", "/regressions", "/regressions/1"):
        assert "(planted)" in pages.get(path).text, path
    assert "Planted for the demonstration: a story." in pages.get("/regressions/1").text
