"""The heat map says in each cell what the latest results behind it say, and links to them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser
from sqlalchemy import select, text, update

from browser import DESKTOP, PHONE, Scheme, served, visiting
from databases import ENVIRONMENT, Lab, one_engine
from planted_peers import compare
from vkbench.calibration import CANARY_AT, CANARY_SECONDS
from vkbench.job import Mode, Outcome
from vkbench_db import schema
from vkbench_detection.series.placing import place

Q4, Q8 = "mul_mat_vec/q4_0/m8_n1_k256", "mul_mat_vec/q8_0/m8_n1_k256"
ADD, GONE = "add/f32/b1_c1_h2_w3", "no_such_kernel/q4_0/n1"


def cells(page: str) -> dict[str, str]:
    """The text of each cell by its title's kernel and format."""
    cells_found = re.findall(r'title="(\S+ \S+): [^"]*">([^<]*)</a>', page)
    return dict(cells_found)


def title(page: str, key: str) -> str:
    [text] = re.findall(rf'title="{key}: ([^"]*)"', page)
    return str(text)


def test_the_gravest_verdict_counts(lab: Lab, pages: TestClient) -> None:
    device = lab.add_device()
    lab.submit(device, [Q4, Q8])
    lab.settle(device)
    lab.submit(device, [Q4, ADD], mode=Mode.CORRECTNESS)
    lab.settle(device, Outcome.WRONG)
    lab.submit(device, [Q8], variant="int_dot", mode=Mode.CORRECTNESS)
    lab.settle(device, Outcome.SKIPPED)
    page = pages.get("/heatmap").text
    assert cells(page) == {"mul_mat_vec q4_0": "✗1", "mul_mat_vec q8_0": "✓1", "add f32": "✗1"}
    assert title(page, "mul_mat_vec q4_0") == "wrong 1, passed 1"
    assert title(page, "mul_mat_vec q8_0") == "passed 1, skipped 1"
    timed = cells(pages.get("/heatmap?mode=performance").text)
    assert timed == {"mul_mat_vec q4_0": "✓1", "mul_mat_vec q8_0": "✓1"}


def test_the_drivers_of_a_device_lead_to_what_changed_with_them(
    lab: Lab, pages: TestClient
) -> None:
    newer = replace(ENVIRONMENT, driver_version="25.0.7")
    lab.add_device()
    device = lab.add_device(environment=newer)  # an update
    for known in (ENVIRONMENT, ENVIRONMENT, newer):
        lab.now += 86_400
        lab.submit(device, [ADD])
        [job] = lab.pick(device)
        canary = {CANARY_AT: lab.now, CANARY_SECONDS: 1e-3}
        lab.record(replace(lab.answer(job), environment=known.hash, telemetry=canary))
    with lab.database.transaction() as tx:
        place(tx, lab.now)
    page = pages.get(f"/heatmap?device={device}").text
    [link] = re.findall(r'href="(/compare[^"]*)">compare', page)
    assert link.replace("&amp;", "&").endswith(
        "old=driver%3Allvmpipe+22.3.6&new=driver%3Allvmpipe+25.0.7"
    )
    [*_, results] = re.findall(r'href="(/results[^"]*)">llvmpipe 22.3.6</a>', page)
    shown = pages.get(results.replace("&amp;", "&"))
    assert "Latest results through driver llvmpipe 22.3.6" in shown.text
    assert pages.get(link.replace("&amp;", "&")).status_code == 200
    [row] = pages.get("/api/devices").json()["rows"]
    assert row["driver_copies"] == row["no_copy"] == ""
    found = pages.get("/api/results?driver=25.0.7").json()["rows"]
    assert {row["driver_version"] for row in found} == {"25.0.7"}


def test_the_cells_download_with_their_numbers(lab: Lab, pages: TestClient) -> None:
    device = lab.add_device()
    lab.submit(device, [Q4, Q8])
    lab.settle(device)
    lab.submit(device, [Q4], variant="int_dot", mode=Mode.CORRECTNESS)
    lab.settle(device, Outcome.WRONG)
    page = pages.get("/heatmap").text
    [link] = re.findall(r'href="(/heatmap[^"]*format=json[^"]*)"', page)
    rows = pages.get(link.replace("&amp;", "&")).json()["rows"]
    assert [cell["format"] for cell in rows] == ["q4_0", "q8_0"]
    counts = {"passed": 1, "wrong": 1, "failed": 0, "skipped": 0}
    assert rows[0] == {"device": device, "kernel": "mul_mat_vec", "format": "q4_0"} | counts
    roof = pages.get("/heatmap?show=roof&format=csv").text.splitlines()
    assert roof[0].startswith("device,kernel,format,cases,median_roof_fraction")
    assert pages.get("/heatmap?format=xml").status_code == 400


def test_a_cell_leads_to_the_results_behind_it(lab: Lab, pages: TestClient) -> None:
    device = lab.add_device()
    lab.submit(device, [Q4, Q8])
    lab.settle(device, Outcome.WRONG)
    page = pages.get("/heatmap").text
    [link] = re.findall(r'href="(/results[^"]*format=q4_0[^"]*)"', page)
    behind = pages.get(link.replace("&amp;", "&")).text
    assert Q4 in behind
    assert Q8 not in behind


def test_only_the_latest_result_counts(lab: Lab, pages: TestClient) -> None:
    device = lab.add_device()
    lab.submit(device, [Q4])
    lab.settle(device, Outcome.WRONG)
    lab.now += 10
    lab.submit(device, [Q4])
    lab.settle(device)
    assert cells(pages.get("/heatmap").text) == {"mul_mat_vec q4_0": "✓1"}


def test_shares_of_the_roof_are_summed_up_as_asked(lab: Lab, pages: TestClient) -> None:
    device = lab.add_device()
    lab.submit(device, [f"mul_mat_vec/q4_0/m{m}_n1_k256" for m in (8, 16, 32)])
    lab.settle(device)
    with lab.database.transaction() as tx:
        for job, share in ((1, 0.2), (2, 0.3), (3, 0.9)):
            tx.execute(
                text("UPDATE measurement SET roof_fraction = :share WHERE job_id = :job"),
                {"share": share, "job": job},
            )
    page = pages.get("/heatmap?show=roof").text
    assert cells(page) == {"mul_mat_vec q4_0": "30"}
    assert "least 20.0%, mul_mat_vec/q4_0/m8_n1_k256" in title(page, "mul_mat_vec q4_0")
    assert "over 3 cases" in title(page, "mul_mat_vec q4_0")
    assert cells(pages.get("/heatmap?show=roof&over=best&metric=cold").text) == {
        "mul_mat_vec q4_0": "90"
    }


def test_what_fits_the_cache_is_left_out_or_hatched(lab: Lab, pages: TestClient) -> None:
    device = lab.add_device()
    small, large = (f"mul_mat_vec/q4_0/m{m}_n1_k256" for m in (8, 16))
    lab.submit(device, [small, large, Q8])
    lab.settle(device)
    with lab.database.transaction() as tx:
        facts = tx.execute(select(schema.device.c.facts)).scalar_one()
        tx.execute(update(schema.device).values(facts={**facts, "llc_bytes": 1000}))
        for job, share, size in ((1, 0.9, 900), (2, 0.3, 5000), (3, 0.8, 900)):
            tx.execute(
                update(schema.measurement)
                .where(schema.measurement.c.job_id == job)
                .values(roof_fraction=share, bytes_moved=size)
            )
    page = pages.get("/heatmap?show=roof").text
    assert cells(page) == {"mul_mat_vec q4_0": "30", "mul_mat_vec q8_0": "80"}
    assert title(page, "mul_mat_vec q4_0").endswith(f"least 30.0%, {large}; 1 more fit the cache")
    assert "all of them fit the cache" in title(page, "mul_mat_vec q8_0")
    assert page.count('<td class="share-8 in-cache') == 1
    assert "90–100 %" in page  # the legend
    cold = pages.get("/heatmap?show=roof&metric=cold").text
    assert cells(cold) == {"mul_mat_vec q4_0": "60", "mul_mat_vec q8_0": "80"}


def test_every_group_of_formats_is_named(lab: Lab, pages: TestClient) -> None:
    lab.submit(lab.add_device(), [ADD, Q4])
    page = pages.get("/heatmap?all=1").text
    groups = re.findall(r'scope="colgroup"[^>]*><span[^>]*>([^<]+)<', page)
    assert groups[:3] == ["plain", "quants", "K-quants"]
    assert "unseen" not in "".join(re.findall(r'<th scope="colgroup".*?</th>', page))


@pytest.mark.parametrize(
    "against",
    ["1", "first", "2026-10-30", "date:2026-10-30", "bundle:abab", "driver:22.3.6"],
)
def test_change_against_a_run_a_baseline_or_a_day(
    lab: Lab, pages: TestClient, against: str
) -> None:
    lab.now = 1_793_300_000.0  # 2026-10-29
    device = lab.add_device()
    lab.submit(device, [Q4, Q8])
    lab.settle(device)
    with lab.database.transaction() as tx:
        tx.execute(text("UPDATE run SET label = 'first' WHERE id = 1"))
        tx.execute(text(f"UPDATE attempt SET bundle = '{'ab' * 32}'"))
    lab.now += 3 * 86400
    lab.submit(device, [Q4])
    lab.settle(device, seconds=1.2e-3)
    with lab.database.transaction() as tx:
        tx.execute(text("UPDATE attempt SET environment = 'newer' WHERE job_id = 3"))
    page = pages.get(f"/heatmap?show=change&against={against}").text
    assert cells(page) == {"mul_mat_vec q4_0": "+20", "mul_mat_vec q8_0": "0"}


def test_the_ratio_to_a_peer_is_a_map(lab: Lab, pages: TestClient) -> None:
    device = lab.add_device()
    assert "no comparison with a peer" in pages.get("/heatmap?show=peer").text
    other = Q4.replace("m8", "m16")
    for case, theirs in ((Q4, 4e-3), (other, 1e-3), (Q8, 1e-3)):
        compare(lab, device, theirs, 2e-3, peer="ggml", case=case)
    compare(lab, device, 6e-3, 2e-3, peer="torch", case=Q4)
    page = pages.get("/heatmap?show=peer").text  # the first of them
    assert cells(page) == {"mul_mat_vec q4_0": "1", "mul_mat_vec q8_0": "0.5"}
    assert title(page, "mul_mat_vec q4_0") == (
        f"1 times as fast as ggml over 2 cases (geometric mean); least 0.5, {other}"
    )
    assert cells(pages.get("/heatmap?show=peer&peer=torch").text) == {"mul_mat_vec q4_0": "3"}
    [first, _] = pages.get("/heatmap?show=peer&format=json").json()["rows"]
    assert (first["cases"], first["least_ratio"]) == (2, pytest.approx(0.5))
    assert pages.get("/heatmap?show=peer&peer=gmml").status_code == 404
    *_, link = re.findall(
        r'href="(/results[^"]*format=q8_0[^"]*)"', page
    )  # the worst one is named above, too
    assert Q8 in pages.get(link.replace("&amp;", "&")).text


@one_engine
def test_wrong_words_are_named(lab: Lab, pages: TestClient) -> None:
    lab.add_device()
    for query, hint in (
        ("show=corectness", "correctness"),
        ("device=nothing", "device"),
        ("sho=roof", "show"),
        ("show=change&against=nothing", "baseline"),
        ("show=change&against=device:llvmpipe", "compared with"),
    ):
        answer = pages.get(f"/heatmap?{query}")
        assert answer.status_code in (400, 404), query
        assert hint in answer.text


@one_engine
def test_the_whole_catalogue_is_shown_when_asked_for(lab: Lab, pages: TestClient) -> None:
    lab.add_device()
    assert "no results of this device yet" in pages.get("/heatmap").text
    page = pages.get("/heatmap?all=1").text
    assert page.count('<th scope="row"') > 140
    assert page.count("<span>iq2_xxs</span>") == 1


@one_engine
def test_names_that_come_from_others_are_text(lab: Lab, pages: TestClient, url: str) -> None:
    device = lab.add_device("<script>alert(1)</script>\"'")
    lab.submit(device, [Q4])
    lab.settle(device)
    with lab.database.transaction() as tx:
        tx.execute(text("UPDATE kernel_case SET kernel = '\"><script>x', format = '<b>'"))
    for path in ("/heatmap", "/results", "/roofline", "/kernels", "/heatmap?show=roof"):
        assert "<script>alert" not in pages.get(path).text
        assert "<script>x" not in pages.get(path).text
        assert "<b>" not in pages.get(path).text.replace("<b ", "")


@one_engine
@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_by_keyboard_and_for_all(
    lab: Lab,
    url: str,
    chromium: Browser,
    size: tuple[int, int],
    scheme: Scheme,
) -> None:
    device = lab.add_device()
    lab.submit(device, [Q4, Q8, "get_rows/q8_0/m32_n2_k256", ADD])
    lab.settle(device)
    with (
        served(Path(url.removeprefix("sqlite:///"))) as origin,
        visiting(chromium, origin, size=size, scheme=scheme) as visit,
    ):
        page = visit.open("/heatmap")
        page.locator(".heat-map td a").first.focus()
        first = page.locator("#behind").text_content() or ""
        page.keyboard.press("ArrowDown")
        second = page.locator("#behind").text_content() or ""
        assert "passed 1" in first
        assert "passed 1" in second
        assert first != second
        for path in ("/heatmap", "/results", "/roofline", "/kernels", "/kernels/add"):
            page = visit.open(path)
            assert not visit.barriers(), path
            wide = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{path} scrolls sideways by {wide} px"
        assert not visit.faults


@one_engine
@pytest.mark.parametrize("path", ["/heatmap", "/results", "/roofline", "/kernels", "/runs"])
def test_a_phone_shows_an_answer_before_the_filters(
    lab: Lab, url: str, chromium: Browser, path: str
) -> None:
    device = lab.add_device()
    lab.submit(device, [Q4, ADD])
    lab.settle(device)
    with served(Path(url.removeprefix("sqlite:///"))) as origin:
        with visiting(chromium, origin) as visit:
            page = visit.open(path)
            assert page.locator("form.filters button").is_visible()
            assert not page.locator(".fold > summary").is_visible()
        with visiting(chromium, origin, size=PHONE) as visit:
            page = visit.open(path)
            button = page.locator("form.filters button")
            assert not button.is_visible()
            answer = page.locator("tbody tr").first.bounding_box()
            assert answer
            assert answer["y"] < PHONE[1] * 0.8
            page.locator(".fold > summary").press("Enter")
            assert button.is_visible()


READ_COLOURS = """() => {
    const brush = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const read = (element) => {
        brush.fillStyle = getComputedStyle(element).backgroundColor;
        brush.fillRect(0, 0, 1, 1);
        return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const cells = Array.from({ length: 10 }, (_, place) => {
        const cell = document.createElement("div");
        cell.className = `share-${place}`;
        document.body.append(cell);
        return read(cell);
    });
    return [read(document.body), ...cells];
}"""


@one_engine
@pytest.mark.parametrize(("scheme", "least"), [("light", 1.18), ("dark", 1.5)])
def test_no_colour_of_the_map_looks_like_the_page(
    lab: Lab, url: str, chromium: Browser, scheme: Scheme, least: float
) -> None:
    lab.add_device()
    with (
        served(Path(url.removeprefix("sqlite:///"))) as origin,
        visiting(chromium, origin, scheme=scheme) as visit,
    ):
        ground, *cells = visit.open("/heatmap").evaluate(READ_COLOURS)
    ratios = [contrast(ground, cell) for cell in cells]
    assert min(ratios) >= least, ratios


def contrast(one: Sequence[int], other: Sequence[int]) -> float:
    """The ratio of two colours' luminances, as WCAG has it."""
    dark, light = sorted(map(luminance, (one, other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: Sequence[int]) -> float:
    shares = [value / 255 for value in colour]
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
