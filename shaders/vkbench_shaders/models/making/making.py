"""Makes a model: decides its tensors and their formats, and writes it without ever holding it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import IO

from vkbench_shaders.formats import format_named
from vkbench_shaders.models.making.metadata import metadata
from vkbench_shaders.models.making.mixtures import Mixture, format_of
from vkbench_shaders.models.making.shape import Shape
from vkbench_shaders.models.making.tensors import TensorPlan, plan_tensors
from vkbench_shaders.models.making.weights import WAYS, ends
from vkbench_shaders.models.making.writing import Placed, header


@dataclass(frozen=True, kw_only=True)
class ModelPlan:
    """A model that can be made."""

    name: str
    shape: Shape
    mixture: Mixture
    weights: str  # blocks | normal
    seed: int

    @cached_property
    def tensors(self) -> list[tuple[TensorPlan, Placed]]:
        """What to make, and how it lies in the file."""
        return [(tensor, self._place_tensor(tensor)) for tensor in plan_tensors(self.shape)]

    def _place_tensor(self, tensor: TensorPlan) -> Placed:
        fmt = format_named(format_of(tensor, self.mixture, self.shape))
        return Placed(name=tensor.name, shape=tensor.shape, format=fmt)

    @property
    def count(self) -> int:
        """Numbers in all tensors."""
        return sum(tensor.count for tensor, _ in self.tensors)

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.header) + sum(placed.room for _, placed in self.tensors)

    @cached_property
    def header(self) -> bytes:
        """The beginning of the file: its metadata and a list of its tensors."""
        keys = metadata(self.name, self.shape, self.mixture)
        return header(keys, [placed for _, placed in self.tensors])


def make(plan: ModelPlan, file: IO[bytes], report: Callable[[int], None]) -> None:
    """Write the model; tells how many bytes are written, after each part."""
    written = 0
    for part in _parts(plan):
        file.write(part)
        written += len(part)
        report(written)


def outline(plan: ModelPlan, file: IO[bytes], size: int) -> None:
    """Write a sparse file that holds only each tensor's ends.

    Whatever reads no more of a tensor than `size` bytes at its ends takes it for the whole model.
    """
    file.write(plan.header)
    start = len(plan.header)
    for tensor, placed in plan.tensors:
        first, last = ends(tensor, placed.format, plan.seed, size)
        for data, offset in ((first, 0), (last, placed.bytes - len(last))):
            file.seek(start + offset)
            file.write(data)
        start += placed.room
    file.truncate(start)
    file.flush()


def _parts(plan: ModelPlan) -> Iterator[bytes | memoryview]:
    yield plan.header
    for tensor, placed in plan.tensors:
        for part in WAYS[plan.weights](tensor, placed.format, plan.seed):
            yield part.data
        yield bytes(placed.room - placed.bytes)
