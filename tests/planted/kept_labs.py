"""Labs whose long history is made once, and copied for each test that begins with it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from databases import Cluster, Lab
from vkbench_db.database import Database

After = Callable[[Callable[[Lab], Any]], Any]
Kept = dict[tuple[str, Callable[[Lab], Any]], tuple[str, Any]]  # a database, and what was made


@pytest.fixture(scope="session")
def kept_labs() -> Kept:
    """What `after` has made, by the engine and the function that made it."""
    return {}


@pytest.fixture
def after(
    engine_name: str,
    kept_labs: Kept,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[After]:
    """`after(plant)` is what `plant(lab)` gives, with a copy of the database that it leaves."""
    opened: list[Database] = []

    def copied(source: str, folder: Path) -> str:
        """A copy of a database, and its name."""
        if engine_name == "sqlite":
            return str(shutil.copy(source, folder / "kept.db"))
        return cluster().create(source)

    def cluster() -> Cluster:
        found: Cluster = request.getfixturevalue("cluster")
        return found

    def url(name: str) -> str:
        return f"sqlite:///{name}" if engine_name == "sqlite" else cluster().url(name)

    def begin(plant: Callable[[Lab], Any]) -> Any:
        if (engine_name, plant) not in kept_labs:
            empty = "template_file" if engine_name == "sqlite" else "template"
            name = copied(request.getfixturevalue(empty), tmp_path_factory.mktemp("kept"))
            with Database.open(url(name)) as database:
                kept_labs[engine_name, plant] = name, plant(Lab(database))
        name, made = kept_labs[engine_name, plant]
        opened.append(Database.open(url(copied(name, tmp_path))))
        return deepcopy(made, {id(made.lab.database): opened[-1]})

    yield begin
    for database in opened:
        name = str(database.engine.url.database)
        database.close()
        if engine_name != "sqlite":
            cluster().execute(f"DROP DATABASE {name} WITH (FORCE)")
