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

# A question, the links that answer it by their words, and what the last page says.
QUESTIONS: Sequence[tuple[str, Sequence[str], str]] = (
    ("is the lab healthy tonight", (), r"(device is|devices are|well|to look at)"),
    ("what became slower or wrong", ("Regressions",), r"get_rows wrong on"),
    (
        "what is slower since a driver",
        ("Regressions", r"flash_attn and softmax"),
        r"environment[\s\S]*New driver[\s\S]*24\.3\.1",
    ),
    ("how far are we from ggml", ("Heat map", "Ratio to a peer"), r"as fast as ggml"),
    (
        "which kernels are worst against ggml",
        ("Heat map", "Ratio to a peer"),
        r"The worst against ggml: \w+",
    ),
    ("what did the newest driver do", ("Compare", r"driver"), r"driver .* → driver"),
    ("is a build ready to merge", ("Programs", r"v1\.3"), r"v1\.3"),
    ("which device is the noisiest", ("Series", r"sigma"), r"sigma[\s\S]*%"),
    ("what ran on this GPU yesterday", ("Fleet", r"last results"), r"passed"),
    ("why is this case skipped", (r"skipped",), r"the device lacks what code path"),
)


def follow(page: Page, words: str) -> None:
    """Click the first link whose words are these, or begin so."""
    link = page.locator("header a, main a").filter(has_text=re.compile(rf"\b{words}")).first
    with page.expect_navigation(wait_until="load"):
        link.click()


def test_each_question_is_answered_in_two_clicks(chromium: Browser, demonstrated: Path) -> None:
    unanswered = []
    with served(demonstrated) as origin, visiting(chromium, origin, size=DESKTOP) as visit:
        for question, clicks, answer in QUESTIONS:
            assert len(clicks) <= MOST_CLICKS
            page = visit.open("/")
            for words in clicks:
                follow(page, words)
            if not re.search(answer, page.inner_text("main")):
                unanswered.append(f"{question}: {page.url}")
            assert not visit.barriers(), page.url
        assert not unanswered
        assert not visit.faults
