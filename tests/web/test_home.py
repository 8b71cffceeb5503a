"""The home page says in a glance what happened in the last night and what needs somebody."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

from fastapi.testclient import TestClient
from playwright.sync_api import Browser
from sqlalchemy import update

from browser import served, visiting
from databases import Lab, one_engine
from planted_peers import CASE, compare
from vkbench.job import Outcome
from vkbench_db import schema
from vkbench_db.ask.nights import NIGHT_SECONDS
from vkbench_detection.peers.standings import judge
from vkbench_detection.regress.stages import RegressionStage

Plant = Callable[..., int]


def run_night(lab: Lab, device: str, *ends: Outcome) -> None:
    lab.submit(device, len(ends))
    lab.record(*(lab.answer(job, end) for job, end in zip(lab.pick(device), ends, strict=True)))


def test_a_night_is_held_against_the_one_before(pages: TestClient, lab: Lab) -> None:
    lab.now = time.time() - 1.4 * NIGHT_SECONDS
    device, silent = lab.add_device(), lab.add_device("SwiftShader", "beta")
    run_night(lab, device, Outcome.PASSED, Outcome.PASSED)
    run_night(lab, silent, Outcome.PASSED)
    lab.now += NIGHT_SECONDS
    run_night(lab, device, *[Outcome.PASSED] * 4, Outcome.WRONG, Outcome.SKIPPED)
    text = pages.get("/").text
    rows = re.findall(r'<a href="[^"]+">([\w ]+)</a></th>\D*(\d+)\D*(\d+)</td>', text)
    assert {name: (int(last), int(before)) for name, last, before in rows} == {
        "results": (6, 3),
        "wrong": (1, 0),
        "failed": (0, 0),
        "skipped": (1, 0),
        "devices": (1, 2),
        "new regressions": (0, 0),
    }
    assert "no result, 1 the night before" in text
    assert "1 result wrong (0 the night before), 2 devices to look at." in text
    assert "every device is well" not in text
    assert "No job waits" in text
    assert "The newest result is" not in text


def test_a_lab_that_rests_says_since_when(pages: TestClient, lab: Lab) -> None:
    lab.now = time.time() - 40.5 * NIGHT_SECONDS
    run_night(lab, lab.add_device(), Outcome.PASSED)
    assert "The newest result is 40 d old" in pages.get("/").text


def test_regressions_of_the_night_come_first_and_the_worst_of_them(
    pages: TestClient, lab: Lab, planted_regression: Plant
) -> None:
    lab.now = time.time()
    device = lab.add_device()
    run_night(lab, device, Outcome.PASSED)
    for number, direction in enumerate(("slower", "faster", "wrong", "failed")):
        regression = planted_regression(device, f"copy/f32/n{number + 1}", "a", f"b{number}")
        with lab.database.transaction() as tx:
            table = schema.regression
            opened_at = time.time() - (3 * NIGHT_SECONDS if direction == "failed" else 60)
            tx.execute(
                update(table)
                .where(table.c.id == regression)
                .values(direction=direction, opened_at=opened_at)
            )
    text = pages.get("/").text
    assert re.findall(r'<li data-word="(\w+)"><a href="/regressions', text) == [
        *("wrong", "slower", "faster"),
    ]
    assert "1 regression wrong (1 new), 1 regression failed, 1 new regression slower" in text
    assert "All 4 to look at" in text
    assert "New regressions</h2>" in text


def test_what_is_fixed_needs_nobody(pages: TestClient, lab: Lab, planted_regression: Plant) -> None:
    lab.now = time.time()
    device = lab.add_device()
    run_night(lab, device, Outcome.PASSED)
    for number, direction in enumerate(("slower", "wrong", "wrong")):
        regression = planted_regression(device, f"copy/f32/n{number + 1}", "a", f"b{number}")
        stage = RegressionStage.ACKNOWLEDGED if number == 2 else RegressionStage.FIXED
        with lab.database.transaction() as tx:
            table = schema.regression
            new = {"direction": direction, "state": stage, "opened_at": time.time() - 60}
            tx.execute(update(table).where(table.c.id == regression).values(**new))
    text = pages.get("/").text
    assert "1 regression wrong (1 new)" in text
    assert "regression slower" not in text
    assert len(re.findall(r'<li data-word="\w+"><a href="/regressions', text)) == 3


def test_a_ratio_to_a_peer_that_fell_is_shown_after_what_is_wrong(
    pages: TestClient, lab: Lab, planted_regression: Plant
) -> None:
    lab.now = time.time() - 600
    device = lab.add_device()
    for theirs in (4e-3, 4.04e-3, 3.96e-3, 4e-3, 2.5e-3):
        lab.now += 60
        compare(lab, device, theirs, 2e-3)
    judge(lab.database, lab.now)
    regression = planted_regression(device, "copy/f32/n1", "a", "b")
    with lab.database.transaction() as tx:
        table = schema.regression
        old = {"direction": "wrong", "opened_at": time.time() - 3 * NIGHT_SECONDS}
        tx.execute(update(table).where(table.c.id == regression).values(**old))
    text = pages.get("/").text
    assert ">1 regression wrong, 1 ratio to peers fell, 1 device to look at, 2 jobs not" in text
    assert f"{CASE}</a> on llvmpipe: 2.00 times numpy before, 1.25 now" in text


def test_a_fall_on_many_devices_is_one_row(pages: TestClient, lab: Lab) -> None:
    lab.now = time.time() - 600
    for device in (lab.add_device(), lab.add_device("SwiftShader", "beta")):
        for theirs in (4e-3, 4.04e-3, 3.96e-3, 4e-3, 2.5e-3):
            lab.now += 20
            compare(lab, device, theirs, 2e-3)
    judge(lab.database, lab.now)
    text = pages.get("/").text
    assert "2 ratios to peers fell" in text
    assert text.count(CASE) == 1
    assert f"<li>{CASE} on 2 devices, times numpy before → now: <a" in text
    for name in ("llvmpipe", "SwiftShader"):
        assert f">{name}</a> 2.00 → 1.25" in text


def test_what_waits_says_why(pages: TestClient, lab: Lab) -> None:
    lab.now = time.time() - 3600
    lab.submit(lab.add_device(), 3)
    text = pages.get("/?part=live").text
    assert "<html" not in text
    assert "No job has ended yet" in text
    assert "3 jobs</a> not ended, 0 in flight" in text
    assert "start `vkbench scheduler`" in text
    [first, *_] = lab.pick(lab.add_device())
    lab.record(lab.answer(first, Outcome.PASSED))
    text = pages.get("/").text
    assert "2 jobs not ended, which nobody works on." in text
    assert "every device is well" not in text


def test_a_lab_in_order_says_so(pages: TestClient, lab: Lab) -> None:
    lab.now = time.time()
    run_night(lab, lab.add_device(), Outcome.PASSED)
    text = pages.get("/").text
    assert "Nothing new, and every device is well." in text
    assert "The only device is well" in text


@one_engine
def test_it_fits_on_one_screen(chromium: Browser, lab: Lab, planted_regression: Plant) -> None:
    lab.now = time.time() - 0.4 * NIGHT_SECONDS
    devices = [lab.add_device(f"GPU of a long name, {n} GB", f"host{n}") for n in range(6)]
    for number, device in enumerate(devices):
        run_night(lab, device, Outcome.PASSED, Outcome.WRONG)
        planted_regression(device, f"mul_mat/q4_K/m{number + 1}", "a", f"b{number}")
    path = Path(str(lab.database.engine.url.database))
    with served(path) as origin, visiting(chromium, origin, size=(1280, 800)) as visit:
        page = visit.open("/")
        height = page.evaluate("document.querySelector('main').getBoundingClientRect().bottom")
        assert height <= 800
        assert not visit.barriers()
        assert not visit.faults
