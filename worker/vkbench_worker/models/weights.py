"""A model's weights on a device: read from the file as they are needed, and kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack

import numpy as np

from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.kernel import Array
from vkbench_shaders.models.graph import Part, Weight, extent
from vkbench_shaders.quantisers import quants
from vkbench_worker.runtime.device import Buffer, Device
from vkbench_worker.runtime.errors import OutOfMemory

Progress = Callable[[int, int], None]  # bytes that are there, bytes in all


class Weights:
    """The buffers of a file's weights; they close with the stack."""

    def __init__(self, device: Device, file: GgufFile, stack: ExitStack) -> None:
        self._device, self.file, self._stack = device, file, stack
        self.buffers: dict[str, Buffer] = {}

    def load(
        self, needed: Mapping[str, Weight], progress: Progress = lambda done, all: None
    ) -> None:
        """Bring weights to the device that are not there yet; OutOfMemory says what they need."""
        missing = {name: weight for name, weight in needed.items() if name not in self.buffers}
        sizes = {name: weight.bytes(self.file) for name, weight in missing.items()}
        total, left = sum(sizes.values()), self._device.memory_left()
        if total > left:
            raise OutOfMemory(
                f"the model's weights need {total:,} bytes of device memory; {left:,} are left"
            )
        done = 0
        for name, weight in missing.items():
            buffer = self._device.buffer(sizes[name])
            self._stack.callback(buffer.close)
            buffer.upload(self._storage_of(weight))
            self.buffers[name] = buffer
            done += sizes[name]
            progress(done, total)

    def _storage_of(self, weight: Weight) -> Array:
        parts = [self._part(part, weight.format) for part in weight.parts]
        if len(parts) == 1:
            return parts[0]
        return np.concatenate([part.reshape(1, -1) for part in parts], axis=1)

    def _part(self, part: Part, form: str) -> Array:
        """Rows as the file has them, or as the numbers that a norm needs."""
        tensor = self.file.tensor(part.tensor)
        assert tensor.format
        fmt, (rows, width) = tensor.format, extent(self.file, part)
        if len(tensor.shape) == 1:
            stored = self.file.read(part.tensor)[part.first : part.first + width]
        else:
            stored = self.file.rows(part.tensor, part.first, rows)
        if fmt.name == form:
            return stored
        return quants.quantise(form, quants.dequantise(fmt.name, stored))
