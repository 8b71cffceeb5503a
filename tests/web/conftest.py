"""Pages over a database of made-up results, asked without a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from fastapi.testclient import TestClient
from playwright.sync_api import Browser

import browser
from databases import Cluster, Lab, settings_of_pages, with_roles
from demonstrated import demonstrated
from planted_runs import filled, past, planted_regression
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.upkeep import tokens
from vkbench_db.upkeep.tokens import Scope
from vkbench_web.app import application
from vkbench_web.lab import Lab as Pages

__all__ = ["demonstrated", "filled", "past", "planted_regression"]

Need = Callable[[str, str], NoReturn]


@pytest.fixture(scope="session")
def chromium(need: Need) -> Iterator[Browser]:
    """One browser for all tests; each visitor has a window of their own."""
    if not browser.program():
        need("browser", "no Chromium is on the path")
    with browser.browser() as started:
        yield started


@pytest.fixture(scope="session")
def template(cluster: Cluster, template: str) -> str:
    """A database with the schema, as compose.yaml has it: the pages have roles of their own."""
    return with_roles(cluster, template)


@pytest.fixture
def unmade(tmp_path: Path) -> Iterator[TestClient]:
    """The pages of a machine that has no database yet."""
    lab = Pages(Settings(data=tmp_path, cache=tmp_path, host="here"))
    with TestClient(application(lab), raise_server_exceptions=True) as client:
        yield client


@pytest.fixture
def pages(lab: Lab, url: str, tmp_path: Path) -> Iterator[TestClient]:
    """The pages of a lab, on each engine."""
    with TestClient(application(Pages(settings_of_pages(url, tmp_path)))) as client:
        yield client


@pytest.fixture
def secret_of(database: Database) -> Callable[..., str]:
    """`secret_of(Scope.TRIAGE)` is the secret of a new token, whose name is the scopes."""

    def made(*scopes: Scope, expires_at: float | None = None, name: str = "") -> str:
        with database.transaction() as tx:
            return tokens.add(
                tx,
                name=name or "-".join(scopes),
                scopes=scopes,
                now=time.time(),
                expires_at=expires_at,
            )

    return made
