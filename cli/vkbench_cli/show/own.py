"""Lists users' own kernels, as bundles in the database declare them."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_db.database import Transaction
    from vkbench_scheduler.own_kernels import DeclaredKernel

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
    from vkbench_scheduler.own_kernels import own_kernels

    rows = [
        _row(declared)
        for declared in own_kernels(tx)
        if any(fnmatchcase(declared.own.name.casefold(), glob.casefold()) for glob in globs or "*")
    ]
    return Table(columns=COLUMNS, rows=rows, nothing=NOTHING_YET)


def _row(declared: DeclaredKernel) -> dict[str, Cell]:
    kernel = declared.own
    return {
        "name": kernel.name,
        "owner": kernel.owner,
        "shadows": kernel.shadows,
        "formats": ", ".join(
            dict.fromkeys(fmt for binding in kernel.bindings for fmt in binding.formats)
        ),
        "variants": ", ".join(variant.name for variant in kernel.variants),
        "cases": len(kernel.cases),
        "timed": sum(case.is_timed for case in kernel.cases),
        "short": declared.bundle[:_DIGITS],
        "created_at": declared.created_at,
        "description": kernel.description,
        "bundle": declared.bundle,
        "case_names": [case.name for case in kernel.cases],
    }
