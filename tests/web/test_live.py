"""In a real browser: pages follow the work, and people sign in and act."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import update

from browser import DESKTOP, PHONE, Scheme, Visit, served, visiting
from databases import Lab, one_engine
from vkbench_db import schema
from vkbench_db.upkeep.tokens import Scope
from vkbench_detection.changes.states import ChangeState
from vkbench_detection.regress import inbox

Plant = Callable[..., int]
FILLED = (
    *("/fleet", "/runs", "/runs/1", "/jobs/1", "/results", "/series", "/kernels"),
    *("/regressions", "/regressions/1", "/query?sql=SELECT * FROM v_results"),
)
SOON = 10_000  # milliseconds in which an update must have come


@pytest.fixture
def path(lab: Lab) -> Path:
    """The file of a lab."""
    return Path(str(lab.database.engine.url.database))


@one_engine
def test_a_page_shows_a_job_end_while_it_is_open(chromium: Browser, lab: Lab, path: Path) -> None:
    lab.now = time.time()
    device = lab.add_device()
    lab.submit(device, 4)
    jobs = lab.pick(device, 4)
    lab.record(lab.answer(jobs[0]))
    with served(path) as origin, visiting(chromium, origin) as visit:
        page = visit.open("/runs/1")
        expect(page.locator(".headline")).to_contain_text("1 of 4 jobs done")
        page.get_by_label("Search").fill("kept")
        lab.record(lab.answer(jobs[1]))
        expect(page.locator(".headline")).to_contain_text("2 of 4 jobs done", timeout=SOON)
        expect(page.locator("#jobs")).to_contain_text("passed", timeout=SOON)
        assert page.get_by_label("Search").input_value() == "kept"
        fleet = visit.open("/fleet")
        expect(fleet.locator("#live")).to_contain_text("2 in flight")
        lab.record(*(lab.answer(job) for job in jobs[2:]))
        expect(fleet.locator("#live")).to_contain_text("0 in flight", timeout=SOON)
        assert not visit.faults


@one_engine
def test_a_person_signs_in_and_acknowledges(
    chromium: Browser,
    lab: Lab,
    path: Path,
    planted_regression: Plant,
    secret_of: Callable[..., str],
) -> None:
    planted_regression(lab.add_device(), "copy/f32/n4096", "a", "b")
    secret = secret_of(Scope.TRIAGE, name="ann")
    with served(path) as origin, visiting(chromium, origin) as visit:
        page = visit.open("/regressions/1")
        page.get_by_role("link", name="Sign in").first.click()
        page.get_by_label("Token").fill(secret)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_url("**/regressions/1")
        page.get_by_label("Note").fill("<i>mine</i>")
        page.get_by_role("button", name="Acknowledge").click()
        expect(page.locator(".history")).to_contain_text("acknowledged by ann: <i>mine</i>")
        assert not page.get_by_role("button", name="Acknowledge").count()
        assert page.evaluate("document.cookie") == ""
        assert not visit.barriers()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("link", name="Sign in")).to_be_visible()
        assert not visit.faults
    with lab.database.reading() as tx:
        assert inbox.story(tx, 1).row.owner == "ann"


@one_engine
@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "dark"), (PHONE, "light")])
def test_pages_with_results_are_readable(
    chromium: Browser,
    lab: Lab,
    path: Path,
    planted_regression: Plant,
    size: tuple[int, int],
    scheme: Scheme,
) -> None:
    device = lab.add_device("A device with a long name that somebody gave it (RADV NAVI31)")
    planted_regression(device, "copy/f32/n4096", "a" * 64, "b" * 64)
    lab.settle(device)
    with served(path) as origin, visiting(chromium, origin, size=size, scheme=scheme) as visit:
        check_readable(visit, "/sign-in")
        for address in FILLED:
            assert check_readable(visit, address).locator("tbody tr").count(), address
        with lab.database.transaction() as tx:  # as it was before pairs told
            tx.execute(update(schema.change_point).values(state=ChangeState.SUSPECTED))
        suspected = check_readable(visit, "/regressions/suspected")
        expect(suspected.locator("tbody")).to_contain_text("copy/f32/n4096")
        assert not visit.faults


def check_readable(visit: Visit, address: str) -> Page:
    """Open a page: nothing keeps people from reading it, and it does not scroll sideways."""
    page = visit.open(address)
    assert not visit.barriers(), address
    wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert wide <= 0, f"{address} scrolls sideways by {wide} px"
    return page
