"""Finds the bundle that a command's options name: local, stored, or built of a user's kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from vkbench.settings import settings
from vkbench_db.database import Transaction
from vkbench_db.work.store import bundles_named
from vkbench_scheduler.bundles import bundle_beginning
from vkbench_shaders.bundle import AmbiguousBundle, Bundle, kept_bundles

if TYPE_CHECKING:
    from vkbench_shaders.own.building import Built


def bundle_chosen(tx: Transaction, own: Built | None, prefix: str) -> Bundle | None:
    """The bundle to run: that of the user's own kernel, or the one that an option names, if any."""
    return own.bundle if own else bundle_named(tx, prefix)


def bundle_named(tx: Transaction, prefix: str) -> Bundle | None:
    """The bundle, here or in the database, whose hash begins with the prefix; None for ""."""
    if not prefix:
        return None
    kept = kept_bundles(settings())
    here = kept.beginning(prefix)
    if len({*here, *bundles_named(tx, prefix.lower())}) > 1:
        raise AmbiguousBundle(prefix)
    stored = None if here else bundle_beginning(tx, prefix)
    if stored:
        return stored
    bundle = kept.get(prefix).check()
    return replace(bundle, made_of=tuple(kept.list_origins(bundle.sha)))
