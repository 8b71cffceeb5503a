"""With a token the API submits, cancels, schedules and triages, in the token's name."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import select

from databases import Lab
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.database import Database
from vkbench_db.upkeep import schedules
from vkbench_db.upkeep.tokens import Scope
from vkbench_detection.regress import inbox

CASE = "mul_mat/q4_0/m64_n17_k256"
Plant = Callable[..., int]


@pytest.fixture
def ann(pages: TestClient, secret_of: Callable[..., str]) -> TestClient:
    """The pages, asked by a script with a token that permits all."""
    pages.headers["authorization"] = f"Bearer {secret_of(*Scope, name='ann')}"
    return pages


@pytest.fixture
def device(lab: Lab) -> str:
    """A served device."""
    lab.now = time.time()
    return lab.add_device()


def test_a_run_is_submitted_once_for_its_key(
    ann: TestClient, database: Database, device: str
) -> None:
    body = {"kernels": ["copy"], "formats": ["f32"], "mode": "correctness", "label": "by script"}
    first = ann.post("/api/runs", json=body, headers={"idempotency-key": "k"})
    assert first.status_code == 201, first.text
    again = ann.post("/api/runs", json={**body, "idempotency_key": "k"})
    assert (again.status_code, again.json()["new"]) == (200, False)
    assert again.json()["id"] == first.json()["id"]
    with database.reading() as tx:
        [run] = queries.runs(tx)
        assert (run.user, run.label) == ("ann", "by script")
        assert run.progress.total == first.json()["jobs"] > 0
        assert tx.execute(select(schema.token.c.last_used_at)).scalar()


def test_a_run_compares_with_peers(ann: TestClient, database: Database, device: str) -> None:
    body = {"cases": [CASE], "mode": "performance", "peers": ["numpy", "ggml"]}
    made = ann.post("/api/runs", json=body)
    assert (made.status_code, made.json()["jobs"]) == (201, 3)
    with database.reading() as tx:
        query = select(schema.job.c.mode, schema.job.c.variant).order_by(schema.job.c.position)
        jobs = [tuple(row) for row in tx.execute(query)]
    assert jobs == [("performance", "auto"), ("peer", "numpy"), ("peer", "ggml")]
    wrong = ann.post("/api/runs", json={**body, "peers": ["gmml"]})
    assert (wrong.status_code, "did you mean 'ggml'" in wrong.text) == (400, True)


def test_a_run_is_cancelled(ann: TestClient, lab: Lab, device: str) -> None:
    run = lab.submit(device, 3)
    answer = ann.post(f"/api/runs/{run}/cancel")
    assert answer.json() == {"schema_version": 1, "id": run, "cancelled": 3}
    assert set(lab.states(run)) == {"cancelled"}
    assert ann.post("/api/runs/77/cancel").status_code == 404


def test_a_regression_goes_through_its_states(
    ann: TestClient, database: Database, device: str, planted_regression: Plant
) -> None:
    number = planted_regression(device, "copy/f32/n4096", "a", "b")
    path = f"/api/regressions/{number}"
    steps: list[tuple[dict[str, str], str, str]] = [
        ({"action": "acknowledge", "note": "looking"}, "acknowledged", "ann"),
        ({"action": "owner", "owner": "bob"}, "acknowledged", "bob"),
        ({"action": "note", "note": "<b>it is the tile</b>"}, "acknowledged", "bob"),
        ({"action": "close"}, "closed", "bob"),
        ({"action": "reopen"}, "open", "bob"),
    ]
    for body, state, owner in steps:
        answer = ann.post(path, json=body)
        assert answer.json() == {"schema_version": 1, "id": number, "state": state, "owner": owner}
    with database.reading() as tx:
        events = inbox.story(tx, number).events
    assert [event.state for event in events] == ["acknowledged", "owner", "note", "closed", "open"]
    assert {event.user for event in events} == {"ann"}
    assert ann.post(path, json={"action": "reopen"}).status_code == 400  # it is open
    assert ann.post(path, json={"action": "note"}).status_code == 400
    assert ann.post("/api/regressions/99", json={"action": "close"}).status_code == 404
    shown = ann.get(f"/regressions/{number}").text
    assert "&lt;b&gt;it is the tile" in shown


def test_a_schedule_is_added(ann: TestClient, database: Database, device: str) -> None:
    body = {"name": "nightly", "cron": "0 2 * * *", "selection": {"suite": "quick"}}
    answer = ann.post("/api/schedules", json=body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["next_due"] > time.time()
    with database.reading() as tx:
        [schedule] = schedules.list_schedules(tx)
    assert (schedule.user, schedule.selection["suite"]) == ("ann", "quick")
    assert ann.post("/api/schedules", json=body).status_code == 400  # the name is taken


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/runs", {"kernels": ["no_such"]}),
        ("/api/runs", {"kernel": ["copy"]}),
        ("/api/runs", {"suite": "x\0"}),
        ("/api/runs", {"label": "\ud800"}),
        ("/api/runs", {"repeat": 0}),
        ("/api/runs", {"priority": 2**31}),
        ("/api/runs", {"noise": "NaN"}),
        ("/api/runs", {"shapes": [{"m": -1}]}),
        ("/api/runs", {"kernels": ["copy"], "shapes": [{"q": 1}]}),
        ("/api/runs", {"mode": "paired"}),
        ("/api/runs", {"bundle": "abcd"}),
        ("/api/runs", {"devices": ["nowhere"]}),
        ("/api/runs", {"kernels": ["*"], "repeat": 1000}),
        ("/api/runs", []),
        ("/api/regressions/1", {"action": "delete"}),
        ("/api/regressions/0", {"action": "close"}),
        ("/api/schedules", {"name": "n", "cron": "never", "selection": {}}),
        ("/api/schedules", {"name": " ", "cron": "0 2 * * *", "selection": {}}),
        ("/api/schedules", {"name": "n", "cron": "0 2 * * *", "selection": {"suite": "none"}}),
    ],
)
def test_what_makes_no_sense_is_refused_and_stores_nothing(
    ann: TestClient, database: Database, device: str, path: str, body: Mapping[str, Any]
) -> None:
    sent = json.dumps(body).encode()
    answer = ann.post(path, content=sent, headers={"content-type": "application/json"})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]
    with database.reading() as tx:
        assert not queries.runs(tx)
        assert not schedules.list_schedules(tx)


def test_the_schema_says_that_a_token_is_needed(pages: TestClient) -> None:
    schema = pages.get("/api/openapi.json").json()
    writing = [
        operation
        for path in schema["paths"].values()
        for method, operation in path.items()
        if method != "get"
    ]
    assert len(writing) == 4
    for operation in writing:
        assert operation["security"] == [{"HTTPBearer": []}]
        assert {"401", "403"} <= set(operation["responses"])
