"""Steps of a graph, one behind the other: products, norms and operations on each number.

Vectors of all tokens are the rows of a matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Value
from vkbench_shaders import catalogue
from vkbench_shaders.formats import Format, format_named
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.kernel import Array, Problem
from vkbench_shaders.kernels.rowwise import norm_rounded
from vkbench_shaders.models.graph import (
    MASK,
    UNREAD,
    WINDOW,
    Graph,
    Part,
    Phase,
    Step,
    Weight,
    extent,
)
from vkbench_shaders.models.hyper import Hyper
from vkbench_shaders.models.recurrent.memory import SLOTS, StateRows

MOST_VECTORS: Final = 8  # that are multiplied without tiles
BLOCK: Final = 32  # numbers that are rounded together
NUMBERS: Final = "f32"  # forms of vectors: what dense matrices multiply
BYTES: Final = "q8_1"  # what quantised ones multiply where rounding pays
ROUNDING: Final = "via_q8_1"  # the code path of products that rounds vectors to bytes


@dataclass(frozen=True, kw_only=True)
class Due:
    """A product of a layer that is not made yet, so that the norm behind it may be part of it."""

    layer: int
    name: str
    x: str


class Builder:
    """A graph that grows by steps."""

    def __init__(self, file: GgufFile, hyper: Hyper, phase: Phase) -> None:
        self.file, self.hyper, self.phase = file, hyper, phase
        self.count = phase.count
        self.layer = -1
        self.steps: list[Step] = []
        self.sizes: dict[str, int] = {}
        self.formats: dict[str, str] = {}  # of what steps make
        self.squares: dict[str, str] = {}  # of vectors that products divide by their size
        self.inputs: dict[str, Format] = {}
        self.constants: dict[str, Array] = {}  # inputs that are always the same
        self.states: dict[str, StateRows] = {}  # inputs that say where states lie
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
            kept=(self.hyper.architecture.makes, *sorted(kept)),
            constants=self.constants,
            states=self.states,
        )

    def normalise_rows(
        self,
        name: str,
        x: str,
        branch: str | Due = "",
        rows: int = 0,
        width: int = 0,
        readers: Sequence[str] = (),
    ) -> tuple[str, str]:
        """(x plus the branch, that normalised), rounded if the matrices that read it allow that."""
        prefix = f"blk.{self.layer}." if self.layer >= 0 else ""
        kernel, shape = self.hyper.architecture.norm, self.grid(width or self.hyper.width, rows)
        form = self.form(*readers) if kernel == "rms_norm" else ""
        if isinstance(branch, Due) and self._joins(branch, form):
            return self._joined_norm(x, branch, self.weight(f"{prefix}{name}.weight", "f32"))
        branch = self.resolve_branch(branch)
        if form == BYTES and shape[-1] <= norm_rounded.MOST:
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
            "biases": self.weight(f"{prefix}{name}.bias", "f32") if biased else self.unread_input(),
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

    def _joins(self, branch: Due, form: str) -> bool:
        """Whether a product can add and multiply, too, and leave vectors of a form."""
        name = f"blk.{branch.layer}.{branch.name}"
        has_bias = f"{name}.bias" in self.file.tensors
        return not has_bias and self.joins(branch.x, self.whole_tensor(f"{name}.weight"), form)

    def joins(self, x: str, weight: Weight, form: str) -> bool:
        """Whether a product may do more than multiply: it reads and leaves vectors of its form."""
        own = BYTES if format_named(weight.format).quantised else NUMBERS
        return self.phase.products.joins and own == form == self.formats.get(x)

    def _joined_norm(self, x: str, branch: Due, factors: str) -> tuple[str, str]:
        weight = self.whole_tensor(name := f"blk.{branch.layer}.{branch.name}.weight")
        with self.in_layer(branch.layer):
            made = self.step(
                branch.name,
                self.joined_kernel("add", branch.x),
                (self.hyper.width, self.count, self.file.tensor(name).shape[-1]),
                {},
                {"weights": weight.format},
                weights=self.use_weight(weight),
                x=branch.x,
                residual=x,
                factors=factors,
            )
        self.squares[made["y"]] = made["squares"]
        return made["sum"], made["y"]

    def joined_kernel(self, what: str, x: str) -> str:
        """The product that does more, and leaves vectors of the form of those that it reads."""
        suffix = f"_{BYTES}" if self.formats[x] == BYTES else ""
        return f"mul_mat_vec_{what}{suffix}"

    def postpone_product(self, name: str, x: str) -> Due:
        """A product of this layer that is made later."""
        return Due(layer=self.layer, name=name, x=x)

    def resolve_branch(self, branch: str | Due) -> str:
        """What a product makes, if it is one."""
        if isinstance(branch, str):
            return branch
        with self.in_layer(branch.layer):
            return self.product(branch.name, branch.x)

    @contextmanager
    def in_layer(self, layer: int) -> Iterator[None]:
        self.layer, now = layer, self.layer
        yield
        self.layer = now

    def form(self, *names: str) -> str:
        """What the step before these matrices should make for all of them: blocks or numbers.

        "" where they differ, or where so many vectors take tiles, which nothing is joined to.
        """
        if self.rounds(*names):
            return BYTES
        tensors = [self.file.tensor(name) for name in names]
        is_dense = all(tensor.format and not tensor.format.quantised for tensor in tensors)
        return NUMBERS if names and is_dense and self.count <= MOST_VECTORS else ""

    def rounds(self, *names: str) -> bool:
        """Whether the step before these matrices rounds the vectors that they multiply.

        That costs no launch, so it is done for matrices of any size.
        """
        if not names or self.phase.products.rounds_from is None or self.count > MOST_VECTORS:
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
        weight = self.whole_tensor(f"blk.{self.layer}.{name}.weight")
        if rows:
            part = replace(weight.parts[0], first=first, rows=rows)
            weight = replace(weight, parts=(part,))
        return self.multiply_by(name, x, weight, bias=self.bias(f"blk.{self.layer}.{name}.bias"))

    def bias(self, name: str) -> str:
        return name if name in self.file.tensors else ""

    def multiply_by(
        self, label: str, x: str, weight: Weight, result: str = "", bias: str = ""
    ) -> str:
        made = self._times(label, x, weight, "" if bias else result)
        if not bias:
            return made
        part = replace(weight.parts[0], tensor=bias)
        added = self.use_weight(Weight(parts=(part,), format="f32"))
        params: dict[str, Value] = {"broadcast": "row"}
        shape = self.grid(self.shape_of(weight)[0])
        return self.step(f"{label}_bias", "add", shape, params, result=result, a=made, b=added)["y"]

    def _times(self, label: str, x: str, weight: Weight, result: str) -> str:
        m, k = self.shape_of(weight)
        shape, used = (m, self.count, k), self.use_weight(weight)
        if x in self.squares:
            params: dict[str, Value] = {"eps": self.hyper.eps}
            types = {"weights": weight.format, "x": self.formats[x]}
            bound = {"weights": used, "x": x, "squares": self.squares[x]}
            return self.step(
                label, "mul_mat_vec_rms", shape, params, types, result=result, **bound
            )["y"]
        kernel = "mul_mat_vec" if self.count <= MOST_VECTORS else "mul_mat"
        given = self.formats.get(x, "f32")
        return self.step(
            label,
            kernel,
            shape,
            {},
            {"weights": weight.format, "x": given},
            result=result,
            variant=self.path(weight.format, m * k) if given == "f32" else "",
            weights=used,
            x=x,
        )["y"]

    def shape_of(self, weight: Weight) -> tuple[int, int]:
        """Rows of all its parts, and columns."""
        sizes = [extent(self.file, part) for part in weight.parts]
        return sum(rows for rows, _ in sizes), sizes[0][1]

    def path(self, weights: str, size: int) -> str:
        """The code path of a product with so many weights: where it pays, bytes for vectors."""
        least = self.phase.products.rounds_from
        is_few = self.count <= MOST_VECTORS and format_named(weights).quantised
        return ROUNDING if is_few and least is not None and size >= least else ""

    def map_numbers(
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
        declared = catalogue.kernel_named(kernel)
        sizes = dict(zip(declared.dims, shape, strict=True))
        case = declared.case(types or {}, sizes, params or {})
        problem = Problem(declared, case)
        made = {
            binding.name: result or f"{len(self.steps)}.{label}.{binding.name}"
            for binding in declared.bindings
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

    def whole_tensor(self, name: str) -> Weight:
        fmt = self.file.tensor(name).format
        assert fmt
        return Weight(parts=(Part(tensor=name),), format=fmt.name)

    def weight(self, name: str, fmt: str) -> str:
        """All of a tensor, in a format that it may have to be brought to."""
        return self.use_weight(Weight(parts=(Part(tensor=name),), format=fmt))

    def use_weight(self, weight: Weight) -> str:
        self.weights[weight.name] = weight
        return weight.name

    def input(self, name: str, fmt: str, width: int) -> str:
        """What the caller gives: masks have a row for each token."""
        form = format_named(fmt)
        shape = (self.phase.tokens, width) if name in (MASK, WINDOW) else (width,)
        self.inputs[name] = form
        self.sizes[name] = prod(shape) * form.dtype.itemsize
        return name

    def unread_input(self) -> str:
        return self.input(UNREAD, "f32", 4)

    def pick_rows(self, label: str, x: str, rows: int, width: int, ids: NDArray[np.integer]) -> str:
        """Rows of a value, by numbers that are always the same."""
        bound = {"table": x, "ids": self.fixed_ids(label, ids)}
        return self.step(label, "get_rows", (rows, ids.size, width), {}, {"table": "f32"}, **bound)[
            "y"
        ]

    def fixed_ids(self, name: str, ids: NDArray[np.integer]) -> str:
        """An input of numbers that are always the same."""
        made = self.input(name, "i32", ids.size)
        numbers = ids.astype(np.int32).reshape(-1)
        assert np.array_equal(self.constants.setdefault(made, numbers), numbers), made
        return made

    def read_state(self, name: str) -> str:
        """What the tokens before left of that name."""
        shape, state, ids = self.place_state(name, is_read=True)
        types = {"table": "f32"}
        return self.step(f"{name}_before", "get_rows", shape, {}, types, table=state, ids=ids)["y"]

    def leave_state(self, name: str, x: str) -> None:
        """Store what the next tokens go on from."""
        shape, state, ids = self.place_state(name, is_read=False)
        self.step(f"{name}_behind", "set_rows", shape, {}, {"y": "f32"}, x=x, y=state, ids=ids)

    @property
    def state_sizes(self) -> Mapping[str, tuple[int, ...]]:
        """The sizes of what a sequence leaves in a layer."""
        assert self.hyper.recurrent
        return self.hyper.recurrent.states

    def place_state(self, name: str, *, is_read: bool) -> tuple[tuple[int, int, int], str, str]:
        """Sizes of a table of this layer's states, its name, and which rows a turn has."""
        height, *others = self.state_sizes[name]
        count = self.phase.batch * height
        table, rows = self.table_of(name), self.rows_of_turn(height, is_read=is_read)
        return (SLOTS * count, count, prod(others)), table, rows

    def table_of(self, name: str) -> str:
        """The table of this layer's states of that name, all of one sequence side by side."""
        table = f"state.{name}.{self.layer}"
        if table not in self.caches:
            self.caches.append(table)
            self.sizes[table] = SLOTS * self.phase.batch * prod(self.state_sizes[name]) * 4
        return table

    def rows_of_turn(self, height: int, *, is_read: bool) -> str:
        """The rows of tables that a turn reads, or leaves: so many of each sequence."""
        rows = StateRows(height=height, is_read=is_read)
        self.states[self.input(rows.name, "i32", self.phase.batch * height)] = rows
        return rows.name
