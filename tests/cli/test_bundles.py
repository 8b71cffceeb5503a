"""A bundle by the beginning of its hash: of this machine, of the database, and never of two."""

from __future__ import annotations

from itertools import count

import pytest

from vkbench.settings import settings
from vkbench_cli.bundles import bundle_named
from vkbench_db.database import Database
from vkbench_scheduler.bundles import keep
from vkbench_shaders.bundle import (
    AmbiguousBundle,
    Bundle,
    UnknownBundle,
    kept_bundles,
    manifest_text,
    packaged,
)


def edited(tree: str) -> Bundle:
    """One of the packaged kernels, as if of another source tree."""
    manifest = packaged().manifest
    [entry] = manifest.entries[:1]
    blobs = {entry.sha256: packaged().blobs[entry.sha256]}
    return Bundle(text=manifest_text("1", tree, [entry], manifest.interfaces), blobs=blobs)


def twins(digits: int) -> tuple[Bundle, Bundle]:
    """Two bundles whose hashes begin alike."""
    by_start: dict[str, Bundle] = {}
    for tree in count():
        one = edited(str(tree))
        if other := by_start.get(one.sha[:digits]):
            return other, one
        by_start[one.sha[:digits]] = one
    raise AssertionError


def test_a_beginning_is_unique_here_and_in_the_database_together(database: Database) -> None:
    here, there = twins(4)
    kept_bundles(settings()).put(here)
    with database.transaction() as tx:
        keep(tx, there, 1.0)
    with database.reading() as tx:
        assert bundle_named(tx, "") is None
        for one in (here, there):
            bundle = bundle_named(tx, one.sha[:20].upper())
            assert bundle
            assert bundle.sha == one.sha
        with pytest.raises(AmbiguousBundle, match="begins several bundles"):
            bundle_named(tx, here.sha[:4])
        with pytest.raises(UnknownBundle):
            bundle_named(tx, "0" * 20)
