"""Variants that differ in macros and constants: one for each combination that [matrix] has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Final, TypeVar

from vkbench_shaders.own.records import MOST_VARIANTS, UnfitDeclaration

Value = str | int | float | bool
T = TypeVar("T")
_PLACE: Final = re.compile(r"\{(\w+)\}")
_OTHER: Final = re.compile(r"\W+")  # what no variant's name may have


@dataclass(frozen=True, kw_only=True)
class MatrixTable:
    """[matrix]: macros and specialisation constants with the values that variants have of each."""

    defines: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    constants: Mapping[str, tuple[str | int | float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Combination:
    """A variant with one value of each macro and constant."""

    of: str  # the variant's name without these
    name: str
    defines: Mapping[str, Value]
    constants: Mapping[str, str | int | float]


def combine(matrix: MatrixTable, names: Sequence[str]) -> Iterator[Combination]:
    """Each variant with each combination of values."""
    axes = {**matrix.defines, **matrix.constants}
    _check(matrix, axes)
    count = len(names) * prod(map(len, axes.values()))
    if count > MOST_VARIANTS:
        raise UnfitDeclaration(f"[matrix] makes {count} variants; {MOST_VARIANTS} are allowed")
    for name in names:
        for defines in _choose(matrix.defines):
            for constants in _choose(matrix.constants):
                chosen = {**defines, **constants}
                chosen = {key.removesuffix("?"): value for key, value in chosen.items()}
                yield Combination(
                    of=name,
                    name=_name_variant(name, chosen),
                    defines=defines,
                    constants=constants,
                )


def _choose(axes: Mapping[str, tuple[T, ...]]) -> Iterator[dict[str, T]]:
    for values in product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _check(matrix: MatrixTable, axes: Mapping[str, tuple[Value, ...]]) -> None:
    for name in matrix.defines.keys() & matrix.constants.keys():
        raise UnfitDeclaration(f"[matrix] has {name} as a macro and as a constant")
    for name, values in axes.items():
        if not values:
            raise UnfitDeclaration(f"[matrix] has no value of {name}")


def _name_variant(name: str, chosen: Mapping[str, Value]) -> str:
    """A variant's name with {NAME} replaced, or with all values behind it."""

    def fill(place: re.Match[str]) -> str:
        if place[1] not in chosen:
            known = ", ".join(chosen) or "none"
            raise UnfitDeclaration(f"the variant {name} names {place[1]}, and [matrix] has {known}")
        return _write(chosen[place[1]])

    if _PLACE.search(name):
        return _PLACE.sub(fill, name)
    return "_".join([name, *(f"{_OTHER.sub('', key)}{_write(chosen[key])}" for key in chosen)])


def _write(value: Value) -> str:
    return _OTHER.sub("_", str(int(value) if isinstance(value, bool) else value))
