"""In a real browser pages load, are readable for all, and ask no other machine for anything."""

import pytest
from playwright.sync_api import Browser

from browser import DESKTOP, PHONE, Scheme, served, visiting
from vkbench_web.shell import NAVIGATION


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_pages_without_results(chromium: Browser, size: tuple[int, int], scheme: Scheme) -> None:
    with served() as origin, visiting(chromium, origin, size=size, scheme=scheme) as visit:
        for path in ("/api", *(path for _, links in NAVIGATION for path, _ in links)):
            page = visit.open(path)
            assert not visit.barriers(), path
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{path} scrolls sideways by {wide} px"
        assert not visit.faults
