"""Bundles: kept whole, so that an old build can be measured again beside a new one."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, select, update

from vkbench_db import schema
from vkbench_db.batches import batches
from vkbench_db.database import Database
from vkbench_db.errors import BundleRefused
from vkbench_db.rows import insert_missing

LEVEL = 1  # of zlib: the packaged bundle's 41 MB take 14 in 0.4 s; level 6 13 in 2 s
PART_BLOBS = 200  # 2 MB of the packaged bundle
MOST_REVISIONS = 8  # of a bundle: the newest that gave its code
MOST_BLOB_BYTES = 8 << 20  # unpacked: whoever writes to the database shall not fill the memory


@dataclass(frozen=True, kw_only=True)
class StoredBundle:
    """A bundle as the database keeps it."""

    sha: str  # SHA-256 of the manifest
    name: str
    manifest: str
    blobs: Mapping[str, bytes]  # by SHA-256
    made_of: tuple[str, ...] = ()  # git revisions of its sources, as far as they are known


@dataclass(frozen=True, kw_only=True)
class OwnBundle:
    """A bundle that may declare a user's kernel, without its blobs."""

    sha: str
    name: str
    manifest: str
    created_at: float


def store_bundle(tx: Connection, bundle: StoredBundle, now: float) -> bool:
    """Store a bundle; return whether it is new. BundleRefused if a hash does not match."""
    _check(bundle)
    if has_bundle(tx, bundle.sha):
        note_revisions(tx, bundle.sha, bundle.made_of)
        return False
    row = {
        "sha": bundle.sha,
        "name": bundle.name,
        "manifest": bundle.manifest,
        "created_at": now,
    }
    insert_missing(tx, schema.bundle, [row])
    note_revisions(tx, bundle.sha, bundle.made_of)
    blob = schema.blob.c.sha
    known = set(tx.execute(select(blob).where(blob.in_(bundle.blobs))).scalars())
    missing = {sha: data for sha, data in sorted(bundle.blobs.items()) if sha not in known}
    insert_missing(tx, schema.blob, _pack_blobs(missing))
    links = [{"bundle": bundle.sha, "blob": sha} for sha in sorted(bundle.blobs)]
    insert_missing(tx, schema.bundle_blob, links)
    return True


def store_blobs(database: Database, bundle: StoredBundle) -> None:
    """Store a bundle's code ahead of it, in short transactions; what is killed does no harm."""
    for part in batches(sorted(bundle.blobs.items()), PART_BLOBS):
        rows = _pack_blobs(dict(part))
        with database.transaction() as tx:
            insert_missing(tx, schema.blob, rows)
        database.let_others_in()


def note_revisions(tx: Connection, sha: str, made_of: Sequence[str]) -> None:
    """Note git revisions that a stored bundle was made of, beside those that are known of it."""
    if not made_of:
        return
    bundle = schema.bundle.c
    asked = select(bundle.made_of).where(bundle.sha == sha).with_for_update()
    known = tx.execute(asked).scalar() or []
    noted = [*dict.fromkeys([*known, *made_of])][-MOST_REVISIONS:]
    if noted != known:
        tx.execute(update(schema.bundle).where(bundle.sha == sha).values(made_of=noted))


def read_revisions(tx: Connection, shas: Iterable[str]) -> dict[str, list[str]]:
    """The git revisions that bundles were made of, by the hashes of those where they are known."""
    bundle = schema.bundle.c
    return {
        row.sha: row.made_of
        for part in batches(sorted({*shas} - {""}))
        for row in tx.execute(select(bundle.sha, bundle.made_of).where(bundle.sha.in_(part)))
        if row.made_of
    }


def _pack_blobs(blobs: Mapping[str, bytes]) -> list[dict[str, object]]:
    return [{"sha": sha, "data": zlib.compress(data, LEVEL)} for sha, data in blobs.items()]


def has_bundle(tx: Connection, sha: str) -> bool:
    """Whether a bundle is stored with its blobs: an import brings its manifest alone."""
    link = schema.bundle_blob.c
    return tx.execute(select(link.blob).where(link.bundle == sha).limit(1)).first() is not None


def bundles_named(tx: Connection, start: str) -> list[str]:
    """Hashes that begin so, of bundles that are stored with their blobs."""
    bundle = schema.bundle.c
    rows = tx.execute(select(bundle.sha).where(bundle.sha.startswith(start, autoescape=True)))
    return [sha for sha in rows.scalars() if has_bundle(tx, sha)]


def own_bundles(tx: Connection, name: str = "") -> list[OwnBundle]:
    """The bundles that are named as kernels of users are, or as this one; the newest first."""
    bundle = schema.bundle.c
    query = select(bundle.sha, bundle.name, bundle.manifest, bundle.created_at)
    is_of_name = bundle.name == name if name else bundle.name.contains(".")
    rows = tx.execute(query.where(is_of_name).order_by(bundle.created_at.desc()))
    return [OwnBundle(**row) for row in rows.mappings()]


def load_bundle(tx: Connection, sha: str) -> StoredBundle | None:
    """A bundle with all its blobs; None if they are not stored, BundleRefused if damaged."""
    row = tx.execute(
        select(schema.bundle.c.name, schema.bundle.c.manifest, schema.bundle.c.made_of).where(
            schema.bundle.c.sha == sha
        )
    ).first()
    if row is None:
        return None
    blobs = tx.execute(
        select(schema.blob.c.sha, schema.blob.c.data)
        .join(schema.bundle_blob, schema.bundle_blob.c.blob == schema.blob.c.sha)
        .where(schema.bundle_blob.c.bundle == sha)
    ).all()
    if not blobs:
        return None
    contents = {blob.sha: _decompress_blob(sha, blob.sha, blob.data) for blob in blobs}
    return StoredBundle(
        sha=sha,
        name=row.name,
        manifest=row.manifest,
        blobs=contents,
        made_of=tuple(row.made_of),
    )


def _decompress_blob(bundle: str, blob: str, data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data, MOST_BLOB_BYTES)
    except zlib.error as error:
        raise BundleRefused(
            f"bundle {bundle[:12]}: its code {blob[:12]} is damaged in the database: {error}"
        ) from error


def _check(bundle: StoredBundle) -> None:
    contents = {bundle.sha: bundle.manifest.encode(), **bundle.blobs}
    for sha, data in contents.items():
        if hashlib.sha256(data).hexdigest() != sha:
            raise BundleRefused(f"bundle {bundle.sha[:12]}: contents of {sha[:12]} differ from it")
