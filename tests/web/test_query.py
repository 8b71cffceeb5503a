"""SQL from a browser: the views answer, everything else is refused in one line."""

from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient

from databases import Lab
from vkbench_web.pages.query import EXAMPLES


@pytest.fixture
def filled(lab: Lab) -> Lab:
    device = lab.add_device("<script>alert(1)</script>")
    lab.submit(device, 2)
    lab.settle(device)
    return lab


def test_an_answer_of_many_columns_is_not_pushed_down_by_their_filters(
    filled: Lab, pages: TestClient
) -> None:
    def select(columns: int) -> str:
        names = ", ".join(f"word AS c{number}" for number in range(columns))
        words = " UNION ALL ".join(f"SELECT '{word}' AS word" for word in ("old", "new", "new"))
        return quote(f"SELECT {names} FROM ({words}) AS made")

    assert "<summary>Filter by" not in pages.get(f"/query?sql={select(8)}").text
    assert "<details><summary>Filter by 9 columns" in pages.get(f"/query?sql={select(9)}").text


def test_the_answer_is_a_table_and_files(filled: Lab, pages: TestClient) -> None:
    sql = quote("SELECT job, device_name, format FROM v_latest WHERE metric = 'hot' ORDER BY job")
    page = pages.get(f"/query?sql={sql}")
    assert page.status_code == 200
    assert '<a href="/jobs/1">1</a>' in page.text
    assert "<script>alert" not in page.text
    assert pages.get(f"/query?sql={sql}&format=csv").text.splitlines()[1] == (
        "1,<script>alert(1)</script>,q4_0"
    )
    assert [row["job"] for row in pages.get(f"/query?sql={sql}&format=json").json()["rows"]] == [
        1,
        2,
    ]


def test_examples_run(filled: Lab, pages: TestClient) -> None:
    form = pages.get("/query")
    assert form.status_code == 200
    assert "roof_fraction" in form.text
    for _, statement in EXAMPLES:
        assert pages.get("/query", params={"sql": statement}).status_code == 200, statement


@pytest.mark.parametrize(
    ("sql", "hints"),
    [
        ("SELECT * FROM run", "only the views v_"),
        ("DELETE FROM run", "refused"),
        ("SELEC", "refused"),
        ("SELECT 1;;; SELECT 2", "refused"),
        ("SELECT <b>", "refused"),
        ("\0", "null"),
    ],
)
def test_refusals_are_one_line(filled: Lab, pages: TestClient, sql: str, hints: str) -> None:
    answer = pages.get("/query", params={"sql": sql})
    assert answer.status_code == 400
    assert any(word in answer.text for word in hints.split("|"))
    assert "<b>" not in answer.text


def test_a_machine_without_a_database_answers(unmade: TestClient) -> None:
    answer = unmade.get("/query?sql=SELECT count(*) AS n FROM v_results&format=json")
    assert answer.json()["rows"] == [{"n": 0}]
