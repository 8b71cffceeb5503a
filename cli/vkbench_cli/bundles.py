"""The bundle that `--bundle` names, of this machine or of the database."""

from __future__ import annotations

from vkbench.settings import settings
from vkbench_db.database import Transaction
from vkbench_scheduler.bundles import bundle_beginning
from vkbench_shaders.bundle import Bundle, UnknownBundle, kept_bundles


def bundle_named(tx: Transaction, asked: str) -> Bundle | None:
    """A bundle of this machine or of the database, by the beginning of its hash; None for ""."""
    if not asked:
        return None
    try:
        return kept_bundles(settings()).get(asked)
    except UnknownBundle:
        found = bundle_beginning(tx, asked)
        if found is None:
            raise
        return found
