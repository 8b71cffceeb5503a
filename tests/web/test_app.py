"""Every page answers on a machine that has no database yet, and every error is a page."""

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_web.access.hosts import LOOPBACK
from vkbench_web.app import application
from vkbench_web.lab import Lab

PATHS = ("/", "/fleet", "/runs", "/series", "/compare")


@pytest.mark.parametrize("path", PATHS)
def test_a_machine_without_a_database_has_pages(unmade: TestClient, path: str) -> None:
    answer = unmade.get(path)
    assert answer.status_code == 200
    assert "yet" in answer.text
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


def test_an_unknown_page_says_so(unmade: TestClient) -> None:
    answer = unmade.get("/flet")
    assert answer.status_code == 404
    assert "there is no page /flet" in answer.text


def test_an_unknown_column_names_the_nearest(unmade: TestClient) -> None:
    answer = unmade.get("/runs?sotr=id")
    assert answer.status_code == 404
    assert "sort" in answer.text


@pytest.mark.parametrize("path", ["/runs?q=a%00b", "/series/%00", "/api/runs/%00"])
def test_a_null_character_names_nothing(unmade: TestClient, path: str) -> None:
    answer = unmade.get(path)
    assert answer.status_code == 400
    assert "null character" in answer.text
    assert "content-security-policy" in answer.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8900", 200), ("localhost", 200), ("[::1]:8900", 200), ("evil.example", 421)],
)
def test_pages_of_this_machine_answer_to_its_own_names(
    tmp_path: Path, host: str, status: int
) -> None:
    lab = Lab(Settings(data=tmp_path, cache=tmp_path, host="here"))
    with TestClient(application(lab, LOOPBACK)) as client:
        answer = client.get("/fleet", headers={"host": host})
    assert answer.status_code == status


def test_pages_stop_answering_once_a_newer_vkbench_has_upgraded_the_database(
    pages: TestClient, database: Database
) -> None:
    assert pages.get("/results").status_code == 200
    with database.transaction() as tx:
        tx.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    answer = pages.get("/results")
    assert answer.status_code == 503
    assert "schema 9999, newer than this vkbench knows" in answer.text
