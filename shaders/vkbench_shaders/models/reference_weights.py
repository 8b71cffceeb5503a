"""The weights of a model's reference: tensors in float64, decoded when they are asked for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.models.hyper import Hyper
from vkbench_shaders.quantisers import quants

Floats = NDArray[np.float64]


class LayerWeights:
    """Tensors of one prefix in float64, decoded when they are first asked for."""

    def __init__(self, file: GgufFile, prefix: str, held: dict[str, Floats]) -> None:
        self._file, self._prefix, self._held = file, prefix, held

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._file.tensors

    def __getitem__(self, name: str) -> Floats:
        if name not in self._held:
            self._held[name] = self._decode_weights(name)
        return self._held[name]

    def find(self, name: str) -> Floats | None:
        """A tensor if the file has it."""
        if name not in self:
            return None
        return self[name]

    def expert(self, name: str, number: int) -> Floats:
        """The matrix of one expert."""
        return self._decode_weights(name, number)

    def _decode_weights(self, name: str, expert: int | None = None) -> Floats:
        fmt = self._file.tensor(self._prefix + name).format
        assert fmt
        stored = self._file.read(self._prefix + name)
        return quants.dequantise(fmt.name, stored if expert is None else stored[expert])


def multiply(weight: LayerWeights, name: str, x: Floats) -> Floats:
    """Vectors times a matrix, plus its bias if it has one."""
    made = x @ weight[f"{name}.weight"].T
    return made + weight[f"{name}.bias"] if f"{name}.bias" in weight else made


def normalise(hyper: Hyper, weight: LayerWeights, name: str, x: Floats) -> Floats:
    """Vectors by one of a model's norms, and its weights."""
    if hyper.architecture.norm == "layer_norm":
        x = x - x.mean(axis=-1, keepdims=True)
    made = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + hyper.eps)
    made = np.asarray(made * weight[f"{name}.weight"])
    return made + weight[f"{name}.bias"] if f"{name}.bias" in weight else made
