"""Kernels and rooflines: the catalogue beside what devices made of it."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from databases import Lab, one_engine
from vkbench.job import Mode, Outcome
from vkbench_shaders.catalogue import KERNELS
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
    found = pages.get("/kernels?format=json").json()["rows"]
    assert [row["name"] for row in found] == [kernel.name for kernel in KERNELS]


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
    for said in ("int_dot", "subgroup_arithmetic", "weights", CASE, "via_q8_1"):
        assert said in page
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


def test_a_picture_keeps_its_proportions() -> None:
    spots = [Spot(x=x, y=y, said="", link="") for x, y in ((1.0, 1e9), (100.0, 1e11), (0.0, 1.0))]
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
