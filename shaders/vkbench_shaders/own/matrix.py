"""What [matrix] combines: variants that differ in macros and constants, and formats of arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Final, TypeVar

from vkbench_shaders.own.formulas import holds, names_in
from vkbench_shaders.own.records import MOST_VARIANTS, UnfitDeclaration

Value = str | int | float | bool
T = TypeVar("T")
_MOST_TRIED: Final = 1 << 16  # combinations of which conditions leave some
_PLACE: Final = re.compile(r"\{(\w+)\}")
_NAMES: Final = re.compile(r"\w+")
_OTHER: Final = re.compile(r"\W+")  # what no variant's name may have


@dataclass(frozen=True, kw_only=True)
class MatrixTable:
    """[matrix]: macros and specialisation constants with the values that variants have of each.

    And arrays, alone or several of one format, with their formats; a format may bring macros.
    """

    defines: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    constants: Mapping[str, tuple[str | int | float, ...]] = field(default_factory=dict)
    where: tuple[str, ...] = ()  # conditions of these values, without which there is no variant
    formats: Mapping[str, tuple[str, ...] | Mapping[str, Mapping[str, Value]]] = field(
        default_factory=dict
    )

    @property
    def axes(self) -> dict[tuple[str, ...], dict[str, Mapping[str, Value]]]:
        """The formats of arrays, and the macros of each, by the names of the arrays."""
        return {
            tuple(_NAMES.findall(names)): dict(formats)
            if isinstance(formats, Mapping)
            else {name: {} for name in formats}
            for names, formats in self.formats.items()
        }


@dataclass(frozen=True, kw_only=True)
class FormatChoice:
    """A format of each array that [matrix] names."""

    formats: Mapping[str, str]  # by array
    defines: Mapping[str, Value]  # that the code is compiled with

    def fill(self, text: str) -> str:
        """A text in which {NAME} is the format of an array."""
        for name, fmt in self.formats.items():
            text = text.replace(f"{{{name}}}", fmt)
        return text

    def fill_name(self, file: str) -> tuple[str, ...]:
        """The names that a file may have, where {NAME} is a format; in small letters too."""
        small = replace(self, formats={name: fmt.lower() for name, fmt in self.formats.items()})
        return tuple(dict.fromkeys((self.fill(file), small.fill(file))))

    def fill_each(self, defines: Mapping[str, Value]) -> dict[str, Value]:
        """Macros in whose texts {NAME} is the format of an array."""
        return {
            name: self.fill(text) if isinstance(text, str) else text
            for name, text in defines.items()
        }

    def matches(self, types: Mapping[str, str]) -> bool:
        """Whether a case that asks for these formats is one of these."""
        return all(types.get(name, fmt) == fmt for name, fmt in self.formats.items())


def choose_formats(matrix: MatrixTable | None) -> list[FormatChoice]:
    """Each combination of the formats that [matrix] has; one of none where it has none."""
    axes = matrix.axes if matrix else {}
    for names, formats in axes.items():
        if not formats or not names:
            raise UnfitDeclaration(f"[matrix] has no format of {' and '.join(names) or 'no array'}")
    every = [name for names in axes for name in names]
    for name in every:
        if every.count(name) > 1:
            raise UnfitDeclaration(f"[matrix] has formats of {name} twice")
    choices = []
    for chosen in product(*(formats.items() for formats in axes.values())):
        pairs = list(zip(axes, chosen, strict=True))
        choices.append(
            FormatChoice(
                formats={name: fmt for names, (fmt, _) in pairs for name in names},
                defines={macro: text for _, macros in chosen for macro, text in macros.items()},
            )
        )
    return choices


@dataclass(frozen=True, kw_only=True)
class Combination:
    """A variant with one value of each macro and constant."""

    of: str  # the variant's name without these
    name: str
    defines: Mapping[str, Value]
    constants: Mapping[str, str | int | float]
    where: tuple[str, ...] = ()  # conditions of [matrix] that name more than its values


def combine(matrix: MatrixTable, names: Sequence[str]) -> Iterator[Combination]:
    """Each variant with each combination of values."""
    axes = {**matrix.defines, **matrix.constants}
    _check(matrix, axes)
    of_formats = prod(map(len, matrix.axes.values()))
    count = len(names) * prod(map(len, axes.values())) * of_formats
    if count > (_MOST_TRIED if matrix.where else MOST_VARIANTS):
        raise _too_many(count, of_formats)
    kept = [one for name in names for one in _combinations_of(matrix, name)]
    if not kept:
        raise UnfitDeclaration("[matrix] has no combination that its where = allows")
    if len(kept) * of_formats > MOST_VARIANTS:
        raise _too_many(len(kept) * of_formats, of_formats)
    yield from kept


def _too_many(count: int, of_formats: int) -> UnfitDeclaration:
    what = f"{count} variants" if of_formats == 1 else f"{count} codes of variants and formats"
    return UnfitDeclaration(f"[matrix] makes {what}; {MOST_VARIANTS} are allowed")


def _combinations_of(matrix: MatrixTable, name: str) -> Iterator[Combination]:
    """A variant with each combination of values that the conditions of [matrix] allow."""
    for defines in _choose(matrix.defines):
        for constants in _choose(matrix.constants):
            chosen = {**defines, **constants}
            chosen = {key.removesuffix("?"): value for key, value in chosen.items()}
            numbers = {key: n for key, n in chosen.items() if isinstance(n, int | float)}
            decided = [one for one in matrix.where if names_in(one) <= numbers.keys()]
            if all(holds(condition, numbers) for condition in decided):
                yield Combination(
                    of=name,
                    name=_name_variant(name, chosen),
                    defines=defines,
                    constants=constants,
                    where=tuple(one for one in matrix.where if one not in decided),
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
