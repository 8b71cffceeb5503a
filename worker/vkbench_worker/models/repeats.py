"""Drops launches whose results another launch has left in scratch already.

Queries, keys and values are products of one x, which each of them would pack for itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence

from vkbench_shaders.launch import PackedLaunch
from vkbench_worker.models.levels import Use, use_of
from vkbench_worker.runtime.program import Program

Launched = tuple[Program, PackedLaunch]
Versions = list[tuple[str, int]]  # values, and how many launches have written each


class Repeats:
    """What the launches of a graph so far have left in scratch."""

    def __init__(self) -> None:
        self._writes: Counter[str] = Counter()
        self._left: dict[Hashable, Versions] = {}  # by a launch and what it was given

    def drop_repeats(
        self,
        passes: Sequence[Launched],
        values: Sequence[str],
        writes: Collection[str],
        scratch: Collection[str],
    ) -> tuple[list[Launched], list[str]]:
        """A step's launches without repeats, and its values, some of them in others' scratch.

        Beside its own scratch, the step changes what it writes.
        """
        kept: list[Launched] = []
        now, changed = list(values), {*writes, *scratch}
        for program, launch in passes:
            use = use_of(program, now, changed)
            made = [name for name in now if name in use.written]
            is_new = all(name in scratch and not self._writes[name] for name in made)
            key = (program.key, launch, self._values_read_by(now, use))
            if is_new and (left := self._still_left(key)):
                names = dict(zip(made, left, strict=True))
                now = [names.get(name, name) for name in now]
                changed.update(left)
                continue
            kept.append((program, launch))
            self._writes.update(made)
            if is_new:
                self._left[key] = self._versions(made)
        return kept, now

    def _values_read_by(self, values: Sequence[str], use: Use) -> Hashable:
        """What a launch reads, and at which of its bindings."""
        return tuple(
            (at, name, self._writes[name]) for at, name in enumerate(values) if name in use.read
        )

    def _still_left(self, key: Hashable) -> list[str]:
        """The scratch that a launch like this filled, if none has written there since."""
        left = self._left.get(key, [])
        names = [name for name, _ in left]
        return names if left == self._versions(names) else []

    def _versions(self, names: Sequence[str]) -> Versions:
        return [(name, self._writes[name]) for name in names]
