"""Kernels by formats: rows grouped by families of kernels, columns by families of formats."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from itertools import groupby

from vkbench.case import is_own

OWN = "own"  # kernels that users declared
OTHER = "other"  # what the catalogue does not know any more


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """The rows and columns of a map, in their groups."""

    formats: tuple[tuple[str, tuple[str, ...]], ...]  # family, its formats
    kernels: tuple[tuple[str, tuple[str, ...]], ...]  # family, its kernels

    @property
    def columns(self) -> list[str]:
        """Names of all formats, a column each."""
        return [name for _, members in self.formats for name in members]

    @property
    def firsts(self) -> frozenset[str]:
        """The first format of each family, where a line is drawn."""
        return frozenset(members[0] for _, members in self.formats)


def matrix(
    keys: Collection[tuple[str, str]], *, everything: bool = False, own: Collection[str] = ()
) -> Matrix:
    """The kernels and formats of these keys; with `everything`, the catalogue's and `own` too."""
    kernels, formats = {key[0] for key in keys}, {key[1] for key in keys}
    if everything:
        kernels |= {*_groups(), *own}
        formats |= set(_used_formats())
    by_place = {name: place for place, name in enumerate(_groups())}
    last = len(by_place)
    ordered = sorted(
        kernels, key=lambda name: (by_place.get(name, last), name_family(name) == OTHER, name)
    )
    return Matrix(
        formats=_group_formats(sorted(formats, key=_format_place), _format_family),
        kernels=_group_formats(ordered, name_family),
    )


def _group_formats(
    ordered: list[str], family: Callable[[str], str]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple((name, tuple(members)) for name, members in groupby(ordered, key=family))


@cache
def _groups() -> dict[str, str]:
    """The family of each kernel; families in the catalogue's order, each in one piece."""
    from vkbench_shaders.catalogue import KERNELS, groups

    places = {group: place for place, group in enumerate(groups())}
    ordered = sorted(KERNELS, key=lambda kernel: places[kernel.group])
    return {kernel.name: kernel.group for kernel in ordered}


@cache
def _used_formats() -> tuple[str, ...]:
    from vkbench_shaders.catalogue import KERNELS

    return tuple({name for kernel in KERNELS for name in kernel.bindings[0].types})


def name_family(name: str) -> str:
    """The family of a kernel, by its name."""
    return _groups().get(name, OWN if is_own(name) else OTHER)


@cache
def _places() -> dict[str, int]:
    from vkbench_shaders.formats import FORMATS

    return {fmt.name: place for place, fmt in enumerate(FORMATS)}


def _format_place(name: str) -> tuple[int, int, str]:
    return _FAMILIES.index(_format_family(name)), _places().get(name, len(_places())), name


def _format_family(name: str) -> str:
    """The family of a format, by its name."""
    return next(family for pattern, family in _NAMES.items() if fnmatchcase(name, pattern))


_FAMILIES = (
    *("plain", "quants", "K-quants", "I-quants", "ternary", "4-bit floats", "few bits"),
    "integers",
)
# the first that fits
_NAMES = {
    "*_K": "K-quants",
    "iq*": "I-quants",
    "tq*": "ternary",
    "??fp4": "4-bit floats",
    "q[12]_0": "few bits",
    "q*": "quants",
    "f*": "plain",
    "bf*": "plain",
    "*": "integers",
}
