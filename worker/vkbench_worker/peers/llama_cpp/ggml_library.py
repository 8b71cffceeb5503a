"""The peer `ggml`: operations of llama.cpp's Vulkan backend on the same GPU, by its C API.

Arrays lie in buffers of the backend, between our guard bands. A launch is a node of a graph, and a
segment is one graph of all its launches, timed by the host's clock. The backend converts x once for
all launches that name one tensor: so launches name two by turns, which lie in the same place.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle
from math import prod
from typing import Any, Final

import numpy as np

from vkbench.device import DeviceFacts
from vkbench.errors import VkbenchError
from vkbench_shaders.formats import FORMATS, Format
from vkbench_shaders.kernel import Layout
from vkbench_worker.peers.library import Call, CannotDo, Row
from vkbench_worker.peers.llama_cpp.api import PEER, Address, Api, Tensor
from vkbench_worker.peers.llama_cpp.operations import (
    FUNCTIONS,
    GATED,
    OF_BLOCKS,
    OF_SINGLES,
    PRECISE,
    ROWS,
)
from vkbench_worker.peers.numpy_library import wall_seconds
from vkbench_worker.runtime.errors import OutOfMemory

_BYTES: Final = 24  # ggml's type of signed bytes
_SINGLES: Final = 10  # ggml's precision of sums in singles
_DIMS: Final = 4
_PIECE_BYTES: Final = 16 << 20  # that are filled at a time
_MOST_TENSORS: Final = 16  # of a launch, with those of both its nodes
_TWINS: Final = 2
_NO_MEMORY: Final = -2  # ggml's status
_TYPES: Final = {fmt.name: fmt for fmt in FORMATS if fmt.ggml is not None}
# A graph begins and ends by about 0.1 ms of the host's: rows of 20 ms make that 1 in 200.
_TICK_SECONDS: Final = 4e-4


@dataclass(frozen=True, kw_only=True, eq=False)
class GgmlMemory:
    """A buffer of the backend, and all of it as a tensor of bytes."""

    buffer: Address
    base: int  # where the backend says that it begins
    whole: Address  # 0: it has no bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class GgmlArray:
    """An array in such a buffer, of which each node has a tensor of its own."""

    memory: GgmlMemory
    offset: int
    format: Format
    layout: Layout

    @property
    def nbytes(self) -> int:
        return prod(self.layout.shape) * self.format.dtype.itemsize

    def reshape(self, shape: tuple[int, ...]) -> GgmlArray:
        """The same numbers under another shape."""
        return replace(self, layout=Layout.contiguous(shape))

    def make_tensor(self, api: Api, context: Address) -> Address:
        """A ggml tensor of the array."""
        *outer, inner = self.layout.shape
        dims = [self.format.numbers(inner), *reversed(outer)]
        dims += [1] * (_DIMS - len(dims))
        assert self.format.ggml is not None
        made = api("ggml_new_tensor", context, self.format.ggml, _DIMS, (ctypes.c_int64 * 4)(*dims))
        self._place(api, made)
        return int(made)

    def take_result(self, api: Api, node: Address) -> None:
        """Have the result of a node lie here."""
        tensor = Tensor.from_address(node)
        if tensor.type != self.format.ggml or api("ggml_nbytes", node) != self.nbytes:
            raise CannotDo(f"{PEER} has no such operation to {self.format.name}")
        tensor.view_src, tensor.data = None, None  # an operation in place lies elsewhere, too
        self._place(api, node)

    def _place(self, api: Api, tensor: Address) -> None:
        at = self.memory.base + self.offset
        api("ggml_backend_tensor_alloc", self.memory.buffer, tensor, at)


class GgmlLibrary:
    """One build of ggml on one device."""

    name: str = PEER
    clock: str = "host"
    tick_seconds: float = _TICK_SECONDS
    working: str = ""  # it has all formats itself
    widens: bool = False

    def __init__(self, facts: DeviceFacts, folder: str) -> None:
        self.api = Api(folder, facts.index)
        if (seen := self.api.describe_device()) != facts.name:
            raise CannotDo(f"{PEER} sees {seen or 'no device'} where {facts.name} is")
        self.backend: Address = self.api("ggml_backend_vk_init", 0)
        if not self.backend:
            raise CannotDo(f"{PEER} cannot set up {facts.name}")
        self.version = ":".join(self.api.build.values())
        self.rows: Mapping[str, Row] = ROWS
        self.functions: Mapping[str, Callable[..., object]] = {
            **{name: partial(self._make_node, name) for name in FUNCTIONS},
            **{name: partial(self._make_gated_node, name) for name in GATED},
        }

    def takes(self, function: str, fmt: str) -> bool:
        """Types of ggml; the backend says of each launch what it supports, and not always right."""
        if function in OF_SINGLES:
            return fmt in ("f32", "i32")  # and the places of such
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
        if layout != Layout.contiguous(layout.shape):
            raise CannotDo(f"{PEER} is asked for whole arrays, and this case has gaps")
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
            self.api.set_of_node(f"ggml_{PRECISE[function]}", made, _SINGLES)
        return int(made)

    def _make_gated_node(
        self, function: str, context: Address, x: Address, swapped: bool
    ) -> Address:
        """A node of a gated unit, whose gate may be the second half of a row."""
        return self._make_node(f"{function}_swapped" if swapped else function, context, x)


class Launch:
    """An operation on arrays, as two nodes that differ in which tensors they name alone."""

    def __init__(self, library: GgmlLibrary, function: str, arguments: tuple[object, ...]) -> None:
        self._library, self._arguments = library, arguments  # whose memory stays as long
        context = library.api.make_context(_MOST_TENSORS)
        weakref.finalize(self, library.api, "ggml_free", context)
        self.nodes = [self._make_node(function, context) for _ in range(_TWINS)]
        if not library.api("ggml_backend_supports_op", library.backend, self.nodes[0]):
            raise CannotDo(f"{PEER}'s Vulkan backend does not support {function} of this case")

    def __call__(self) -> None:
        """Compute the operation's graph once."""
        Graph(self._library, [self])()

    def _make_node(self, function: str, context: Address) -> Address:
        api = self._library.api
        *inputs, output = self._arguments
        if not isinstance(output, GgmlArray):
            raise CannotDo(f"{PEER} has no {function} to such a result")
        tensors = [
            argument.make_tensor(api, context) if isinstance(argument, GgmlArray) else argument
            for argument in inputs
        ]
        node: Any = self._library.functions[function](context, *tensors)
        output.take_result(api, node)
        return int(node)


class Graph:
    """Launches one after the other, computed as one graph."""

    def __init__(self, library: GgmlLibrary, launches: Sequence[Launch]) -> None:
        self._library, self._launches = library, launches
        api = library.api
        turns = {launch: cycle(launch.nodes) for launch in dict.fromkeys(launches)}
        nodes = [next(turns[launch]) for launch in launches]
        size = len(nodes) + _MOST_TENSORS * len(turns)
        context = api.make_context(0, api("ggml_graph_overhead_custom", size, False))
        weakref.finalize(self, api, "ggml_free", context)
        self._graph: Address = api("ggml_new_graph_custom", context, size, False)
        known: set[Address] = set()
        for node in nodes:
            add = "ggml_graph_add_node" if node in known else "ggml_build_forward_expand"
            api(add, self._graph, node)
            known.add(node)

    def __call__(self) -> None:
        """Compute the graph, and wait."""
        api = self._library.api
        status = api("ggml_backend_graph_compute", self._library.backend, self._graph)
        if status == _NO_MEMORY:
            raise OutOfMemory(f"{PEER} has not enough memory for this case")
        if status:
            raise VkbenchError(f"{PEER} computed no graph: its status is {status}")
