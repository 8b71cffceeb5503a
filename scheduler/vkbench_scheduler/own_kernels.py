"""Users' own kernels, as the stored bundles declare them, each by the newest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from vkbench.case import parse
from vkbench.errors import VkbenchError
from vkbench_db.database import Transaction
from vkbench_db.work.bundles import OwnBundle, own_bundles
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.kernel import Kernel
from vkbench_shaders.manifest import Entry
from vkbench_shaders.own import posing, records
from vkbench_shaders.own.records import OwnKernel


@dataclass(frozen=True, kw_only=True)
class DeclaredKernel:
    """A kernel of a user, by its newest bundle."""

    own: OwnKernel
    kernel: Kernel  # as the catalogue would have it: without code and arrays
    entries: tuple[Entry, ...]  # its compiled code
    compilers: str
    bundle: str  # SHA-256
    created_at: float


def own_kernels(tx: Transaction, name: str = "") -> list[DeclaredKernel]:
    """All declared kernels of users, or the one of a name, the newest declaration first."""
    by_name: dict[str, DeclaredKernel] = {}
    for stored in own_bundles(tx, name):
        for declared in _kernels_declared_by(stored):
            by_name.setdefault(declared.own.name, declared)
    return list(by_name.values())


def _kernels_declared_by(stored: OwnBundle) -> Iterator[DeclaredKernel]:
    """The kernels that a bundle declares; none if its manifest cannot be read."""
    with suppress(VkbenchError):
        manifest = Bundle(text=stored.manifest, blobs={}).manifest
        for own in manifest.kernels:
            records.check(own)
            cases = tuple(parse(case.name) for case in own.cases)
            timed = tuple(parse(case.name) for case in own.cases if case.is_timed)
            kernel = posing.outline_kernel(own)
            yield DeclaredKernel(
                own=own,
                kernel=replace(kernel, name=own.name, group="own", cases=cases, timed=timed),
                entries=manifest.entries,
                compilers=manifest.slang,
                bundle=stored.sha,
                created_at=stored.created_at,
            )
