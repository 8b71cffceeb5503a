"""A kernel's cases, which are made when somebody first asks for them.

Every process that runs or chooses one kernel loads all of them; making the ten thousand cases of
all takes longer than that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import overload

from vkbench.case import Case


class CaseList(Sequence[Case]):
    """Cases by the function that makes them."""

    def __init__(self, make_cases: Callable[[], Iterable[Case]]) -> None:
        self._make_cases = make_cases

    @cached_property
    def _cases(self) -> tuple[Case, ...]:
        return tuple(self._make_cases())

    @overload
    def __getitem__(self, place: int) -> Case: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Case, ...]: ...
    def __getitem__(self, place: int | slice) -> Case | tuple[Case, ...]:
        return self._cases[place]

    def __len__(self) -> int:
        return len(self._cases)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._cases == tuple(other)

    def __hash__(self) -> int:
        return hash(self._cases)
