"""Nothing is written without a token: by no method, with no header, from no other site."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from databases import Lab
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.upkeep import tokens
from vkbench_db.upkeep.tokens import Scope
from vkbench_detection.regress import inbox

Secrets = Callable[..., str]
Plant = Callable[..., int]

METHODS = ("POST", "PUT", "PATCH", "DELETE", "QUERY")
OURS = {"sec-fetch-site": "same-origin", "origin": "http://testserver"}
TABLES = ("run", "job", "regression_event", "schedule", "token")
API: tuple[tuple[str, dict[str, object], Scope], ...] = (
    ("/api/runs", {"kernels": ["copy"]}, Scope.SUBMIT),
    ("/api/runs/1/cancel", {}, Scope.SUBMIT),
    ("/api/regressions/1", {"action": "close"}, Scope.TRIAGE),
    ("/api/schedules", {"name": "n", "cron": "0 2 * * *", "selection": {}}, Scope.SCHEDULE),
)
FORMS: tuple[tuple[str, dict[str, str], Scope], ...] = (
    ("/regressions/1", {"action": "close"}, Scope.TRIAGE),
    ("/runs/1/cancel", {}, Scope.SUBMIT),
)
BEARERS: tuple[Mapping[str, str], ...] = (
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": "Bearer vkb_wrong"},
    {"authorization": "Basic {secret}"},
    {"authorization": "{secret}"},
    {"authorization": "Bearer {secret}x"},
    {"cookie": "vkbench_token={secret}"},
    {"x-authorization": "Bearer {secret}"},
    {"x-http-method-override": "GET"},
    {**OURS, "cookie": "vkbench_token={secret}"},
)
SITES: tuple[Mapping[str, str], ...] = (
    {},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "none"},
    {"origin": "null"},
    {"origin": ""},
    {"origin": "http://["},
    {"origin": "http://testserver:81"},
    {"origin": "http://testserver.evil.org"},
    {"sec-fetch-site": "same-origin", "origin": "http://evil.org"},
    {"sec-fetch-site": "cross-site", "origin": "http://testserver"},
)


@pytest.fixture
def regressed(lab: Lab, planted_regression: Plant) -> Database:
    """A device with a run and a regression, numbers 1."""
    device = lab.add_device()
    planted_regression(device, "copy/f32/n4096", "a", "b")
    return lab.database


def contents(database: Database) -> dict[str, object]:
    with database.reading() as tx:
        counts: dict[str, object] = {
            name: tx.execute(select(func.count()).select_from(schema.TABLES.tables[name])).scalar()
            for name in TABLES
        }
        counts["states"] = tx.execute(select(schema.job.c.state)).scalars().all()
        counts["regression"] = tx.execute(select(schema.regression.c.state)).scalars().all()
    return counts


def filled(headers: Mapping[str, str], secret: str) -> dict[str, str]:
    return {name: value.replace("{secret}", secret) for name, value in headers.items()}


def test_the_api_refuses_whoever_shows_no_token(
    pages: TestClient, regressed: Database, secret_of: Secrets
) -> None:
    secret = secret_of(*Scope)
    before = contents(regressed)
    for path, body, _ in API:
        for method in METHODS:
            for headers in BEARERS:
                answer = pages.request(method, path, json=body, headers=filled(headers, secret))
                assert answer.status_code == 401, (method, path, headers)
                assert answer.headers["www-authenticate"].startswith("Bearer")
                assert "error" in answer.json()
    assert contents(regressed) == before


def test_forms_of_other_sites_are_refused(
    pages: TestClient, regressed: Database, secret_of: Secrets
) -> None:
    secret = secret_of(*Scope)
    pages.cookies.set("vkbench_token", secret)
    before = contents(regressed)
    csrf = form_word(pages)
    for path, form, _ in FORMS:
        for method in METHODS:
            for headers in SITES:
                sent = {**form, "csrf": csrf}
                answer = pages.request(method, path, data=sent, headers=headers)
                assert answer.status_code == 403, (method, path, headers)
    assert contents(regressed) == before


@pytest.mark.parametrize("csrf", [None, "", "0" * 64, "é"])
def test_a_form_without_its_word_is_refused(
    pages: TestClient, regressed: Database, secret_of: Secrets, csrf: str | None
) -> None:
    pages.cookies.set("vkbench_token", secret_of(*Scope))
    before = contents(regressed)
    for path, form, _ in FORMS:
        sent = form if csrf is None else {**form, "csrf": csrf}
        assert pages.post(path, data=sent, headers=OURS).status_code == 403
    assert contents(regressed) == before


def test_a_form_of_another_token_is_refused(
    pages: TestClient, regressed: Database, secret_of: Secrets
) -> None:
    pages.cookies.set("vkbench_token", secret_of(Scope.READ))
    csrf = form_word(pages)
    pages.cookies.set("vkbench_token", secret_of(*Scope))
    sent = {"action": "close", "csrf": csrf}
    assert pages.post("/regressions/1", data=sent, headers=OURS).status_code == 403
    assert contents(regressed)["regression"] == ["open"]


def test_without_a_cookie_no_form_is_taken(pages: TestClient, regressed: Database) -> None:
    for path, form, _ in FORMS:
        for headers in (OURS, {**OURS, "cookie": "vkbench_token=vkb_wrong"}):
            assert pages.post(path, data=form, headers=headers).status_code == 401


def test_a_token_without_the_scope_is_refused(
    pages: TestClient, regressed: Database, secret_of: Secrets
) -> None:
    before = contents(regressed)["regression"]
    for path, body, scope in API:
        others = [other for other in Scope if other is not scope]
        header = {"authorization": f"Bearer {secret_of(*others, name=path)}"}
        answer = pages.post(path, json=body, headers=header)
        assert (answer.status_code, scope in answer.json()["error"]) == (403, True)
    assert contents(regressed)["regression"] == before


@pytest.mark.parametrize("how", ["expired", "revoked"])
def test_an_old_token_is_refused(
    pages: TestClient, regressed: Database, secret_of: Secrets, how: str
) -> None:
    secret = secret_of(*Scope, name="old", expires_at=time.time() + (how == "revoked"))
    if how == "revoked":
        with regressed.transaction() as tx:
            tokens.revoke(tx, "old", time.time())
    header = {"authorization": f"Bearer {secret}"}
    for path, body, _ in API:
        assert pages.post(path, json=body, headers=header).status_code == 401


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"content-length": "1048577"}, 413),
        ({"content-length": "-1"}, 413),
        ({"transfer-encoding": "chunked"}, 411),
    ],
)
def test_a_large_body_is_not_read(
    pages: TestClient, headers: Mapping[str, str], status: int
) -> None:
    assert pages.post("/api/runs", content=b"{}", headers=headers).status_code == status


def test_a_machine_without_a_database_gets_none(unmade: TestClient) -> None:
    for path, body, _ in API:
        assert unmade.post(path, json=body).status_code == 401
        bearer = {"authorization": "Bearer vkb_wrong"}
        assert unmade.post(path, json=body, headers=bearer).status_code == 401
    assert unmade.post("/sign-in", data={"token": "x"}, headers=OURS).status_code == 401
    assert unmade.get("/fleet").status_code == 200


def test_a_token_opens_a_session_and_signing_out_ends_it(
    pages: TestClient, regressed: Database, secret_of: Secrets
) -> None:
    secret = secret_of(Scope.TRIAGE, name="ann")
    sent = {"token": secret, "next": "/regressions/1"}
    assert pages.post("/sign-in", data=sent).status_code == 403  # which site is this from?
    assert pages.post("/sign-in", data={"token": "x"}, headers=OURS).status_code == 401
    answer = pages.post("/sign-in", data=sent, headers=OURS, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/regressions/1")
    cookie = answer.headers["set-cookie"].casefold()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    form = {"action": "acknowledge", "note": "mine", "csrf": form_word(pages)}
    assert pages.post("/regressions/1", data=form, headers=OURS).status_code == 200
    with regressed.reading() as tx:
        story = inbox.story(tx, 1)
    assert (story.row.state, story.row.owner) == ("acknowledged", "ann")
    assert (story.events[-1].user, story.events[-1].note) == ("ann", "mine")
    out = {"csrf": form["csrf"]}
    assert pages.post("/sign-out", data={}, headers=OURS).status_code == 403
    assert pages.post("/sign-out", data=out, headers=OURS).status_code == 200
    assert pages.post("/regressions/1", data=form, headers=OURS).status_code == 401


@pytest.mark.parametrize("goal", ["//evil.org", "https://evil.org", "/\\evil.org", "/\tx", "é", ""])
def test_signing_in_leads_to_this_site_alone(
    pages: TestClient, secret_of: Secrets, goal: str
) -> None:
    sent = {"token": secret_of(Scope.READ), "next": goal}
    answer = pages.post("/sign-in", data=sent, headers=OURS, follow_redirects=False)
    assert answer.headers["location"] == "/regressions"


def form_word(pages: TestClient) -> str:
    """The word in the forms of whoever is signed in."""
    match = re.search(r'name="csrf" value="([0-9a-f]+)"', pages.get("/fleet").text)
    assert match
    return match[1]
