"""What ran once stays in the database, and is found there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from vkbench.errors import UsageError
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_scheduler.bundles import bundle_beginning, find_stored, keep, keep_packaged
from vkbench_shaders.bundle import Bundle, manifest_text, packaged


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(f"sqlite:///{tmp_path / 'x.db'}", create=True) as database:
        yield database


def edited(tree: str) -> Bundle:
    """Some of the packaged kernels, as if of another source tree."""
    manifest = packaged().manifest
    entries = manifest.entries[:2]
    blobs = {entry.sha256: packaged().blobs[entry.sha256] for entry in entries}
    return Bundle(text=manifest_text("1", tree, entries, manifest.interfaces), blobs=blobs)


def test_the_packaged_bundle_is_kept_once_and_comes_back_whole(database: Database) -> None:
    for _ in range(2):
        keep_packaged(database)
    with database.reading() as tx:
        stored = find_stored(tx, packaged().sha)
    assert stored
    assert stored.check().blobs == packaged().blobs
    size = Path(str(database.engine.url.database)).stat().st_size
    assert size < 0.5 * sum(map(len, packaged().blobs.values()))


def test_another_build_adds_what_is_new_in_it(database: Database) -> None:
    keep_packaged(database)
    path = Path(str(database.engine.url.database))
    before = path.stat().st_size
    with database.transaction() as tx:
        assert keep(tx, edited("a"), 1.0)
        assert not keep(tx, edited("a"), 2.0)
    assert path.stat().st_size - before < 100_000


def test_a_bundle_is_found_by_the_beginning_of_its_hash(database: Database) -> None:
    shas = [edited(str(tree)).sha for tree in range(20)]
    with database.transaction() as tx:
        for tree in range(20):
            keep(tx, edited(str(tree)), 1.0)
        one = bundle_beginning(tx, shas[7][:12].upper())
        assert one
        assert one.sha == shas[7]
        assert bundle_beginning(tx, "0" * 30) is None
        assert find_stored(tx, "0" * 64) is None
        shared = next(sha[0] for sha in shas if sum(sha[0] == other[0] for other in shas) > 1)
        with pytest.raises(UsageError, match="several bundles"):
            bundle_beginning(tx, shared)
        assert store.bundles_named(tx, shas[3]) == [shas[3]]
