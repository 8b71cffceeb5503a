"""Arrays as ggml has them: memory of its backend, and what of it each tensor is."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Layout
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.api import PEER, Address, Api, Tensor

_DIMS: Final = 4


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
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.format.dtype.itemsize

    @property
    def has_gaps(self) -> bool:
        """Whether its items lie otherwise than side by side in their order."""
        return self.layout != Layout.contiguous(self.shape)

    def reshape(self, *shape: int) -> GgmlArray:
        """The same numbers under another shape."""
        if self.has_gaps:
            raise CannotDo(f"{PEER} is asked for whole arrays, and this case has gaps")
        return replace(self, layout=Layout.contiguous(shape))

    def permute(self, axes: Sequence[int]) -> GgmlArray:
        """The same numbers with dimensions exchanged, where they lie."""
        shape, strides = ([of[axis] for axis in axes] for of in (self.shape, self.layout.strides))
        return replace(
            self, layout=replace(self.layout, shape=tuple(shape), strides=tuple(strides))
        )

    def take_part(self, start: int, shape: tuple[int, ...]) -> GgmlArray:
        """An array of the numbers from one on."""
        at = self.offset + start * self.format.dtype.itemsize
        return replace(self, offset=at, layout=Layout.contiguous(shape))

    def make_tensor(self, api: Api, context: Address) -> Address:
        """A ggml tensor of the array."""
        *outer, inner = self.shape
        dims = [self.format.numbers(inner), *reversed(outer)]
        dims += [1] * (_DIMS - len(dims))
        assert self.format.ggml is not None
        made = api("ggml_new_tensor", context, self.format.ggml, _DIMS, (ctypes.c_int64 * 4)(*dims))
        if self.has_gaps:
            self._spread(Tensor.from_address(made))
        self._place(api, made)
        return int(made)

    def _spread(self, tensor: Tensor) -> None:
        """Have a tensor's dimensions lie as ours do."""
        item = self.format.dtype.itemsize
        steps = [stride * item for stride in reversed(self.layout.strides)]
        if self.format.quantised:  # a step to the next block, not to the next byte
            if self.layout.strides[-1] != 1:
                raise CannotDo(f"{PEER} has no blocks whose bytes lie apart")
            steps[0] = self.format.bytes
        for place, step in enumerate(steps):
            tensor.nb[place] = step
        for place in range(len(steps), _DIMS):
            tensor.nb[place] = tensor.nb[place - 1] * tensor.ne[place - 1]

    def take_result(self, api: Api, node: Address) -> None:
        """Have the result of a node lie here."""
        tensor = Tensor.from_address(node)
        if self.has_gaps:
            raise CannotDo(f"{PEER} is asked for whole arrays, and this case has gaps")
        if tensor.type != self.format.ggml or api("ggml_nbytes", node) != self.nbytes:
            raise CannotDo(f"{PEER} has no such operation to {self.format.name}")
        tensor.view_src, tensor.data = None, None  # an operation in place lies elsewhere, too
        self._place(api, node)

    def _place(self, api: Api, tensor: Address) -> None:
        at = self.memory.base + self.offset + self.layout.offset * self.format.dtype.itemsize
        api("ggml_backend_tensor_alloc", self.memory.buffer, tensor, at)
