"""The peer `ggml`: operations of llama.cpp's Vulkan backend on the same GPU, by its C API.

Arrays lie in buffers of the backend, between our guard bands. A launch is a node of a graph, and a
segment is one graph of all its launches, timed by the host's clock. The backend converts x once for
all launches that name one tensor: so launches name two by turns, which lie in the same place.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from vkbench.device import DeviceFacts
from vkbench.programs.program import GGML_VULKAN
from vkbench_shaders.formats import FORMATS, Format
from vkbench_shaders.kernel import Layout
from vkbench_worker.peers.library import Call, CannotDo, Row
from vkbench_worker.peers.llama_cpp.api import PEER, Address, Api, Tensor
from vkbench_worker.peers.llama_cpp.arrays import GgmlArray, GgmlMemory
from vkbench_worker.peers.llama_cpp.launches import Graph, Launch
from vkbench_worker.peers.llama_cpp.operations.chains import CHAINS
from vkbench_worker.peers.llama_cpp.operations.own import ROWS as OWN_ROWS
from vkbench_worker.peers.llama_cpp.operations.signatures import (
    ABORTS,
    FUNCTIONS,
    GATED,
    OF_BLOCKS,
    OF_SINGLES,
    PRECISE,
)
from vkbench_worker.peers.llama_cpp.operations.table import LACKS, ROWS
from vkbench_worker.peers.numpy_library import wall_seconds
from vkbench_worker.runtime.errors import OutOfMemory

_BYTES: Final = 24  # ggml's type of signed bytes
_SINGLES: Final = 10  # ggml's precision of sums in singles
_PIECE_BYTES: Final = 16 << 20  # that are filled at a time
_TYPES: Final = {fmt.name: fmt for fmt in FORMATS if fmt.ggml is not None}
# A graph begins and ends by about 0.1 ms of the host's: rows of 20 ms make that 1 in 200.
_TICK_SECONDS: Final = 4e-4


class GgmlLibrary:
    """One build of ggml on one device."""

    name: str = PEER
    clock: str = "host"
    tick_seconds: float = _TICK_SECONDS
    working: str = ""  # it has all formats itself
    repeats: bool = True
    widens: bool = False

    def __init__(self, facts: DeviceFacts, folder: str, *, twins: int = 2) -> None:
        """The libraries of a folder; see launches.py for how many twins a launch is."""
        self.twins = twins
        self.build = ""
        self._processor: GgmlLibrary | None = None
        self.api = Api(folder, facts.index)
        if (seen := self.api.describe_device()) != facts.name:
            raise CannotDo(f"{PEER} sees {seen or 'no device'} where {facts.name} is")
        self.backend: Address = self.api("ggml_backend_vk_init", 0)
        if not self.backend:
            raise CannotDo(f"{PEER} cannot set up {facts.name}")
        self.kind = "Vulkan"
        self.version = ":".join(self.api.build.values())
        self.rows: Mapping[str, Row] = {
            **ROWS,
            **{f"{GGML_VULKAN.name}:{name}": row for name, row in OWN_ROWS.items()},
        }
        self.lacks: Mapping[str, str] = LACKS
        self.chains: Mapping[str, Callable[..., object]] = CHAINS
        self.functions: Mapping[str, Callable[..., object]] = {
            **{name: partial(self._make_node, name) for name in FUNCTIONS},
            **{name: partial(self._make_gated_node, name) for name in GATED},
            **self.chains,  # which rows may name; nodes are made of the others
        }

    def on_processor(self) -> GgmlLibrary:
        """The same operations by the CPU backend of the build."""
        if self._processor is None:
            self._processor = copy(self)
            self._processor.backend, self._processor.build = self.api.start_processor()
            self._processor.kind, self._processor.twins = "CPU", 1
        return self._processor

    def takes(self, function: str, fmt: str) -> bool:
        """Types of ggml; the backend says of each launch what it supports, and not always right."""
        if function in OF_SINGLES:
            return fmt in ("f32", "i32")  # and the places of such
        if fmt in ABORTS.get(function, ()):
            return False
        return fmt in _TYPES and (function in OF_BLOCKS or not _TYPES[fmt].quantised)

    def memory(self, nbytes: int) -> GgmlMemory:
        """A buffer of the backend."""
        buffer = self.api("ggml_backend_alloc_buffer", self.backend, nbytes)
        if not buffer:
            raise OutOfMemory(f"{PEER} has not enough memory for this case")
        context = self.api.make_context(1)
        base, whole = self.api("ggml_backend_buffer_get_base", buffer) or 0, 0
        if nbytes:
            size = (ctypes.c_int64 * 1)(nbytes)
            whole = self.api("ggml_new_tensor", context, _BYTES, 1, size)
            self.api("ggml_backend_tensor_alloc", buffer, whole, base)
        made = GgmlMemory(buffer=buffer, base=base, whole=whole)
        weakref.finalize(made, self._free_memory, buffer, context)
        return made

    def _free_memory(self, buffer: Address, context: Address) -> None:
        self.api("ggml_backend_buffer_free", buffer)
        self.api("ggml_free", context)

    def write(self, memory: GgmlMemory, offset: int, data: np.ndarray) -> None:
        """Copy the host's bytes there."""
        if data.nbytes:
            at = data.ctypes.data
            self.api("ggml_backend_tensor_set", memory.whole, at, offset, data.nbytes)

    def read(self, memory: GgmlMemory, start: int, end: int) -> np.ndarray:
        """A copy of bytes of the memory for the host."""
        data = np.empty(end - start, np.uint8)
        if data.nbytes:
            at = data.ctypes.data
            self.api("ggml_backend_tensor_get", memory.whole, at, start, data.nbytes)
        return data

    def fill(self, memory: GgmlMemory, word: int) -> None:
        """Overwrite memory with a word, a piece at a time."""
        size = Tensor.from_address(memory.whole).ne[0]
        piece = np.full(min(size, _PIECE_BYTES) // 4, word, np.uint32)
        for start in range(0, size, _PIECE_BYTES):
            self.write(memory, start, piece[: (size - start) // 4])

    def copy(self, source: GgmlMemory, target: GgmlMemory) -> None:
        """Overwrite memory with other memory."""
        self.api("ggml_backend_tensor_copy", source.whole, target.whole)

    def view(
        self, memory: GgmlMemory, offset: int, fmt: Format, layout: Layout
    ) -> GgmlArray | None:
        """An array of what lies in memory; None where ggml has no such format."""
        if fmt.ggml is None:
            return None
        if not prod(layout.shape):
            raise CannotDo(f"{PEER} is asked for no empty arrays")
        return GgmlArray(memory=memory, offset=offset, format=fmt, layout=layout)

    def array(self, values: np.ndarray, fmt: str) -> Any:
        """Refuse: ggml takes no factor that was converted before."""
        raise CannotDo(f"{PEER} converts nothing to {fmt} here")

    def bind(self, function: str, arguments: tuple[object, ...]) -> Call:
        """A launch on these arrays."""
        return Launch(self, function, arguments)

    def time_segments(self, segments: Sequence[Sequence[Call]]) -> Callable[[], list[float]]:
        """Wall time of each segment but the first; launches behind each other are one graph."""
        return partial(wall_seconds, [self._join(segment) for segment in segments])

    def _join(self, segment: Sequence[Call]) -> Sequence[Call]:
        launches = [call for call in segment if isinstance(call, Launch)]
        if len(launches) != len(segment) or not launches:
            return segment
        return [Graph(self, launches)]

    def _make_node(self, function: str, context: Address, *arguments: object) -> Address:
        """A node of an operation on tensors."""
        made = self.api.make_node(f"ggml_{function}", FUNCTIONS[function], context, arguments)
        if function in PRECISE:
            self.api.set_of_node(f"ggml_{PRECISE[function]}", "i", made, _SINGLES)
        return int(made)

    def _make_gated_node(
        self, function: str, context: Address, x: Address, swapped: bool
    ) -> Address:
        """A node of a gated unit, whose gate may be the second half of a row."""
        return self._make_node(f"{function}_swapped" if swapped else function, context, x)
