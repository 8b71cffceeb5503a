"""Two sides beside each other: what changed, the means, and the words for what cannot be."""

import re
from dataclasses import replace
from html import unescape
from typing import Any
from urllib.parse import unquote

import pytest
from fastapi.testclient import TestClient

from databases import ENVIRONMENT, Lab
from vkbench.job import Mode, Outcome
from vkbench.messages.wire import Announcement
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db.work import store
from vkbench_detection.compare.candidates import candidates

CASES = [f"mul_mat_vec/q4_0/m{m}_n1_k256" for m in (8, 16, 32)]


@pytest.fixture
def compared(lab: Lab) -> Lab:
    """Runs 1 to 3: the second is slower on one of two devices, the third is wrong."""
    here, there = lab.add_device(), lab.add_device("NVIDIA <i>H200", "beta")
    for slower, outcome in ((1.0, Outcome.PASSED), (1.5, Outcome.PASSED), (1.5, Outcome.WRONG)):
        run = lab.submit(here, CASES)
        lab.settle(here, outcome, seconds=1e-3 * slower)
        with lab.database.transaction() as tx:
            store.add_jobs(tx, run, (lab.planned(there, case) for case in CASES))
        lab.settle(there, seconds=1e-3)
        lab.now += 60
    return lab


def test_the_form_offers_what_there_is(compared: Lab, pages: TestClient) -> None:
    page = pages.get("/compare")
    assert page.status_code == 200
    with compared.database.reading() as tx:
        offered = [candidate.asked for candidate in candidates(tx)]
    assert offered[:3] == ["3", "2", "1"]
    assert "driver:22.3.6" in offered
    assert 'value="driver:22.3.6"' in page.text
    assert "<i>" not in page.text


def test_each_suggestion_has_cases_in_common(compared: Lab, pages: TestClient) -> None:
    """Also after runs that compare with nothing: pairs, calibrations, sweeps, imports."""
    lab, device = compared, compared.add_device()
    newer = replace(ENVIRONMENT, driver_version="23.0")
    announcement = Announcement(worker="w", facts=lab.facts(), environment=newer, bundle="")
    with lab.database.transaction() as tx:
        store.register_device(tx, announcement, lab.now)
    run = lab.submit(device, CASES)
    for job in lab.pick(device):
        lab.record(replace(lab.answer(job), environment=newer.hash))
    others: list[dict[str, Any]] = [
        {
            "mode": Mode.PAIRED,
            "track": "",
            "words": RunWords(purpose=Purpose(kind=RunKind.CONFIRMATION)),
        },
        {"mode": Mode.BOTH, "words": RunWords(purpose=Purpose(kind=RunKind.CALIBRATION))},
        {
            "mode": Mode.PERFORMANCE,
            "track": "",
            "words": RunWords(purpose=Purpose(kind=RunKind.SWEEP)),
        },
        {"mode": Mode.PERFORMANCE, "words": RunWords(purpose=Purpose(kind=RunKind.IMPORT))},
    ]
    with lab.database.transaction() as tx:
        for options in others:
            words: dict[str, Any] = {"selection": {}, "now": lab.now + 60, **options}
            store.create_run(tx, **words)
    page = pages.get("/compare").text
    links = re.findall(r'href="(/compare\?old=[^"]*)"', page)
    assert [unquote(unescape(link)) for link in links] == [
        f"/compare?old=2&new={run}",  # all that the third did on that device is wrong
        "/compare?old=2&new=3",
        "/compare?old=1&new=2",
        "/compare?old=driver:llvmpipe 22.3.6&new=driver:llvmpipe 23.0",
    ]
    for link in links:
        answer = pages.get(unescape(link))
        assert answer.status_code == 200, link
        assert "in common" in answer.text
    assert f"run 1 → run {run}:" in pages.get("/compare?old=1&new=last").text


def test_all_timings_with_their_bars(compared: Lab, pages: TestClient) -> None:
    page = pages.get("/compare?old=1&new=2&all=1")
    assert page.status_code == 200
    assert "Spread over hardware" in page.text
    assert "all devices alike" in page.text
    assert page.text.count('class="ratiobar"') == 12 + 4
    rows = pages.get("/compare?old=1&new=2&all=1&format=json").json()["rows"]
    assert sorted({round(row["ratio"], 2) for row in rows}) == [1.0, 1.5]
    hot = pages.get("/compare?old=1&new=2&all=1&metric=hot&format=json").json()["rows"]
    assert {row["metric"] for row in hot} == {"hot"}


def test_verdicts_come_first(compared: Lab, pages: TestClient) -> None:
    page = pages.get("/compare?old=2&new=last")
    assert page.status_code == 200
    assert 'data-word="wrong"' in page.text
    assert "3 verdicts changed (3 wrong, 0 fixed)" in page.text


@pytest.mark.parametrize(
    ("query", "status", "hint"),
    [
        ("old=77&new=last", 404, "unknown run or baseline"),
        ("old=bundle:zz&new=last", 400, "SHA-256"),
        ("old=date:soon&new=last", 400, "no date"),
        ("old=1&new=2&metric=warm", 404, "unknown metric"),
        ("old=1&new=2&all=2", 400, "all is 1"),
        ("old=1&new=2&sort=up", 404, "unknown column"),
    ],
)
def test_what_cannot_be_compared_is_said(
    compared: Lab, pages: TestClient, query: str, status: int, hint: str
) -> None:
    answer = pages.get(f"/compare?{query}")
    assert answer.status_code == status
    assert hint in answer.text
