"""Results: filtered and cut by the database, on the page and by the API, with the same names."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from databases import Lab, one_engine, put_in_one_series
from vkbench.job import Mode, Outcome
from vkbench_tables.results import COLUMNS

Q4, Q8, ADD = "mul_mat_vec/q4_0/m8_n1_k256", "mul_mat_vec/q8_0/m8_n1_k256", "add/f32/h2_w3"


@pytest.fixture
def filled(lab: Lab) -> Lab:
    """Two devices: right results of two kernels, then a wrong and a failed one of the other."""
    here, there = lab.add_device(), lab.add_device("NVIDIA H200", "beta")
    lab.submit(here, [Q4, ADD])
    lab.settle(here)
    lab.now += 10
    lab.submit(there, [Q8])
    lab.settle(there, Outcome.WRONG)
    lab.now += 10
    lab.submit(there, [ADD], mode=Mode.CORRECTNESS)
    lab.settle(there, Outcome.CRASHED)
    return lab


def rows(pages: TestClient, query: str = "") -> list[dict[str, Any]]:
    answer = pages.get(f"/api/results?{query}")
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["schema_version"] == 1
    return list(body["rows"])


@pytest.mark.parametrize(
    ("query", "cases"),
    [
        ("", [ADD, Q8, ADD, Q4]),
        ("sort=case", [ADD, ADD, Q4, Q8]),
        ("sort=-case", [Q8, Q4, ADD, ADD]),
        ("sort=hot_seconds&kernel=mul*", [Q4, Q8]),
        ("sort=-nmse&kernel=mul*", [Q8, Q4]),
        ("device=H200", [ADD, Q8]),
        ("device=host:alpha&device=host:beta", [ADD, Q8, ADD, Q4]),
        ("kernel=MUL_MAT*", [Q8, Q4]),
        ("kernel=add&kernel=mul_mat_vec", [ADD, Q8, ADD, Q4]),
        ("format=q?_0", [Q8, Q4]),
        ("format=q8_0&format=json", [Q8]),
        ("case=*/m8_n1*", [Q8, Q4]),
        ("state=wrong&state=failed", [ADD, Q8]),
        ("mode=correctness", [ADD]),
        ("variant=a*o", [ADD, Q8, ADD, Q4]),
        ("variant=portable", []),
        ("run=1", [ADD, Q4]),
        ("run=last", [ADD]),
        ("limit=1&offset=1", [Q8]),
        ("limit=1&offset=9", []),
    ],
)
def test_filters(filled: Lab, pages: TestClient, query: str, cases: list[str]) -> None:
    assert [row["case"] for row in rows(pages, query)] == cases


def test_a_series_has_its_whole_history(filled: Lab, pages: TestClient) -> None:
    filled.now += 10
    filled.submit(rows(pages)[3]["device"], [Q4])
    filled.settle(rows(pages)[3]["device"])
    put_in_one_series(filled)
    assert [row["case"] for row in rows(pages, "kernel=mul_mat_vec&format=q4_0")] == [Q4]
    history = rows(pages, "series=1&kernel=mul_mat_vec")
    assert [row["case"] for row in history] == [Q4, Q4]
    assert history[0]["hot_series"] == 1


@one_engine
def test_pages_and_files_agree(filled: Lab, pages: TestClient) -> None:
    page = pages.get("/results?kernel=mul_mat_vec&sort=case")
    assert page.text.index(Q4) < page.text.index(Q8)
    assert ADD not in page.text
    assert "2 rows" in page.text
    assert "format=csv" in page.text
    file = pages.get("/results?kernel=mul_mat_vec&sort=case&format=csv")
    assert "attachment" in file.headers["content-disposition"]
    listed = list(csv.DictReader(io.StringIO(file.text)))
    assert [row["case"] for row in listed] == [Q4, Q8]
    assert list(listed[0]) == [column.key for column in COLUMNS]
    both = pages.get("/results?format=q4_0&format=json")
    assert [row["case"] for row in json.loads(both.text)["rows"]] == [Q4]


@one_engine
def test_a_page_has_a_hundred_rows(lab: Lab, pages: TestClient) -> None:
    device = lab.add_device()
    lab.submit(device, 250)
    lab.settle(device)
    first, last = pages.get("/results?sort=job").text, pages.get("/results?sort=job&page=3").text
    assert "250 rows, page 1 of 3" in first
    assert "page=2" in first
    assert last.count("<tr>") == 51
    assert pages.get("/results?page=99").text.count("page 3 of 3") == 1


@one_engine
@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [
        ("/results?kernle=add", 404, "kernel"),
        ("/results?kernel=ad", 404, "add"),
        ("/results?state=passd", 404, "passed"),
        ("/results?sort=nothing", 404, "sort"),
        ("/results?series=x", 400, "series"),
        ("/results?series=" + "0" * 11 + "1" * 5000, 400, "series"),
        ("/results?page=0", 400, "page"),
        ("/results?run=none", 404, "run"),
        ("/api/results?limit=0", 400, "limit"),
        ("/api/results?limit=10001", 400, "limit"),
        ("/api/results?series=99999999999", 400, "series"),
        ("/api/results?mode=both", 404, "mode"),
        ("/api/kernels?kernel=nothing", 404, "kernel"),
        ("/api/devices?format=xml", 400, "csv"),
    ],
)
def test_what_cannot_be_is_said(
    filled: Lab, pages: TestClient, path: str, status: int, hint: str
) -> None:
    answer = pages.get(path)
    assert answer.status_code == status
    assert hint in answer.text


@one_engine
def test_devices_and_kernels_have_the_names_of_the_commands(filled: Lab, pages: TestClient) -> None:
    devices = pages.get("/api/devices").json()["rows"]
    assert [(row["name"], row["host"]) for row in devices] == [
        ("llvmpipe", "alpha"),
        ("NVIDIA H200", "beta"),
    ]
    [kernel] = pages.get("/api/kernels?kernel=mul_mat_vec").json()["rows"]
    assert kernel["variants"][-1] == {"name": "portable", "requires": [], "path": "f32"}
    assert pages.get("/api/kernels?format=csv&format=q4_K").text.startswith("name,group,")


@one_engine
def test_the_schema_says_what_answers_hold(filled: Lab, pages: TestClient) -> None:
    schema = pages.get("/api/openapi.json").json()
    known = schema["components"]["schemas"]["Result"]["properties"]
    assert list(known) == list(rows(pages)[0])
    assert "seconds" in known["hot_seconds"]["description"]
