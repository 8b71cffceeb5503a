"""Ten questions of a lab, each answered in at most two clicks from /, over the demonstration."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from browser import DESKTOP, served, visiting

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
MOST_CLICKS = 2

PAGE, FIRST = "main", "tbody tr:first-child"

# A question, the links that answer it by their words, where the last page says what.
QUESTIONS: Sequence[tuple[str, Sequence[str], str, str]] = (
    (
        "is the lab healthy tonight",
        (),
        PAGE,
        r"5 ratios to peers fell\.[\s\S]*results\s+\d{3,}\s+\d{2,}[\s\S]*All 5 are well",
    ),
    (
        "what became slower or wrong",
        ("Regressions",),
        PAGE,
        r"get_rows wrong on[\s\S]*\(planted\)",
    ),
    (
        "what is slower since a driver",
        ("Regressions", r"flash_attn and softmax"),
        PAGE,
        r"\(planted\)[\s\S]*environment[\s\S]*New driver[\s\S]*24\.3\.1[\s\S]*--drivers 24",
    ),
    ("how far are we from ggml", ("Heat map", "Ratio to a peer"), PAGE, r"mul_mat iq2_xs 1\.6"),
    (
        "which kernels are worst against ggml",
        ("Heat map", "Ratio to a peer"),
        PAGE,
        r"The worst against ggml: mul_mat q4_K 0\.8\d",
    ),
    (
        "what did the newest driver do",
        ("Compare", r"driver"),
        PAGE,
        r"driver NVIDIA 580\.173-demo → driver NVIDIA 590\.18-demo: \d+ timings[^(]*\(0 slower",
    ),
    (
        "is a build ready to merge",
        ("Programs", r"v1\.3"),
        PAGE,
        r"v1\.2[\s\S]*nothing became slower, faster, wrong or failed with it",
    ),
    ("which device is the noisiest", ("Series", r"sigma"), FIRST, r"Simulated integrated GPU"),
    (
        "what ran on this GPU yesterday",
        ("Fleet", r"last results"),
        FIRST,
        r"Simulated integrated GPU[\s\S]*(passed|skipped)[\s\S]*2026-11-21",
    ),
    ("why is this case skipped", (r"skipped",), FIRST, r"the device lacks what code path \w+"),
)


def follow(page: Page, words: str) -> None:
    """Click the first link whose words are these, or begin so."""
    link = page.locator("header a, main a").filter(has_text=re.compile(rf"\b{words}")).first
    with page.expect_navigation(wait_until="load"):
        link.click()


def test_each_question_is_answered_in_two_clicks(chromium: Browser, demonstrated: Path) -> None:
    unanswered = []
    with served(demonstrated) as origin, visiting(chromium, origin, size=DESKTOP) as visit:
        for question, clicks, place, answer in QUESTIONS:
            assert len(clicks) <= MOST_CLICKS
            page = visit.open("/")
            for words in clicks:
                follow(page, words)
            said = page.locator(place).first.inner_text()
            if not re.search(answer, re.sub(r"(?<=[/_])\s+(?=\w)", "", said)):
                unanswered.append(f"{question}: {page.url}: {said[:300]}")
            assert not visit.barriers(), page.url
        assert not unanswered
        assert not visit.faults
