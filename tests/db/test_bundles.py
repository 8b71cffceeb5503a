"""Bundles are kept whole, once, and only with the contents that their hashes promise."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from sqlalchemy import func, insert, select

from databases import Lab
from vkbench_db import schema
from vkbench_db.errors import BundleRefused
from vkbench_db.work import store
from vkbench_db.work.bundles import read_revisions


def bundle(name: str, *blobs: bytes) -> store.StoredBundle:
    contents = {hashlib.sha256(blob).hexdigest(): blob for blob in blobs}
    manifest = f"{name}: {sorted(contents)}"
    return store.StoredBundle(
        sha=hashlib.sha256(manifest.encode()).hexdigest(),
        name=name,
        manifest=manifest,
        blobs=contents,
    )


def test_a_bundle_comes_back_as_it_was(lab: Lab) -> None:
    edited = bundle("edited", b"\x03\x02\x23\x07one", b"\x00\xff" * 5000)
    with lab.database.transaction() as tx:
        assert not store.has_bundle(tx, edited.sha)
        assert store.store_bundle(tx, edited, lab.now)
        assert not store.store_bundle(tx, edited, lab.now)
    with lab.database.reading() as tx:
        assert store.load_bundle(tx, edited.sha) == edited
        assert store.has_bundle(tx, edited.sha)
        assert store.load_bundle(tx, "0" * 64) is None


def test_a_bundle_tells_the_revisions_that_it_was_made_of(lab: Lab) -> None:
    """The same code may come of several revisions; the newest few are kept, each once."""
    edited, other = bundle("edited", b"one"), bundle("other", b"two")
    with lab.database.transaction() as tx:
        store.store_bundle(tx, other, lab.now)
        for number in (0, 1, 1, *range(10)):
            store.store_bundle(tx, replace(edited, made_of=(f"{number} more",)), lab.now)
        store.store_bundle(tx, edited, lab.now)
    with lab.database.reading() as tx:
        told = read_revisions(tx, [edited.sha, other.sha, "0" * 64, ""])
        assert told == {edited.sha: [f"{number} more" for number in range(2, 10)]}
        kept = store.load_bundle(tx, edited.sha)
        assert kept
        assert kept.made_of == tuple(f"{number} more" for number in range(2, 10))


def test_equal_blobs_are_kept_once(lab: Lab) -> None:
    with lab.database.transaction() as tx:
        for name in ("old", "new"):
            store.store_bundle(tx, bundle(name, b"same", name.encode()), lab.now)
        assert tx.execute(select(func.count()).select_from(schema.blob)).scalar() == 3


def test_blobs_are_kept_small(lab: Lab) -> None:
    with lab.database.transaction() as tx:
        store.store_bundle(tx, bundle("plain", b"\x00\x01" * 5000), lab.now)
        assert len(tx.execute(select(schema.blob.c.data)).scalar_one()) < 200


def test_bundles_are_found_by_the_beginning_of_their_hash(lab: Lab) -> None:
    one = bundle("one", b"one")
    manifest_alone = {"sha": one.sha[:8] + "0" * 56, "name": "", "manifest": "", "created_at": 1.0}
    with lab.database.transaction() as tx:
        store.store_bundle(tx, one, lab.now)
        tx.execute(insert(schema.bundle), [manifest_alone])
        assert store.bundles_named(tx, one.sha[:8]) == [one.sha]
        assert store.bundles_named(tx, "%") == []


@pytest.mark.parametrize("part", ["manifest", "blobs"])
def test_contents_that_differ_from_their_hash_are_refused(lab: Lab, part: str) -> None:
    good = bundle("good", b"one", b"two")
    evil = dict.fromkeys(good.blobs, b"evil")
    forged = replace(good, manifest="other") if part == "manifest" else replace(good, blobs=evil)
    with pytest.raises(BundleRefused), lab.database.transaction() as tx:
        store.store_bundle(tx, forged, lab.now)
    with lab.database.reading() as tx:
        assert not store.has_bundle(tx, good.sha)
