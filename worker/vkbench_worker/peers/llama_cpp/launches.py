"""Launches of ggml: the nodes that an operation is made of, and graphs of many launches.

Most operations are one node. Others are a chain of them, as a graph of llama.cpp has them, so that
the backend may fuse what it fuses there; or they are chains because one of ggml's nodes leaves two
results side by side, or works in place, and copies put them where they belong.

The backend converts x, to bytes or halves, once for all nodes beside each other that name one
tensor. Beside our kernels a launch has to be the whole operation: there it is two chains, which
differ in which tensors they name alone, and a graph takes them by turns. For builds under test it
is one, and a graph repeats the same node as `test-backend-ops perf` does.

Figures of a build are thus those of `test-backend-ops perf`, but for three things. That program
goes by 100 GFLOP a graph, at n 512 two launches, each of which bears half of what a graph begins
and ends with; here a graph takes 20 ms, and has up to 2000 launches. It begins on a cold GPU, whose
clock climbs while it measures; here nothing is sampled before the clock is up. And its inputs are
at random, where ours are the case's: experts of `mul_mat_id` are others.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from math import prod
from typing import Any, Final, Protocol

import numpy as np

from vkbench.errors import VkbenchError
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Layout
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.api import PEER, Address, Api
from vkbench_worker.peers.llama_cpp.arrays import GgmlArray, GgmlMemory
from vkbench_worker.peers.llama_cpp.operations.signatures import OF_VIEWS
from vkbench_worker.runtime.errors import OutOfMemory

_MOST_TENSORS: Final = 64  # of a launch, with those of both its chains
_NO_MEMORY: Final = -2  # ggml's status


class Maker(Protocol):
    """What makes nodes: a build of ggml on a device."""

    api: Api
    backend: Address
    functions: Mapping[str, Callable[..., object]]
    chains: Mapping[str, Callable[..., object]]
    twins: int  # chains of a launch
    kind: str  # of the backend: Vulkan, CPU

    def memory(self, nbytes: int) -> GgmlMemory:
        """A buffer of the backend."""
        ...

    def write(self, memory: GgmlMemory, offset: int, data: np.ndarray) -> None:
        """Copy the host's bytes there."""
        ...

    def read(self, memory: GgmlMemory, start: int, end: int) -> np.ndarray:
        """A copy of bytes of the memory for the host."""
        ...


class Nodes:
    """The nodes of one chain, in their order, and the arrays between them."""

    def __init__(self, maker: Maker, context: Address, between: list[GgmlArray]) -> None:
        self.made: list[Address] = []
        self._maker, self._context = maker, context
        self._between = between  # of all chains of a launch, which run one after the other
        self._taken = 0

    def has(self, function: str) -> bool:
        """Whether the build has a function of the C API."""
        return self._maker.api.has(f"ggml_{function}")

    def require(self, function: str, words: str) -> None:
        """CannotDo unless the build has a function that came with what the words say."""
        if not self.has(function):
            raise CannotDo(f"this build of {PEER} has no {words}")

    def add(self, function: str, *arguments: object, at: object = None) -> Address:
        """A node of an operation on arrays, nodes and numbers, whose result lies in an array."""
        api = self._maker.api
        if not isinstance(at, GgmlArray):
            raise CannotDo(f"{PEER} has no {function} to such a result")
        tensors = [self._make_argument(function, argument) for argument in arguments]
        node: Any = self._maker.functions[function](self._context, *tensors)
        at.take_result(api, node)
        if not api("ggml_backend_supports_op", self._maker.backend, node):
            kind = self._maker.kind
            raise CannotDo(f"{PEER}'s {kind} backend does not support {function} of this case")
        self.made.append(int(node))
        return int(node)

    def view(self, function: str, node: Address, *numbers: int) -> Address:
        """A node that is another one's result under another shape, or a part of it."""
        made: Any = self._maker.functions[function](self._context, node, *numbers)
        self._maker.api("ggml_backend_view_init", made)
        self.made.append(int(made))
        return int(made)

    def attach(self, function: str, node: Address, array: GgmlArray) -> None:
        """Have a function give a node another array."""
        api = self._maker.api
        tensor = array.make_tensor(api, self._context)
        api.set_of_node(f"ggml_{function}", "t", node, tensor)

    def tell(self, function: str, node: Address, number: int) -> None:
        """Have a function tell a node a number."""
        self._maker.api.set_of_node(f"ggml_{function}", "i", node, number)

    def make_tensor(self, array: GgmlArray) -> Address:
        """A tensor of an array, for those who have to change what ggml knows of it."""
        return array.make_tensor(self._maker.api, self._context)

    def lay_between(self, fmt: str, *shape: int) -> GgmlArray:
        """An array for what one node leaves to the next ones."""
        if self._taken == len(self._between):
            own, layout = format_named(fmt), Layout.contiguous(shape)
            memory = self._maker.memory(prod(shape) * own.dtype.itemsize)
            self._between.append(GgmlArray(memory=memory, offset=0, format=own, layout=layout))
        self._taken += 1
        return self._between[self._taken - 1]

    def lay_constant(self, values: np.ndarray, fmt: str) -> GgmlArray:
        """An array of these numbers."""
        array = self.lay_between(fmt, *values.shape)
        self._maker.write(array.memory, 0, values.astype(array.format.dtype))
        return array

    def pad_rows(self, array: GgmlArray, multiple: int) -> GgmlArray:
        """A copy of a matrix with rows behind it, to a whole multiple of them."""
        rows, columns = array.shape
        padded = self.lay_between(array.format.name, -(-rows // multiple) * multiple, columns)
        data = self._maker.read(array.memory, array.offset, array.offset + array.nbytes)
        self._maker.write(padded.memory, 0, np.resize(data, padded.nbytes))
        return padded

    def _make_argument(self, function: str, argument: object) -> object:
        if not isinstance(argument, GgmlArray):
            return argument
        if argument.has_gaps and function not in OF_VIEWS:
            raise CannotDo(f"{PEER} is asked for whole arrays, and this case has gaps")
        return self.make_tensor(argument)


class Launch:
    """An operation on arrays: chains of nodes that differ in which tensors they name alone."""

    def __init__(self, maker: Maker, function: str, arguments: tuple[object, ...]) -> None:
        self._maker, self._arguments = maker, arguments  # whose memory stays as long
        self._between: list[GgmlArray] = []
        context = maker.api.make_context(_MOST_TENSORS)
        weakref.finalize(self, maker.api, "ggml_free", context)
        self.chains = [self._make_chain(function, context) for _ in range(maker.twins)]

    def __call__(self) -> None:
        """Compute the operation's graph once."""
        Graph(self._maker, [self])()

    def _make_chain(self, function: str, context: Address) -> Sequence[Address]:
        nodes = Nodes(self._maker, context, self._between)
        if chain := self._maker.chains.get(function):
            chain(nodes, *self._arguments)
        else:
            *inputs, output = self._arguments
            nodes.add(function, *inputs, at=output)
        return nodes.made


class Graph:
    """Launches one after the other, computed as one graph."""

    def __init__(self, maker: Maker, launches: Sequence[Launch]) -> None:
        self._maker, self._launches = maker, launches
        api = maker.api
        turns = {launch: cycle(launch.chains) for launch in dict.fromkeys(launches)}
        nodes = [node for launch in launches for node in next(turns[launch])]
        size = len(nodes) + _MOST_TENSORS * len(turns)
        context = api.make_context(0, api("ggml_graph_overhead_custom", size, False))
        weakref.finalize(self, api, "ggml_free", context)
        self._graph: Address = api("ggml_new_graph_custom", context, size, False)
        known: set[Address] = set()
        for node in nodes:
            add = "ggml_graph_add_node" if node in known else "ggml_build_forward_expand"
            api(add, self._graph, node)
            known.add(node)

    def __len__(self) -> int:
        """How many launches it has."""
        return len(self._launches)

    def __call__(self) -> None:
        """Compute the graph, and wait."""
        api = self._maker.api
        status = api("ggml_backend_graph_compute", self._maker.backend, self._graph)
        if status == _NO_MEMORY:
            raise OutOfMemory(f"{PEER} has not enough memory for this case")
        if status:
            raise VkbenchError(f"{PEER} computed no graph: its status is {status}")
