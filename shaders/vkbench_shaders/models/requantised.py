"""A model's file as if it were of another type: matrices are quantised anew as they are read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vkbench_shaders.formats import Array, format_named
from vkbench_shaders.gguf_file import GgufFile, Tensor
from vkbench_shaders.models.hyper import Hyper, hyper_of
from vkbench_shaders.models.making.mixtures import TYPES, Mixture, format_of
from vkbench_shaders.models.making.shape import Shape
from vkbench_shaders.models.making.tensors import TensorPlan
from vkbench_shaders.quantisers.quantiser import quantise_weights
from vkbench_shaders.quantisers.quants import dequantise

_PART: Final = 1 << 22  # weights that are numbers at a time


@dataclass(frozen=True, kw_only=True)
class Requantised(GgufFile):
    """A file whose tensors have the formats of another type."""

    source: GgufFile

    def rows(self, name: str, first: int, count: int) -> Array:
        """Some rows of a tensor in its new format."""
        old, new = self.source.tensor(name).format, self.tensor(name).format
        assert old
        assert new
        if old is new:
            return self.source.rows(name, first, count)
        width = self.tensor(name).shape[-1]
        step = max(1, _PART // width)
        made = []
        for at in range(first, first + count, step):
            stored = self.source.rows(name, at, min(step, first + count - at))
            made.append(quantise_weights(new.name, dequantise(old.name, stored).astype(np.float32)))
        return np.concatenate(made)


def main_format(file: GgufFile) -> str:
    """The format of most of a file's weights."""
    counts: Counter[str] = Counter()
    for tensor in file.tensors.values():
        counts[tensor.format.name if tensor.format else ""] += tensor.count
    return counts.most_common(1)[0][0]


def retype_file(file: GgufFile, type: str) -> GgufFile:
    """The file by a type's rules, which say the format of each tensor as `model make` does; "": as
    it is."""
    if not type:
        return file
    shape, mixture = _shape(file, hyper_of(file)), TYPES[type]
    tensors = {
        name: _retype_tensor(tensor, mixture, shape) for name, tensor in file.tensors.items()
    }
    return Requantised(path=file.path, tensors=tensors, keys=file.keys, source=file)


def _retype_tensor(tensor: Tensor, mixture: Mixture, shape: Shape) -> Tensor:
    if len(tensor.shape) < 2:
        return tensor
    plan = TensorPlan(name=tensor.name, shape=tensor.shape, deviation=0.0)
    number = format_named(format_of(plan, mixture, shape)).ggml
    assert number is not None
    return replace(tensor, number=number)


def _shape(file: GgufFile, hyper: Hyper) -> Shape:
    return Shape(
        arch=hyper.architecture.name,
        layers=hyper.layers,
        width=hyper.width,
        heads=hyper.heads,
        kv_heads=hyper.groups,
        head_size=hyper.key_size,
        feed_forward=hyper.inner,
        vocabulary=hyper.vocabulary,
        context=hyper.trained_context,
        experts=hyper.experts,
        used=hyper.used,
        tied="output.weight" not in file.tensors,
    )
