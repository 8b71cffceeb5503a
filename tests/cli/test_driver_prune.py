"""`vkbench driver prune`: copies of drivers go that nothing needs, and the rest stays."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from planted_libraries import update, write_library, write_manifest
from vkbench.drivers.copies import keep_own
from vkbench.process.plain_file import replace_file
from vkbench.settings import settings
from vkbench_db.database import Database
from vkbench_db.upkeep import schedules

Type = Callable[..., tuple[int, str, str]]
DAY = 86400.0
OLDER = ("driver", "prune", "--older-than", "30d")


def make_older(folder: Path) -> None:
    """All that a folder keeps was added two months ago."""
    for manifest in (folder / "builds").iterdir():
        known = msgspec.json.decode(manifest.read_bytes())
        replace_file(manifest, msgspec.json.encode(known | {"added_at": time.time() - 60 * DAY}))
        os.utime(manifest)


@pytest.fixture
def data(tmp_path: Path, type_words: Type) -> Path:
    """The data of a user who added three drivers, one of them in place, whose host had two."""
    for name in ("mine", "weekly"):
        write_library(tmp_path / name / "lib.so", b"\0vk_icdGetInstanceProcAddr\0" + name.encode())
        write_manifest(tmp_path / name / "x_icd.json", "./lib.so")
        assert not type_words("driver", "add", name, "--folder", str(tmp_path / name))[0]
    manifest = str(tmp_path / "mine" / "x_icd.json")
    assert not type_words("driver", "add", "in-place", "--icd", manifest)[0]
    settings.cache_clear()
    for version in ("25.0", "26.0"):
        assert not keep_own(update(tmp_path, version), settings().own_driver_folder()).reason
    return tmp_path / "data"


def names(type_words: Type) -> list[str]:
    return sorted(
        row["name"] for row in json.loads(type_words("driver", "ls", "--json")[1])["rows"]
    )


def test_copies_go_that_nothing_needs(type_words: Type, data: Path) -> None:
    assert type_words(*OLDER)[1] == "0 drivers, 0.0 MB, removed\n"
    _, _, err = type_words("driver", "ls")
    assert err.startswith("copies of 2 drivers that this host ran on take ")
    for folder in ("drivers", "own-drivers"):
        make_older(data / folder)
    assert not type_words("db", "upgrade")[0]
    with Database.open(settings().database_url()) as database, database.transaction() as tx:
        selection = {"driver": "weekly"}
        schedules.add(tx, name="w", cron="@weekly", selection=selection, user="ann", now=1.0)
    code, out, err = type_words(*OLDER, "--dry-run")
    assert (code, out.endswith(" MB, would be removed\n"), out[:9]) == (0, True, "3 drivers")
    told = {line.split(" ", 1)[1].partition(",")[0] for line in err.splitlines()}
    assert told == {"mine", *list_own(data)}
    assert names(type_words) == ["in-place", "mine", "weekly"]
    assert type_words(*OLDER)[1] == out.replace("would be removed", "removed")
    assert names(type_words) == ["in-place", "weekly"]
    assert list_own(data) == []
    assert not list((data / "own-drivers" / "files").iterdir())
    assert type_words("driver", "ls")[2] == ""


def list_own(data: Path) -> list[str]:
    manifests = (data / "own-drivers" / "builds").iterdir()
    return sorted(str(msgspec.json.decode(path.read_bytes())["name"]) for path in manifests)
