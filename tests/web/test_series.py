"""Series: a page of them that the database chooses, and the history of one."""

import json
import re
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from databases import Lab
from planted_peers import compare
from vkbench.device import Environment
from vkbench_db.ask import series
from vkbench_detection.series import placing
from vkbench_web.pages.one_series import describe_noise, differences

CASES = ("add/f32/h2_w3", "mul_mat_vec/q4_0/m8_n1_k256", "mul_mat_vec/q8_0/m8_n1_k256")


@pytest.fixture
def placed(lab: Lab) -> Lab:
    """Three nights of two devices: six series of each."""
    devices = [lab.add_device(), lab.add_device("NVIDIA <b>H200</b>", "beta")]
    for night in range(3):
        for device in devices:
            lab.submit(device, CASES)
            lab.settle(device, seconds=1e-3 * (1 + night))
        lab.now += 86400
    with lab.database.transaction() as tx:
        placing.place(tx, lab.now)
    return lab


def rows(lab: Lab, **options: object) -> list[series.SeriesRow]:
    with lab.database.reading() as tx:
        return series.page(tx, series.SeriesFilter(**options))  # type: ignore[arg-type]


def test_the_database_filters_and_counts(placed: Lab) -> None:
    assert len(rows(placed)) == 12
    assert {row.results for row in rows(placed)} == {3}
    assert {row.newest_at for row in rows(placed)} == {placed.now - 86400}
    matching = rows(placed, texts={"kernel": ["mul_*"], "metric": ["HOT"], "host": ["alpha", "no"]})
    assert [row.format for row in matching] == ["q4_0", "q8_0"]
    assert len(rows(placed, words=["h200", "add"])) == 2
    assert rows(placed, words=["h_00"]) == []  # no pattern of SQL
    assert rows(placed, ranges={"sigma": (0.0, 1.0)}) == []
    assert len(rows(placed, ranges={"results": (3, float("inf"))})) == 12


def test_the_list_has_pages_and_downloads(placed: Lab, pages: TestClient) -> None:
    page = pages.get("/series?metric=hot&sort=-series")
    assert page.status_code == 200
    numbers = [int(number) for number in re.findall(r"href=\"/series/(\d+)\">\d", page.text)]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 6
    assert "<b>H200" not in page.text
    listed = pages.get("/series?kernel=add&format=json").json()["rows"]
    assert {row["case_name"] for row in listed} == {"add/f32/h2_w3"}
    quantised = pages.get("/series?number_format=q4*&format=json").json()["rows"]
    assert {row["format"] for row in quantised} == {"q4_0"}
    assert pages.get("/series?newest_at=3").status_code == 400


def test_a_device_is_found_by_a_name_with_a_comma(lab: Lab, pages: TestClient) -> None:
    for name in ("llvmpipe (LLVM 15.0.6, 256 bits)", "H200"):
        device = lab.add_device(name)
        lab.submit(device, CASES[:1])
        lab.settle(device, seconds=1e-3)
    with lab.database.transaction() as tx:
        placing.place(tx, lab.now)
    query = {"device_name": "llvmpipe (LLVM 15.0.6, 256 bits)", "format": "json"}
    rows = pages.get("/series", params=query).json()["rows"]
    assert [row["metric"] for row in rows] == ["cold", "hot"]


def test_a_history_has_its_points_and_what_moved(placed: Lab, pages: TestClient) -> None:
    number = rows(placed)[0].series
    page = pages.get(f"/series/{number}")
    assert page.status_code == 200
    embedded = re.search(r'id="plotted">(.*?)</script>', page.text, re.DOTALL)
    assert embedded
    [plotted] = json.loads(embedded[1])["series"]
    assert plotted["seconds"] == [2e-3, 4e-3, 6e-3]
    assert plotted["levels"][-1]["seconds"] == 4e-3
    table = pages.get(f"/series/{number}?format=json").json()["rows"]
    assert [row["seconds"] for row in table] == [6e-3, 4e-3, 2e-3]
    assert [row["job"] for row in table] == plotted["job"][::-1]


def test_a_new_driver_is_said_where_it_came(
    placed: Lab, pages: TestClient, environment: Environment
) -> None:
    number = rows(placed)[0].series
    with placed.database.reading() as tx:
        last = series.points(tx, number, 1)[0]
    newer = replace(last, driver_version="23.0", environment="x", bundle="f00d" * 16)
    assert differences(last, newer) == (
        f"driver llvmpipe {environment.driver_version} → llvmpipe 23.0",
        f"bundle {last.bundle[:10] or 'none'} → f00df00df0",
    )
    assert differences(last, last) == ()
    assert pages.get(f"/series/{number}").status_code == 200


def test_several_series_are_one_plot(placed: Lab, pages: TestClient) -> None:
    one, two, *_ = (row.series for row in rows(placed))
    page = pages.get(f"/series/{one}?with={two}&x=ordinal&y=zero")
    assert page.status_code == 200
    assert page.text.count('"smallest_effect"') == 2


def test_other_series_of_the_case_are_offered_by_what_differs(
    placed: Lab, pages: TestClient
) -> None:
    [row, *_] = rows(placed, texts={"kernel": ["add"], "host": ["alpha"], "metric": ["hot"]})
    page = pages.get(f"/series/{row.series}").text
    offered = re.findall(r'type="checkbox" name="with" value="(\d+)"> ([^<]+)<', page)
    assert [words.replace("&lt;", "<").replace("&gt;", ">") for _, words in offered] == [
        "cold",
        "NVIDIA <b>H200</b> of beta",
        "NVIDIA <b>H200</b> of beta, cold",
    ]
    boxes = "&".join(f"with={number}" for number, _ in offered[:2])
    both = pages.get(f"/series/{row.series}?{boxes}&with=&x=ordinal")
    assert both.url.query.decode() == f"x=ordinal&with={offered[0][0]}%2C{offered[1][0]}"
    assert both.text.count('"smallest_effect"') == 3
    assert both.text.count(" checked") == 2


def test_noise_is_told_in_words(placed: Lab) -> None:
    [row, *_] = rows(placed)
    assert describe_noise(row) == ""
    known = replace(row, sigma=0.004, noise_kind="normal", autocorrelation=-0.38)
    assert describe_noise(known) == (
        "two of three results lie within ±0.4% of the level; fast and slow take turns"
    )
    drifting = replace(known, noise_kind="drifting", autocorrelation=0.6)
    assert describe_noise(drifting).endswith(
        "it drifts: a slow result is often followed by a slow one"
    )


@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [
        ("/series/999", 404, "unknown series"),
        ("/series/1?with=a", 400, "with names other series"),
        ("/series/1?with=999", 404, "unknown series"),
        ("/series/1?x=up", 400, "x is time or ordinal"),
        ("/series/99999999999999999999", 404, "unknown series"),
        ("/series?sort=no", 404, "unknown column"),
        ("/series?sigma=big", 400, "no number"),
        ("/series?page=0", 400, "page is a number"),
    ],
)
def test_what_makes_no_sense_is_said(
    placed: Lab, pages: TestClient, path: str, status: int, hint: str
) -> None:
    answer = pages.get(path)
    assert answer.status_code == status
    assert hint in answer.text


def test_a_series_shows_its_case_beside_other_programs(placed: Lab, pages: TestClient) -> None:
    [row, *_] = rows(placed, texts={"kernel": ["mul_*"], "format": ["q4_0"], "host": ["alpha"]})
    path = f"/series/{row.series}"
    assert "Beside other programs" not in pages.get(path).text
    compare(placed, row.device, 4e-3, 2e-3, peer="ggml", case=row.case_name)
    page = pages.get(path).text
    assert "Beside other programs" in page
    assert "theirs/ours" in page
    assert "ggml: the operation back to back" in page
    [other, *_] = rows(placed, texts={"kernel": ["mul_*"], "format": ["q4_0"], "host": ["beta"]})
    assert "Beside other programs" not in pages.get(f"/series/{other.series}").text
