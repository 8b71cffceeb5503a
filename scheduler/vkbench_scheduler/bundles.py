"""Stores bundles in the database and loads them, so that old builds can be measured again."""

from __future__ import annotations

import logging
import time
from dataclasses import replace

from sqlalchemy import Connection

from vkbench.errors import UnknownName, UsageError
from vkbench.process import log
from vkbench_db.database import Database
from vkbench_db.work.store import (
    StoredBundle,
    bundles_named,
    has_bundle,
    load_bundle,
    note_revisions,
    store_blobs,
    store_bundle,
)
from vkbench_shaders.bundle import Bundle, packaged, packaged_sha

_log = logging.getLogger(__name__)


def keep(tx: Connection, bundle: Bundle, now: float) -> bool:
    """Store a bundle in the database; returns whether it is new there."""
    return store_bundle(tx, _stored_bundle_of(bundle), now)


def keep_in_parts(database: Database, bundle: Bundle) -> None:
    """Store a bundle in the database if it is new there, so that other writers wait shortly."""
    with database.reading() as tx:
        is_known = has_bundle(tx, bundle.sha)
    if is_known:
        if bundle.made_of:
            with database.transaction() as tx:
                note_revisions(tx, bundle.sha, bundle.made_of)
        return
    whole = _stored_bundle_of(bundle)
    store_blobs(database, whole)
    with database.transaction() as tx:
        store_bundle(tx, whole, time.time())


def _stored_bundle_of(bundle: Bundle) -> StoredBundle:
    read = replace(bundle, blobs=dict(bundle.blobs)).check()
    return StoredBundle(
        sha=read.sha,
        name=read.name,
        manifest=read.text,
        blobs=read.blobs,
        made_of=read.made_of,
    )


def keep_packaged(database: Database) -> None:
    """Store the packaged bundle, if it was built: the next version brings another one."""
    sha = packaged_sha()
    with database.reading() as tx:
        if not sha or has_bundle(tx, sha):
            return
    keep_in_parts(database, packaged())
    log.event(_log, "bundle_kept", bundle=sha)


def find_stored(tx: Connection, sha: str) -> Bundle | None:
    """A bundle by its full hash; None if the database does not have it."""
    stored = load_bundle(tx, sha)
    if stored is None:
        return None
    return Bundle(
        text=stored.manifest, blobs=stored.blobs, name=stored.name, made_of=stored.made_of
    )


def bundle_named(tx: Connection, start: str) -> Bundle:
    """The one bundle of the database whose hash begins with `start`; UnknownName without one."""
    bundle = bundle_beginning(tx, start)
    if bundle is None:
        raise UnknownName("bundle", start)
    return bundle


def bundle_beginning(tx: Connection, start: str) -> Bundle | None:
    """The one bundle of the database whose hash begins with `start`; None if there is none."""
    hashes = bundles_named(tx, start.lower())
    if len(hashes) > 1:
        raise UsageError(f"'{start}' matches several bundles: give more of the hash")
    return find_stored(tx, hashes[0]) if hashes else None
