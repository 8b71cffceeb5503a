"""The read API: each answer is what its description says, with the names of the commands' JSON."""

import json
import re
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from databases import Lab
from vkbench.job import Outcome
from vkbench_detection.series import placing
from vkbench_web.api import findings, history

ASKED = [
    "/api/runs",
    "/api/runs/last",
    "/api/runs/1?state=passed",
    "/api/jobs/1",
    "/api/jobs/3",
    "/api/jobs/5",
    "/api/jobs/1/samples",
    "/api/series",
    "/api/series?kernel=mul*&metric=hot&sort=-newest_at&limit=1",
    "/api/series/1",
    "/api/compare?old=1&new=2&all=true",
    "/api/compare?old=1&new=2&metric=hot",
    "/api/regressions",
    "/api/regressions?state=open&direction=slower",
    "/api/query?sql=SELECT job, seconds FROM v_results",
]
ROUTES = {
    route.path: route
    for module in (history, findings)
    for route in module.router.routes
    if isinstance(route, APIRoute)
}


@pytest.fixture
def filled(lab: Lab) -> Lab:
    """Two runs that are done, the first result wrong, and one that waits."""
    device = lab.add_device()
    lab.submit(device, ["add/f32/h2_w3"])
    lab.settle(device, Outcome.WRONG)
    for seconds in (1e-3, 2e-3):
        lab.submit(device, 2)
        lab.settle(device, seconds=seconds)
        lab.now += 60
    lab.submit(device, 1)
    with lab.database.transaction() as tx:
        placing.place(tx, lab.now)
    return lab


def model_of(path: str) -> Any:
    """The description of the answer of the route that a path leads to."""
    words = path.partition("?")[0].split("/")
    for template, route in ROUTES.items():
        parts = template.split("/")
        if len(parts) == len(words) and all(
            part in (word, f"{{{part.strip('{}')}}}")
            for part, word in zip(parts, words, strict=True)
        ):
            return route.responses[200]["model"]
    raise AssertionError(path)


def test_answers_are_as_described(filled: Lab, pages: TestClient) -> None:
    for path in ASKED:
        answer = pages.get(path.replace("old=1&new=2", "old=2&new=3"))
        assert answer.status_code == 200, (path, answer.text)
        model = model_of(path)
        body = answer.json()
        assert body["schema_version"] == 1
        assert set(body) == set(model.model_fields), path
        model.model_validate_json(answer.text, strict=True)
        rows = model.model_fields["rows"].annotation.__args__[0].model_fields
        assert all(set(row) == set(rows) for row in body["rows"]) or "query" in path


def test_all_routes_are_described(pages: TestClient) -> None:
    described = pages.get("/api/openapi.json").json()["paths"]
    assert set(ROUTES) <= set(described)
    for path in ROUTES:
        operation = described[path]["get"]
        assert operation["description"], path
        assert operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
        schemas = (
            parameter
            for parameter in operation.get("parameters", ())
            if parameter["name"] != "format"
        )
        assert all("schema" in parameter for parameter in schemas), path


def test_samples_are_those_that_were_recorded(filled: Lab, pages: TestClient) -> None:
    rows = pages.get("/api/jobs/2/samples").json()["rows"]
    assert [row["metric"] for row in rows] == ["cold", "hot"]
    assert rows[1]["samples"] == pytest.approx([1e-3, 0.9e-3, 1.1e-3], rel=1e-6)
    assert pages.get("/api/jobs/1/samples").json()["rows"] == []


def test_a_job_has_its_result(filled: Lab, pages: TestClient) -> None:
    wrong, waiting = (pages.get(f"/api/jobs/{number}").json() for number in (1, 6))
    assert (wrong["rows"][0]["state"], wrong["result"]["verdict"]) == ("wrong", "wrong")
    assert (waiting["rows"][0]["state"], waiting["result"]) == ("queued", None)


@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [
        ("/api/runs?limit=0", 400, "limit"),
        ("/api/runs/nightly", 404, "unknown run"),
        ("/api/jobs/0", 400, "number"),
        ("/api/jobs/99", 404, "unknown job"),
        ("/api/series/99", 404, "unknown series"),
        ("/api/series?sigma=x", 400, "no number"),
        ("/api/compare?old=1", 400, "new"),
        ("/api/regressions/7", 404, "unknown regression"),
        ("/api/regressions?state=shut", 404, "unknown state"),
        ("/api/query?sql=SELECT * FROM run", 400, "only the views"),
        ("/api/nothing", 404, "no page"),
    ],
)
def test_errors_are_json(filled: Lab, pages: TestClient, path: str, status: int, hint: str) -> None:
    answer = pages.get(path)
    assert answer.status_code == status
    assert hint in json.loads(answer.text)["error"]


def test_the_page_of_the_api_shows_code_as_code(pages: TestClient) -> None:
    page = pages.get("/api").text
    assert "`" not in page
    assert "<code>q4_?</code>" in page


def test_the_page_of_the_api_has_every_address_and_field(pages: TestClient) -> None:
    described = pages.get("/api/openapi.json").json()
    page = pages.get("/api")
    assert page.status_code == 200
    for path, methods in described["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code></h2>" in page.text
    for schema in ("Compared", "NewRun", "RegressionOf"):
        for name in described["components"]["schemas"][schema]["properties"]:
            assert f'class="mono">{name}' in page.text
    assert page.text.count("<h2 id=") == len(set(re.findall('<h2 id="([^"]+)"', page.text)))
    assert 'href="/api">API</a></footer>' in page.text
