"""Steps of a graph, one behind the other: products, norms and operations on each number.

Vectors of all tokens are the rows of a matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

from vkbench.case import Value
from vkbench_shaders import catalogue
from vkbench_shaders.formats import Format, format_named
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.kernel import Problem
from vkbench_shaders.kernels.rowwise import norm_rounded
from vkbench_shaders.models.graph import (
    LOGITS,
    MASK,
    UNREAD,
    WINDOW,
    Graph,
    Part,
    Phase,
    Step,
    Weight,
)
from vkbench_shaders.models.hyper import Hyper

MOST_VECTORS: Final = 8  # that are multiplied without tiles
BLOCK: Final = 32  # numbers that are rounded together
ROUNDING: Final = "via_q8_1"  # the code path of products that rounds vectors to bytes


class Builder:
    """A graph that grows by steps."""

    def __init__(self, file: GgufFile, hyper: Hyper, phase: Phase) -> None:
        self.file, self.hyper, self.phase = file, hyper, phase
        self.count = phase.count
        self.layer = -1
        self.steps: list[Step] = []
        self.sizes: dict[str, int] = {}
        self.formats: dict[str, str] = {}  # of what steps make
        self.inputs: dict[str, Format] = {}
        self.caches: list[str] = []
        self.weights: dict[str, Weight] = {}
        self.streams: list[str] = []

    def graph(self) -> Graph:
        kept = {self.streams[at] for layer in self.phase.kept for at in (layer, layer + 1)}
        return Graph(
            phase=self.phase,
            steps=tuple(self.steps),
            inputs=self.inputs,
            sizes=self.sizes,
            caches=tuple(self.caches),
            weights=self.weights,
            streams=tuple(self.streams),
            kept=(LOGITS, *sorted(kept)),
        )

    def normalised(
        self,
        name: str,
        x: str,
        branch: str = "",
        rows: int = 0,
        width: int = 0,
        readers: Sequence[str] = (),
    ) -> tuple[str, str]:
        """(x plus the branch, that normalised), rounded if the matrices that read it allow that."""
        prefix = f"blk.{self.layer}." if self.layer >= 0 else ""
        kernel, shape = self.hyper.architecture.norm, self.grid(width or self.hyper.width, rows)
        if kernel == "rms_norm" and shape[-1] <= norm_rounded.MOST and self.rounds(*readers):
            weights = self.weight(f"{prefix}{name}.weight", "f32")
            return self._rounded_norm(name, x, branch, shape, weights)
        if branch and kernel != "rms_norm":
            x, branch = self.step("residual", "add", shape, a=branch, b=x)["y"], ""
        biased = f"{prefix}{name}.bias" in self.file.tensors
        params: dict[str, Value] = {
            "eps": self.hyper.eps,
            "fused": "mul_add" if biased else "mul",
        }
        bound = {
            "x": branch or x,
            "weights": self.weight(f"{prefix}{name}.weight", "f32"),
            "biases": self.weight(f"{prefix}{name}.bias", "f32") if biased else self.unread(),
        }
        if not branch:
            return x, self.step(name, kernel, shape, params, {}, **bound)["y"]
        made = self.step(name, f"add_{kernel}", shape, params, {}, **bound, residual=x)
        return made["sum"], made["y"]

    def _rounded_norm(
        self, name: str, x: str, branch: str, shape: tuple[int, ...], weights: str
    ) -> tuple[str, str]:
        params: dict[str, Value] = {"eps": self.hyper.eps}
        if not branch:
            made = self.step(name, "rms_norm_q8_1", shape, params, x=x, weights=weights)
            return x, made["y"]
        bound = {"x": branch, "residual": x, "weights": weights}
        made = self.step(name, "add_rms_norm_q8_1", shape, params, {}, **bound)
        return made["sum"], made["y"]

    def rounds(self, *names: str) -> bool:
        """Whether the step before these matrices rounds the vectors that they multiply.

        That costs no launch, so it is done for matrices of any size.
        """
        if not names or self.phase.rounds_from is None or self.count > MOST_VECTORS:
            return False
        tensors = [self.file.tensor(name) for name in names]
        return all(
            tensor.format and tensor.format.quantised and tensor.shape[-1] % BLOCK == 0
            for tensor in tensors
        )

    def of_layer(self, *names: str) -> list[str]:
        """The names of those matrices that this layer has."""
        return [f"blk.{self.layer}.{name}.weight" for name in names if self.has(f"{name}.weight")]

    def product(self, name: str, x: str, first: int = 0, rows: int = 0) -> str:
        """Vectors times a matrix of this layer, or some rows of it, plus its bias."""
        weight = self.whole(f"blk.{self.layer}.{name}.weight")
        if rows:
            part = replace(weight.parts[0], first=first, rows=rows)
            weight = replace(weight, parts=(part,))
        return self.multiplied(name, x, weight, bias=self.bias(f"blk.{self.layer}.{name}.bias"))

    def bias(self, name: str) -> str:
        return name if name in self.file.tensors else ""

    def multiplied(
        self, label: str, x: str, weight: Weight, result: str = "", bias: str = ""
    ) -> str:
        tensors = [self.file.tensor(part.tensor) for part in weight.parts]
        counts = zip(weight.parts, tensors, strict=True)
        m, k = sum(part.rows or tensor.shape[0] for part, tensor in counts), tensors[0].shape[-1]
        kernel = "mul_mat_vec" if self.count <= MOST_VECTORS else "mul_mat"
        given = self.formats.get(x, "f32")
        made = self.step(
            label,
            kernel,
            (m, self.count, k),
            {},
            {"weights": weight.format, "x": given},
            result="" if bias else result,
            variant=self.path(weight.format, m * k) if given == "f32" else "",
            weights=self.used(weight),
            x=x,
        )["y"]
        if not bias:
            return made
        part = replace(weight.parts[0], tensor=bias)
        added = self.used(Weight(parts=(part,), format="f32"))
        params: dict[str, Value] = {"broadcast": "row"}
        return self.step(
            f"{label}_bias", "add", self.grid(m), params, result=result, a=made, b=added
        )["y"]

    def path(self, weights: str, size: int) -> str:
        """The code path of a product with so many weights: where it pays, bytes for vectors."""
        least = self.phase.rounds_from
        is_few = self.count <= MOST_VECTORS and format_named(weights).quantised
        return ROUNDING if is_few and least is not None and size >= least else ""

    def rows(self, table: str, ids: str, count: int) -> str:
        """Rows of a tensor by number."""
        weight = self.whole(table)
        m, k = self.file.tensor(table).shape
        bound = {"table": self.used(weight), "ids": self.input(ids, "i32", count)}
        return self.step(
            "embedding", "get_rows", (m, count, k), {}, {"table": weight.format}, **bound
        )["y"]

    def each(
        self,
        kernel: str,
        x: str,
        params: Mapping[str, Value] | None = None,
        width: int = 0,
        result: str = "",
    ) -> str:
        """An operation on each number."""
        width = width or self.sizes[x] // 4 // self.count
        return self.step(kernel, kernel, self.grid(width), params or {}, result=result, x=x)["y"]

    def step(
        self,
        label: str,
        kernel: str,
        shape: tuple[int, ...],
        params: Mapping[str, Value] | None = None,
        types: Mapping[str, str] | None = None,
        /,
        result: str = "",
        variant: str = "",
        **bound: str,
    ) -> dict[str, str]:
        """Add a step; the values that it makes, by binding."""
        found = catalogue.kernel_named(kernel)
        sizes = dict(zip(found.dims, shape, strict=True))
        case = found.case(types or {}, sizes, params or {})
        problem = Problem(found, case)
        made = {
            binding.name: result or f"{len(self.steps)}.{label}.{binding.name}"
            for binding in found.bindings
            if binding.access == "out"
        }
        for binding, name in made.items():
            self.sizes[name] = problem.layout(binding).storage * problem.item_bytes(binding)
            self.formats[name] = problem.types[binding]
        self.steps.append(
            Step(
                label=label,
                layer=self.layer,
                problem=problem,
                bound={**bound, **made},
                variant=variant,
            )
        )
        return made

    def grid(self, width: int, rows: int = 0) -> tuple[int, int, int, int]:
        return (1, 1, rows or self.count, width)

    def has(self, name: str) -> bool:
        """Whether this layer has a tensor."""
        return f"blk.{self.layer}.{name}" in self.file.tensors

    def whole(self, name: str) -> Weight:
        fmt = self.file.tensor(name).format
        assert fmt
        return Weight(parts=(Part(tensor=name),), format=fmt.name)

    def weight(self, name: str, fmt: str) -> str:
        """All of a tensor, in a format that it may have to be brought to."""
        return self.used(Weight(parts=(Part(tensor=name),), format=fmt))

    def used(self, weight: Weight) -> str:
        self.weights[weight.name] = weight
        return weight.name

    def input(self, name: str, fmt: str, width: int) -> str:
        """What the caller gives: masks have a row for each token."""
        found = format_named(fmt)
        shape = (self.phase.tokens, width) if name in (MASK, WINDOW) else (width,)
        self.inputs[name] = found
        self.sizes[name] = prod(shape) * found.dtype.itemsize
        return name

    def unread(self) -> str:
        return self.input(UNREAD, "f32", 4)
