"""Limits of a device that formulas may name, and what a launch is worked out for of each.

No formula travels, so a launch does for each size of a limit that devices have. A formula sees the
largest of these that a device does not go below, so what it gives is right there too. Sizes that
conditions compare a limit with are added to them, so that a condition holds where it says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import ceil, prod
from typing import Final

from vkbench_shaders.own.formulas import (
    Formula,
    Number,
    comparisons_in,
    holds,
    names_in,
    value_of,
)
from vkbench_shaders.own.launching.own_launch import LIMITS, LimitedLaunch
from vkbench_shaders.own.records import MOST_LAUNCHES, UnfitDeclaration

_LARGEST: Final = 1 << 63


class UnmetCondition(UnfitDeclaration):
    """What a variant is declared for is not so."""


def named_by(formulas: Iterable[Formula], hidden: Iterable[str] = ()) -> list[str]:
    """The limits that formulas or conditions name; not those whose names mean something else."""
    named = frozenset[str]().union(*map(names_in, formulas))
    return [name for name in LIMITS if name in named and name not in hidden]


def list_steps(
    named: Sequence[str], conditions: Iterable[str], known: Mapping[str, Number]
) -> list[dict[str, int]]:
    """The least sizes of named limits that launches are worked out for, the largest first."""
    sizes = {name: set(LIMITS[name]) for name in named}
    for condition in conditions:
        for name, size in _bounds_in(condition, known):
            if name in sizes and 0 < size < _LARGEST:
                sizes[name].add(size)
    count = prod(map(len, sizes.values()))
    if count > MOST_LAUNCHES:
        raise UnfitDeclaration(
            f"{', '.join(named)} have {count} sizes together, and {MOST_LAUNCHES} are worked out: "
            "name fewer limits in one variant"
        )
    ordered = [sorted(each, reverse=True) for each in sizes.values()]
    return [dict(zip(sizes, chosen, strict=True)) for chosen in product(*ordered)]


def check_conditions(conditions: Iterable[str], known: Mapping[str, Number]) -> None:
    """Raise UnmetCondition for one that does not hold; it says of which numbers."""
    for condition in conditions:
        if not holds(condition, known):
            raise UnmetCondition(f"is only for {_describe(condition, known)}")


def join_alike(launches: Sequence[LimitedLaunch]) -> tuple[LimitedLaunch, ...]:
    """Launches, the largest limits first, without those that are as what smaller ones have."""
    kept: list[LimitedLaunch] = []
    for one in reversed(launches):
        below = next((other for other in kept if _is_below(other, one)), None)
        if below is None or below.launch != one.launch:
            kept.insert(0, one)
    return tuple(kept)


def _is_below(other: LimitedLaunch, one: LimitedLaunch) -> bool:
    return all(other.least[name] <= size for name, size in one.least.items())


def _bounds_in(condition: str, known: Mapping[str, Number]) -> Iterator[tuple[str, int]]:
    """The sizes of limits at which a condition begins, or ceases, to hold."""
    for left, _, right in comparisons_in(condition):
        for name, formula in ((left, right), (right, left)):
            if name in LIMITS and names_in(formula) <= known.keys():
                size = value_of(formula, known)
                yield from ((name, ceil(size)), (name, int(size // 1) + 1))


def _describe(condition: str, known: Mapping[str, Number]) -> str:
    """A condition, and what its sides are that are no limit and no number."""
    sides = [side for left, _, right in comparisons_in(condition) for side in (left, right)]
    given = [side for side in dict.fromkeys(sides) if not _is_plain(side)]
    values = [f"{side} is {value_of(side, known):g}" for side in given]
    return f"{condition}" + (f" ({', '.join(values)})" if values else "")


def _is_plain(side: str) -> bool:
    return not names_in(side) or not names_in(side).isdisjoint(LIMITS)
