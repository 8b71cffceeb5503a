"""Kernels of users, as the bundles of the database declare them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from vkbench.errors import VkbenchError
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_db.database import Transaction
    from vkbench_db.work.bundles import OwnBundle
    from vkbench_shaders.own.records import OwnKernel

COLUMNS = (
    Column(key="name", heading="kernel", rank=Rank.KEY),
    Column(key="owner", heading="owner"),
    Column(key="shadows", heading="shadows"),
    Column(key="formats", heading="formats"),
    Column(key="variants", heading="variants"),
    Column(key="cases", heading="cases", kind=ValueKind.COUNT),
    Column(key="timed", heading="timed", kind=ValueKind.COUNT),
    Column(key="short", heading="bundle", for_people=True),
    Column(key="created_at", heading="since", kind=ValueKind.TIME),
    Column(key="description", heading="description", prose=True),
    Column(key="bundle", heading="SHA-256", hidden=True),
    Column(key="case_names", heading="names of cases", hidden=True),
)
NOTHING_YET = "no kernel of a user yet: `vkbench run --kernel-file FILE` brings one"
_DIGITS = 12


def own_table(tx: Transaction, globs: Sequence[str]) -> Table:
    """The kernels whose names match, each of its newest bundle."""
    from vkbench_db.work.bundles import own_bundles

    rows: dict[str, dict[str, Cell]] = {}
    for stored in own_bundles(tx):
        for kernel in _declared(stored):
            if any(fnmatchcase(kernel.name.casefold(), each.casefold()) for each in globs or "*"):
                rows.setdefault(kernel.name, _row(kernel, stored))
    return Table(columns=COLUMNS, rows=list(rows.values()), nothing=NOTHING_YET)


def _declared(stored: OwnBundle) -> Sequence[OwnKernel]:
    """What a bundle declares; nothing if it has such a name by chance, or its manifest is none."""
    from vkbench_shaders.bundle import Bundle

    with suppress(VkbenchError):
        return Bundle(text=stored.manifest, blobs={}).manifest.kernels
    return ()


def _row(kernel: OwnKernel, stored: OwnBundle) -> dict[str, Cell]:
    return {
        "name": kernel.name,
        "owner": kernel.owner,
        "shadows": kernel.shadows,
        "formats": ", ".join(dict.fromkeys(binding.format for binding in kernel.bindings)),
        "variants": ", ".join(variant.name for variant in kernel.variants),
        "cases": len(kernel.cases),
        "timed": sum(case.is_timed for case in kernel.cases),
        "short": stored.sha[:_DIGITS],
        "created_at": stored.created_at,
        "description": kernel.description,
        "bundle": stored.sha,
        "case_names": [case.name for case in kernel.cases],
    }
