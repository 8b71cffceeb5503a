"""At which level each launch of a graph runs: behind the launches whose values it touches.

A launch that reads nothing but weights, as one that decodes a matrix for a product, waits for no
other. It could run at the beginning, but what it writes would then take memory for long. So it runs
one such product ahead: at the level, and behind the launches, of the product before its own. That
one leaves memory idle, and multiprocessors in its last round.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from vkbench_shaders.compile.accesses import accesses
from vkbench_worker.runtime.program import Program


@dataclass(frozen=True, kw_only=True)
class Use:
    """What a launch does with the values of its step."""

    touched: frozenset[str]  # reads, writes, or both
    written: frozenset[str]

    @property
    def read(self) -> frozenset[str]:
        return self.touched - self.written


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a launch runs."""

    level: int
    is_ahead: bool = False  # beside another step's launch, whose gaps it fills


def use_of(program: Program, values: Sequence[str], changed: Collection[str]) -> Use:
    """What a program does with its buffers, of which a step changes some: all if it cannot tell."""
    access = accesses(program.code)
    if access is None:
        return Use(touched=frozenset(values), written=frozenset(changed))
    by_number = dict(zip(program.bindings, values, strict=True))
    touched, written = (
        frozenset(name for number, name in by_number.items() if number in numbers)
        for numbers in (access.touched, access.written)
    )
    return Use(touched=touched, written=written.intersection(changed))


class Levels:
    """The levels at which the launches so far run, and touch each value."""

    def __init__(self, constant: set[str]) -> None:
        self.constant = constant  # weights and tables, which no launch writes
        self._written: dict[str, int] = {}  # the last level at which a value is written
        self._spans: dict[str, tuple[int, int]] = {}  # the first and last at which it is touched
        self._fed: list[int] = []  # of launches that read what was made of weights alone

    def place(self, uses: Sequence[Use]) -> list[Place]:
        """Where the launches of the next step run.

        Only weight decoding may run before the step's inputs are ready.
        """
        ready = max(map(self._behind_writes, uses))
        places: dict[int, Place] = {}
        due: dict[int, Use] = {}  # of weights, until it is known when they are needed
        for at, use in enumerate(uses):
            if self._is_of_weights(use, uses[at + 1 :]):
                due[at] = use
                continue
            level = max(ready, self._earliest(use))
            fed = [decoding for decoding, other in due.items() if other.written & use.touched]
            for decoding in fed:
                places[decoding] = self._ahead(level)
                self._note(due.pop(decoding), places[decoding].level)
            level = max(level, self._earliest(use))
            self._note(use, level)
            self._fed += [level] if fed else []
            places[at] = Place(level=level)
        return [places[at] for at in range(len(uses))]

    def span(self, name: str) -> tuple[int, int]:
        """The first and last level at which a value is touched; (0, 0) if it is not."""
        return self._spans.get(name, (0, 0))

    def _is_of_weights(self, use: Use, later: Sequence[Use]) -> bool:
        """Whether a launch makes of weights alone, in untouched memory, what a later one needs."""
        return (
            bool(use.read)
            and use.read <= self.constant
            and use.written.isdisjoint(self._spans)
            and any(use.written & other.touched for other in later)
        )

    def _ahead(self, level: int) -> Place:
        """Where a launch runs whose results a level needs."""
        if earlier := [reader for reader in self._fed if reader < level]:
            return Place(level=max(earlier), is_ahead=True)
        return Place(level=max(level - 1, 0))

    def _earliest(self, use: Use) -> int:
        used = (self._spans[name][1] + 1 for name in use.written if name in self._spans)
        return max(self._behind_writes(use), *used, 0)

    def _behind_writes(self, use: Use) -> int:
        return max(
            (self._written[name] + 1 for name in use.touched & self._written.keys()), default=0
        )

    def _note(self, use: Use, level: int) -> None:
        for name in use.touched:
            first, last = self._spans.get(name, (level, level))
            self._spans[name] = min(first, level), max(last, level)
        self._written |= dict.fromkeys(use.written, level)
