"""A kernel's list of cases, made when the list is first read.

A process that needs one kernel imports the modules of all kernels. To make the ten thousand cases
of all of them would take longer than these imports.
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
