"""What a bundle says of itself: its entries, and what they take from a launch."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from vkbench_shaders.launch import Interface
from vkbench_shaders.own.records import OwnKernel

# fields that records of kernels got later, left out where they hold this
_LATER: Final[Mapping[str, Mapping[str, object]]] = {
    "kernels": {"by_format": ()},
    "bindings": {"more": (), "same_as": ""},
    "variants": {"steps": 1, "scratch": (), "counters": "", "requires_more": {}},
    "cases": {"scratch": {}},
    "launches": {
        "subgroup_size": 0,
        "full_subgroups": False,
        "by_subgroup": {},
        "by_limits": (),
        "refusal": "",
    },
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One compiled kernel: which unit it is and what it needs."""

    key: str
    module: str
    entry: str
    arguments: tuple[str, ...]
    sha256: str
    bytes: int
    local_size: tuple[int, int, int] | None
    capabilities: tuple[str, ...]
    interface: str = ""  # which of the manifest's; "": its SPIR-V says, as before version 2


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a bundle says of itself."""

    version: int
    slang: str  # compiler version
    tree: str  # SHA-256 of the shader sources
    entries: tuple[Entry, ...]
    interfaces: Mapping[str, Interface] = field(default_factory=dict)  # what entries take, by hash
    kernels: tuple[OwnKernel, ...] = ()  # of users; those of the catalogue are declared in Python

    @property
    def blobs(self) -> Iterator[str]:
        """The hashes of all blobs."""
        yield from (entry.sha256 for entry in self.entries)
        for kernel in self.kernels:
            yield from kernel.stored


def manifest_text(
    slang: str,
    tree: str,
    entries: Iterable[Entry],
    interfaces: Mapping[str, Interface],
    kernels: Iterable[OwnKernel] = (),
) -> str:
    """A manifest as canonical JSON: sorted, no dates, so the same sources give the same bundle.

    It has those of the interfaces that its entries name.
    """
    ordered = tuple(sorted(entries, key=lambda entry: entry.key))
    named = {entry.interface: interfaces[entry.interface] for entry in ordered if entry.interface}
    manifest = Manifest(
        version=2,
        slang=slang,
        tree=tree,
        entries=ordered,
        interfaces=named,
        kernels=tuple(kernels),
    )
    return _canonical(manifest)


def interface_name(interface: Interface) -> str:
    """What a manifest calls an interface: the beginning of its hash."""
    return hashlib.sha256(_canonical(interface).encode()).hexdigest()[:16]


def _canonical(record: Manifest | Interface) -> str:
    fields = msgspec.to_builtins(record)
    if isinstance(record, Manifest) and not record.kernels:
        del fields["kernels"]  # a bundle of the catalogue's kernels alone keeps its name
    for kind, row in _list_rows(fields.get("kernels", ())):
        default = _LATER[kind]  # a bundle of kernels that do without these fields keeps its name
        for field_name in [key for key, value in default.items() if row[key] == value]:
            del row[field_name]
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def _list_rows(kernels: Iterable[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The records within kernels, each with its kind."""
    for kernel in kernels:
        yield "kernels", kernel
        for kind in ("bindings", "variants", "cases"):
            yield from ((kind, row) for row in kernel[kind])
        for case in kernel["cases"]:
            for launches in case["launches"].values():
                for launch in (launches,) if isinstance(launches, dict) else launches:
                    yield from (("launches", row) for row in _list_launches(launch))


def _list_launches(launch: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A launch, and those of some subgroups and limits within it."""
    for inner in (*launch["by_subgroup"].values(), *(one["launch"] for one in launch["by_limits"])):
        yield from _list_launches(inner)
    yield launch
