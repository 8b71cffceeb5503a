"""The plot of a series in a real browser: drawn, stepped through by keyboard, its samples shown."""

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browser import DESKTOP, PHONE, Scheme, served, visiting
from databases import Lab, one_engine
from vkbench_detection.series import placing


@one_engine
@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_the_plot_tells_of_each_result(
    lab: Lab, tmp_path: Path, chromium: Browser, size: tuple[int, int], scheme: Scheme
) -> None:
    device = lab.add_device("<script>alert(1)</script>")
    for night in range(20):
        lab.submit(device, 1)
        lab.settle(device, seconds=1e-3 if night < 10 else 1.5e-3)
        lab.now += 86400
    with lab.database.transaction() as tx:
        placing.place(tx, lab.now)
    with served(tmp_path / "vkbench.db") as origin:  # noqa: SIM117
        with visiting(chromium, origin, size=size, scheme=scheme) as visit:
            page = visit.open("/series/1")
            page.wait_for_selector("#plot[data-drawn]")
            page.focus("#plot")
            page.keyboard.press("End")
            page.wait_for_selector(".histogram rect")
            assert "driver" not in page.inner_text("#choices")  # there is but one
            text = page.inner_text("#point")
            assert "job 20: " in text
            assert "3 samples" in text
            page.keyboard.press("ArrowLeft")
            page.wait_for_selector("#point a[href='/jobs/19']")
            assert not visit.barriers()
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0
            page.keyboard.press("Escape")
            assert not visit.faults
