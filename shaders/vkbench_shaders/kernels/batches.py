"""Batch dimensions, along which a kernel's rows are independent, and parts of a batch.

A row, a vector, an image or a sequence of a batch is computed as if it were alone. Whether its bits
are the same whatever lies beside it is another question: a code path may add up in another order
when there are more of them. `judging/batches.py` of the worker tries it with these parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from vkbench.case import Case
from vkbench_shaders.kernel import Array, Kernel, Problem

# By family of kernels: the dimensions to try. Parameters may still make rows depend on each other,
# as a reduction over them does: the reference tells.
_BY_GROUP: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("quantise",), ("m", "b")),
    **dict.fromkeys(("unary", "glu", "binary", "compare", "select", "affine", "cast"), ("h", "b")),
    **dict.fromkeys(("norm", "softmax", "reduce", "scan", "sort"), ("h", "b")),
    **dict.fromkeys(("index", "matmul", "rope", "conv", "pool", "upsample"), ("n",)),
    **dict.fromkeys(("routing",), ("n",)),
    **dict.fromkeys(("attention",), ("q", "s")),
    **dict.fromkeys(("recurrent",), ("s",)),
}
_BY_KERNEL: Final[Mapping[str, tuple[str, ...]]] = {
    "add_id": ("n",),
    "lightning_indexer": ("t", "s"),
    "multi_add": ("m",),
    "hadamard": ("m",),
    "matmul": ("m", "b"),  # rows of its first factor are what other products call vectors
    "out_prod": ("b",),
    "solve_tri": ("b",),
    "group_norm": ("b",),
    # their ids count through all sequences
    "flash_attn_token": (),
    "gated_delta_net_token": (),
    **dict.fromkeys(("ssm_scan", "ssm_scan_token"), ()),
    **dict.fromkeys(("ssm_conv_token", "selective_scan_token"), ()),
}

_ALIKE: Final = 0.99  # share of a reference's elements


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some rows of a case, as a case of their own."""

    case: Case
    dim: str
    rows: slice
    of: int  # rows of the whole

    def cut(self, kernel: Kernel, name: str, array: Array) -> Array:
        """Its rows of a binding's array; all of what has one for all rows, or none."""
        axis = self._axis(kernel, name)
        if axis is None or array.shape[axis] != self.of:
            return array
        index = [slice(None)] * array.ndim
        index[axis] = self.rows
        return array[tuple(index)]

    def fits(self, kernel: Kernel, name: str, whole: Array, shape: tuple[int, ...]) -> bool:
        """Whether its rows of an array have a shape; of an output, whether it has rows at all."""
        axis = self._axis(kernel, name)
        is_cut = axis is not None and whole.shape[axis] == self.of
        has_rows = is_cut or not kernel.binding(name).is_output
        return has_rows and self.cut(kernel, name, whole).shape == shape

    def _axis(self, kernel: Kernel, name: str) -> int | None:
        dims = kernel.binding(name).dims
        return dims.index(self.dim) - len(dims) if self.dim in dims else None  # batches are outer


def dims_of(kernel: Kernel) -> tuple[str, ...]:
    """The dimensions of a kernel to try, all of which its outputs have."""
    own = kernel.dims if kernel.group == "own" else ()
    tried = _BY_KERNEL.get(kernel.name, _BY_GROUP.get(kernel.group, own))
    outputs = [binding.dims for binding in kernel.bindings if binding.is_output]
    return tuple(dim for dim in tried if all(dim in dims for dims in outputs))


def parts(problem: Problem) -> Iterator[Part]:
    """Parts of a case: along each dimension one row, the last half of them, and all but one."""
    for dim in dims_of(problem.kernel):
        yield from parts_along(problem.case, dim)


def parts_along(case: Case, dim: str) -> Iterator[Part]:
    """Parts of a case along one dimension."""
    of = case.shape.get(dim, 1)
    middle = of // 2
    tried = ((middle, middle + 1), (of - middle, of), (0, of - 1))
    for start, stop in dict.fromkeys(tried):
        if 0 < stop - start < of:
            shape = {**case.shape, dim: stop - start}
            yield Part(case=replace(case, shape=shape), dim=dim, rows=slice(start, stop), of=of)


def is_independent(whole: Mapping[str, Array], part: Mapping[str, Array]) -> bool:
    """Whether the reference of a part is what the reference of the whole has in its rows."""
    return all(_is_near(whole[name], part[name]) for name in whole)


def _is_near(whole: Array, part: Array) -> bool:
    """Alike but for few elements, which may have been rounded the other way."""
    one, other = (array.astype(np.float64) for array in (whole, part))
    alike = np.isclose(one, other, rtol=1e-6, atol=0.0, equal_nan=True)
    return not alike.size or bool(alike.mean() > _ALIKE)
