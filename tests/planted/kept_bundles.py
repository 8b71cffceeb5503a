"""Bundles of other source trees, and a scheduler's database that keeps them."""

from __future__ import annotations

import hashlib

from cluster import Lab
from vkbench_db.work import store
from vkbench_shaders.bundle import Bundle, manifest_text, packaged


def bundle_of_tree(tree: str = "edited") -> Bundle:
    """Some of the packaged kernels, as if of another source tree."""
    manifest = packaged().manifest
    entries = manifest.entries[:3]
    sha = hashlib.sha256(tree.encode()).hexdigest()
    return Bundle(
        text=manifest_text(manifest.slang, sha, entries, manifest.interfaces),
        blobs={entry.sha256: packaged().blobs[entry.sha256] for entry in entries},
        name=tree,
    )


def keep(lab: Lab, bundle: Bundle) -> str:
    """Store a bundle in the scheduler's database; returns its hash."""
    kept = store.StoredBundle(
        sha=bundle.sha, name=bundle.name, manifest=bundle.text, blobs=bundle.blobs
    )
    with lab.database.transaction() as tx:
        store.store_bundle(tx, kept, 1)
    return bundle.sha
