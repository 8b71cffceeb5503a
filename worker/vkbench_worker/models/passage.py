"""Tokens that a model reads part by part, as one run: a long prompt, or a single token."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from vkbench_shaders.models.cases import parts_of
from vkbench_worker.models.model import Ids, Model, Prepared
from vkbench_worker.models.schedule import Pass
from vkbench_worker.runtime.device import Recording, Stamp, Step
from vkbench_worker.runtime.program import Image


class Passage:
    """The phases that read so many tokens of each sequence, one behind the other.

    Each part looks at the caches as far as it has to, and has inputs and scratch of its own.
    """

    def __init__(
        self, model: Model, start: int, count: int, wanted: int, kept: tuple[int, ...]
    ) -> None:
        self.model, self.device, self.start = model, model.device, start
        self.places = parts_of(count)  # of each part: its first token, and the one behind it
        self.parts: Sequence[Prepared] = [
            model.prepare_reading(
                until - at, start + until, wanted=wanted, kept=kept, number=number
            )
            for number, (at, until) in enumerate(self.places)
        ]

    @property
    def last(self) -> Prepared:
        """The part that makes the logits which count."""
        return self.parts[-1]

    @property
    def levels(self) -> list[Sequence[Pass]]:
        """All launches, those of a level beside each other."""
        return [level for part in self.parts for level in part.schedule.levels]

    @property
    def bytes_moved(self) -> int:
        """Bytes that one run moves: weights count once for each part."""
        return sum(part.graph.bytes_moved for part in self.parts)

    @property
    def flops(self) -> int:
        return sum(part.graph.flops for part in self.parts)

    @property
    def scratch_bytes(self) -> int:
        return sum(part.scratch_bytes for part in self.parts)

    @cached_property
    def recording(self) -> Recording:
        """One recording of all parts, between two stamps."""
        return self.model.record_steps([Stamp(), *self.steps(), Stamp()])

    @cached_property
    def stamped(self) -> Recording:
        """One recording of all parts, with a stamp behind each level."""
        stamped = [step for part in self.parts for step in part.stamped_steps()]
        return self.model.record_steps([Stamp(), *stamped])

    def steps(self) -> list[Step]:
        return [step for part in self.parts for step in part.steps()]

    def place(self, tokens: Ids) -> None:
        """Have the next run read these tokens (batch, tokens)."""
        for part, (at, until) in zip(self.parts, self.places, strict=True):
            part.place(tokens[:, at:until], self.start + at)

    def poison(self, word: int) -> None:
        """Fill all that a run writes, but for caches."""
        for part in self.parts:
            part.poison(word)

    def images(self) -> tuple[list[dict[str, Image]], list[tuple[str, Image]]]:
        """What each part kept, and counters; and the guards of all buffers, by a value's name."""
        kept = {
            (number, name): part.buffer(name)
            for number, part in enumerate(self.parts)
            for name in (*part.graph.kept, *part.counters)
        }
        own = {id(buffer) for buffer in kept.values()}
        others = {
            id(buffer): (name, buffer)
            for part in self.parts
            for name, buffer in part.buffers().items()
            if id(buffer) not in own
        }
        images = self.device.images([*kept.values()], [buffer for _, buffer in others.values()])
        names = [*(name for _, name in kept), *(name for name, _ in others.values())]
        values: list[dict[str, Image]] = [{} for _ in self.parts]
        for (number, name), image in zip(kept, images, strict=False):
            part = self.parts[number]
            size = part.counters[name].size if name in part.counters else part.graph.sizes[name]
            values[number][name] = _cut(image, size)
        return values, [*zip(names, images, strict=True)]


def _cut(image: Image, size: int) -> Image:
    """An image cut to its value's size: other values share its buffer and may lie behind."""
    return Image(image.lead, image.data[:size], image.trail, poison=image.poison)
