"""The 123 kernels of the ROCm grid by the names that it gives them, and what they are here.

Ten formats of weights, and q8_K to be decoded only. A name says the format, the format of the
vectors, and for products with q8_1 the number of columns, for each of which ROCm has a kernel:

    quantize_q8_1                        quantize to q8_1
    dequantize_block_q4_0_f16            dequantize to f16
    dequantize_mul_mat_vec_q4_0          mul_mat_vec with f32 vectors
    mul_mat_vec_q4_0_q8_1_hip4           mul_mat_vec with 4 q8_1 vectors
    mul_mat_q4_0                         mul_mat with q8_1 vectors
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from vkbench.case import Case
from vkbench_shaders.catalogue import kernel_named
from vkbench_shaders.kernel import Variant
from vkbench_tables.table import Column, Rank, Table, ValueKind

WEIGHTS: Final = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_K", "q3_K", "q4_K", "q5_K", "q6_K")
DECODED: Final = (*WEIGHTS, "q8_K")
MOST_COLUMNS: Final = 8
_SIZES: Final = {"b": 1, "m": 4096, "n": 512, "k": 14336}  # of the case that each is timed on


@dataclass(frozen=True, kw_only=True)
class RocmKernel:
    """One name of that grid."""

    name: str
    kernel: str  # of the catalogue
    format: str  # the one in the name
    types: Mapping[str, str] = field(default_factory=dict)  # formats of bindings by name
    n: int | None = None  # columns that the name says, if it does

    @cached_property
    def case(self) -> Case:
        """Its case in the catalogue, of the sizes that products are timed on."""
        kernel = kernel_named(self.kernel)
        sizes = {**_SIZES, **({"n": self.n} if self.n else {})}
        return kernel.case(self.types, {dim: sizes[dim] for dim in kernel.dims})

    @cached_property
    def variants(self) -> list[Variant]:
        """Its code paths, best first."""
        kernel = kernel_named(self.kernel)
        types = {kernel.bindings[0].name: self.case.format, **self.case.types}
        full = next(each for each in kernel.type_choices() if types.items() <= each.items())
        return kernel.variants_for(full)


def _grid() -> Iterator[RocmKernel]:
    yield RocmKernel(
        name="quantize_q8_1", kernel="quantize", format="q8_1", types={"x": "f32", "y": "q8_1"}
    )
    for fmt in DECODED:
        for y in ("f32", "f16"):
            types = {"weights": fmt, "y": y}
            name = f"dequantize_block_{fmt}_{y}"
            yield RocmKernel(name=name, kernel="dequantize", format=fmt, types=types)
    for fmt in WEIGHTS:
        types = {"weights": fmt, "x": "f32"}
        name = f"dequantize_mul_mat_vec_{fmt}"
        yield RocmKernel(name=name, kernel="mul_mat_vec", format=fmt, types=types, n=1)
    for fmt in WEIGHTS:
        types = {"weights": fmt, "x": "q8_1"}
        for n in range(1, MOST_COLUMNS + 1):
            name = f"mul_mat_vec_{fmt}_q8_1_hip{n}"
            yield RocmKernel(name=name, kernel="mul_mat_vec", format=fmt, types=types, n=n)
    for fmt in WEIGHTS:
        types = {"weights": fmt, "x": "q8_1"}
        yield RocmKernel(name=f"mul_mat_{fmt}", kernel="mul_mat", format=fmt, types=types)


GRID: Final = tuple(_grid())


def table() -> Table:
    """The kernels of the grid by their names, and what they are here."""
    columns = (
        Column(key="name", heading="ROCm kernel", rank=Rank.KEY),
        Column(key="kernel", heading="kernel"),
        Column(key="format", heading="format", rank=Rank.KEY),
        Column(key="x", heading="x"),
        Column(key="y", heading="y"),
        Column(key="n", heading="n", kind=ValueKind.COUNT),
        Column(key="variants", heading="variants"),
        Column(key="case", heading="case"),
    )
    rows = [
        {
            "name": kernel.name,
            "kernel": kernel.kernel,
            "format": kernel.format,
            "x": kernel.types.get("x"),
            "y": kernel.types.get("y"),
            "n": kernel.n,
            "variants": [variant.name for variant in kernel.variants],
            "case": kernel.case.name,
        }
        for kernel in GRID
    ]
    return Table(columns=columns, rows=rows)
