"""Kernels and rooflines: the catalogue beside what devices made of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from databases import Lab, one_engine
from planted_own import NAME, SHADOWED, TIMED, built_own, write_shadow
from vkbench.job import Mode, Outcome
from vkbench_scheduler.bundles import keep
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.own.building import build
from vkbench_web.scatter import Roof, Spot, scatter

CASE = "mul_mat_vec/q4_0/m8_n1_k256"


@pytest.fixture
def filled(lab: Lab) -> Lab:
    """A device with a right timing, a wrong result, and a calibration."""
    device = lab.add_device()
    lab.submit(device, [CASE, "copy/f32/n64"])
    lab.settle(device)
    lab.submit(device, [CASE], mode=Mode.CORRECTNESS)
    lab.settle(device, Outcome.WRONG)
    with lab.database.transaction() as tx:
        tx.execute(
            text(
                "INSERT INTO calibration (device_id, environment, measured_at, run_id, read_bytes,"
                " fma_f32, matrices) VALUES (1, 'x', '2026-01-01 00:00:00.000000', 1, 1e10, 1e12,"
                " '{\"f16_f32\": 3e12}')"
            )
        )
    return lab


def test_the_catalogue_with_states(filled: Lab, pages: TestClient) -> None:
    page = pages.get("/kernels?name=mul_mat_vec").text
    assert "wrong 1, passed 1" in page
    rows = pages.get("/kernels?format=json").json()["rows"]
    assert [row["name"] for row in rows] == [kernel.name for kernel in KERNELS]


@one_engine
@pytest.mark.parametrize("name", [kernel.name for kernel in KERNELS][::29])
def test_a_kernel_shows_its_source(filled: Lab, pages: TestClient, name: str) -> None:
    answer = pages.get(f"/kernels/{name}")
    assert answer.status_code == 200
    assert re.search(r'id="\w+-1"', answer.text)
    assert "<details" in answer.text


@one_engine
def test_a_kernel_says_all_there_is(filled: Lab, pages: TestClient) -> None:
    page = pages.get("/kernels/mul_mat_vec").text
    for word in ("int_dot", "subgroup_arithmetic", "weights", CASE, "via_q8_1"):
        assert word in page
    assert 'data-word="wrong"' in page
    assert page.count('class="scatter"') == 1
    assert "&lt;" in page  # of the source
    assert pages.get("/kernels/mul_mat_ve").status_code == 404


def test_a_roofline_has_points_roofs_and_a_table(filled: Lab, pages: TestClient) -> None:
    page = pages.get("/roofline").text
    assert page.count("<circle") == 2
    for roof in ("memory", "fma f32", "matrix f16→f32"):
        assert roof in page
    assert pages.get("/roofline?kernel=copy*").text.count("<circle") == 1
    assert pages.get("/roofline?y=bytes").text.count("<circle") == 2
    [row, _] = pages.get("/roofline?format=json&sort=-case").json()["rows"]
    assert (row["case"], row["intensity"], row["flops_per_second"]) == (CASE, 2.0, 2e9)


@one_engine
def test_a_roofline_without_results_or_with_wrong_words(lab: Lab, pages: TestClient) -> None:
    assert "no device is known yet" in pages.get("/roofline").text
    lab.add_device()
    assert "nothing of this device was timed yet" in pages.get("/roofline").text
    assert pages.get("/roofline?metric=warm").status_code == 404
    assert pages.get("/roofline?devise=1").status_code == 404


def test_a_roofline_that_cannot_be_says_why(filled: Lab, pages: TestClient) -> None:
    device = filled.add_device()
    filled.submit(device, ["launch/u32/n1"])
    filled.settle(device)
    with filled.database.transaction() as tx:
        tx.execute(text("UPDATE measurement SET flops = 0, bytes_moved = 4 WHERE job_id = 4"))
    page = pages.get("/roofline?kernel=launch").text
    assert "Nothing to draw: these timings have no operations." in page
    assert "y=bytes" in page
    page = pages.get("/kernels/launch").text
    assert "They say what a launch costs" in page
    assert '<svg class="scatter"' not in page
    with filled.database.transaction() as tx:
        tx.execute(text("UPDATE measurement SET bytes_moved = 4096 WHERE job_id = 4"))
    assert '<svg class="scatter"' in pages.get("/kernels/launch").text


def test_a_roofline_tells_families_by_colours(filled: Lab, pages: TestClient) -> None:
    page = pages.get("/roofline").text
    legend = re.findall(r'<span class="key (key\d)" aria-hidden="true"></span> (\w+)', page)
    assert sorted(legend) == [("key0", "matmul"), ("key1", "copy")] or sorted(legend) == [
        ("key0", "copy"),
        ("key1", "matmul"),
    ]
    assert page.count('<circle class="key') == 2
    assert page.count('class="axis"') == 2


def test_a_picture_keeps_its_proportions() -> None:
    spots = [Spot(x=x, y=y, title="", link="") for x, y in ((1.0, 1e9), (100.0, 1e11), (0.0, 1.0))]
    drawn = scatter(
        spots,
        [Roof(name="memory", slope=1e9), *(Roof(name=n, level=1e11) for n in "ab")],
        x="x",
        y="y",
    )
    assert drawn
    assert [(x, y) for x, y, _ in drawn.spots] == [
        (drawn.left, drawn.bottom),
        (drawn.right, drawn.top),
    ]
    slanted, *flat = drawn.lines
    assert slanted.path == (drawn.left, drawn.bottom, drawn.right, drawn.top)
    assert sorted(line.name for line in flat) == ["", "a +1"]
    assert [tick.text for tick in drawn.x_ticks] == ["1", "10", "100"]
    assert [tick.text for tick in drawn.y_ticks] == ["1 G", "10 G", "100 G"]
    assert scatter([], [], x="x", y="y") is None


@pytest.fixture
def own(lab: Lab, tmp_path: Path) -> Lab:
    """A user's kernel of two bundles, which a device timed, and one that shadows."""
    bundles = (
        built_own(tmp_path / "older", {"RMS norm of rows": "What it was before"}),
        built_own(tmp_path / "newer", {"RMS norm of rows": "<b>norm</b> of rows"}),
        build(write_shadow(tmp_path / "shadow"), "somebody"),
    )
    with lab.database.transaction() as tx:
        for built, now in zip(bundles, (60.0, 120.0, 180.0), strict=True):
            keep(tx, built.bundle, now)
    device = lab.add_device()
    lab.submit(device, [TIMED])
    lab.settle(device)
    return lab


def test_kernels_of_users_stand_behind_the_catalogue(own: Lab, pages: TestClient) -> None:
    rows = pages.get("/kernels?format=json").json()["rows"]
    assert [row["name"] for row in rows[len(KERNELS) :]] == ["lab.one_pass", NAME]
    assert [row["group"] for row in rows[len(KERNELS) :]] == ["own", "own"]
    [row] = pages.get(f"/kernels?format=json&name={NAME}").json()["rows"]
    assert (row["case_count"], "passed 1" in row.values()) == (3, True)
    assert f'href="/kernels/{NAME}"' in pages.get("/kernels?group=own").text


def test_a_kernel_of_a_user_says_whose_it_is(own: Lab, pages: TestClient) -> None:
    """As its newest bundle declares it; its source stays where it was written."""
    answer = pages.get(f"/kernels/{NAME}")
    assert answer.status_code == 200
    page = answer.text
    for word in (
        *("<dt>owner</dt><dd>lab</dd>", "&lt;b&gt;norm&lt;/b&gt; of rows", TIMED, "slang", "scale"),
        *("1970-01-01 00:02", "the source stays with its owner", 'data-word="passed"'),
        f'href="/series?kernel={NAME}"',
    ):
        assert word in page
    assert "What it was before" not in page
    assert 'id="source' not in page
    assert pages.get(f"/series?kernel={NAME}").status_code == 200
    shadow = pages.get("/kernels/lab.one_pass").text
    assert 'shadows</dt><dd><a href="/kernels/rms_norm">' in shadow
    assert "each by one workgroup of 64 threads" in shadow  # not the other's description
    assert 'among the <a href="/results?kernel=rms_norm">' in shadow
    assert SHADOWED in shadow
    assert pages.get("/kernels/lab.rms_quand").status_code == 404
    assert NAME in pages.get("/kernels/lab.rms_quand").text


@one_engine
def test_a_manifest_that_is_none_declares_nothing(own: Lab, pages: TestClient) -> None:
    with own.database.transaction() as tx:
        tx.execute(text("UPDATE bundle SET manifest = '{'"))
    assert pages.get(f"/kernels/{NAME}").status_code == 404
    rows = pages.get("/kernels?format=json").json()["rows"]
    assert len(rows) == len(KERNELS)


def test_the_heat_map_has_kernels_of_users_in_a_family(own: Lab, pages: TestClient) -> None:
    page = pages.get("/heatmap").text
    assert f'title="{NAME} f32: passed 1"' in page
    assert ">own</span>" in page
    page = pages.get("/heatmap?all=1").text
    assert f">{NAME}<" in page
    assert "lab.one_pass" not in page  # its results stand under the name of the other


def test_what_another_program_computes_has_results_alone(lab: Lab, pages: TestClient) -> None:
    answer = pages.get("/kernels/my-bench%3Acopy%3Cfloat%3E", follow_redirects=False)
    assert answer.status_code == 307
    assert answer.headers["location"] == "/results?kernel=my-bench%3Acopy%3Cfloat%3E"
