"""A model as steps: each one a case of the catalogue, and which values its bindings are.

A graph is of one phase: so many tokens at once, over so many positions of the cache. Where the
tokens stand is data (see `Inputs`), so that one recording of a graph serves all places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.formats import Format, format_named
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.kernel import Array, Problem
from vkbench_shaders.models.recurrent.memory import StateRows, Turn

TOKENS: Final = "tokens"  # names of what a phase is given
POSITIONS: Final = "positions"
ROWS: Final = "rows"
MASK: Final = "mask"
WINDOW: Final = "window"
WANTED: Final = "wanted"
UNREAD: Final = "unread"  # bound where a kernel reads nothing
HEADS: Final = "heads"  # of a token, from 0 on
PAIRS: Final = "pairs"  # (1, 0) each, which rope makes cosines and sines of
LOGITS: Final = "logits"
EMBEDDING: Final = "embedding"  # what encoders make in place of logits
LEAST_LENGTH: Final = 32  # positions that a phase looks at
CACHES: Final = ("f16", "bf16", "q8_0", "q4_0")  # formats of keys and values


@dataclass(frozen=True, kw_only=True)
class Products:
    """How products with few vectors are made."""

    # weights of a matrix of blocks from which on its vectors are rounded to bytes; None: never.
    # Steps that round what they make do so for matrices of any size.
    rounds_from: int | None = None
    # whether norms and gated units are made by the products beside them, and what comes before
    # attention to a single token by attention itself
    joins: bool = False


AS_NUMBERS: Final = Products()  # without rounding


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What a graph does in one go."""

    tokens: int  # of each sequence
    length: int  # positions of the cache that are looked at
    batch: int = 1  # sequences
    capacity: int = 0  # positions of the cache; 0: length
    cache: str = "f16"  # its format
    wanted: int = 0  # tokens, of all sequences, whose logits are made; 0: all
    products: Products = AS_NUMBERS
    kept: tuple[int, ...] = ()  # layers whose input and output can be read afterwards

    @property
    def count(self) -> int:
        """Tokens of all sequences."""
        return self.tokens * self.batch

    @property
    def room(self) -> int:
        """Positions of a sequence's cache."""
        return self.capacity or self.length


def length_of(positions: int) -> int:
    """Positions that a phase looks at for so many: a power of two."""
    return max(LEAST_LENGTH, 1 << max(0, positions - 1).bit_length())


def phase_at(
    tokens: int, until: int, *, batch: int, context: int, cache: str, products: Products
) -> Phase:
    """The phase that reads so many tokens of each sequence, the last one before `until`.

    The sequences of a batch lie a whole context apart, and all of it is looked at.
    """
    room = length_of(context)
    return Phase(
        tokens=tokens,
        length=room if batch > 1 else min(room, length_of(until)),
        batch=batch,
        capacity=room,
        cache=cache,
        products=products,
    )


@dataclass(frozen=True, kw_only=True)
class Part:
    """Rows of a tensor of the file."""

    tensor: str
    first: int = 0
    rows: int = 0  # 0: all of them


@dataclass(frozen=True, kw_only=True)
class Weight:
    """What a kernel is given of the file: parts of one format, one behind the other."""

    parts: tuple[Part, ...]
    format: str
    # that each part consists of: the parts' first ones lie together, then their second ones
    matrices: int = 1

    @property
    def name(self) -> str:
        parts = "+".join(f"{part.tensor}[{part.first}:{part.rows}]" for part in self.parts)
        return f"{parts} by {self.matrices}" if self.matrices > 1 else parts

    def bytes(self, file: GgufFile) -> int:
        """What it takes on a device."""
        fmt = format_named(self.format)
        sizes = (extent(file, part) for part in self.parts)
        return sum(rows * fmt.items(width) * fmt.dtype.itemsize for rows, width in sizes)


def extent(file: GgufFile, part: Part) -> tuple[int, int]:
    """Rows and columns of a part; a tensor of one dimension is one row, and a part some of it."""
    shape = file.tensor(part.tensor).shape
    if len(shape) == 1:
        return 1, part.rows or shape[0]
    return part.rows or prod(shape[:-1]), shape[-1]


@dataclass(frozen=True, kw_only=True)
class Step:
    """A case, and the values that it reads and writes."""

    label: str  # what it is in the model: attn_q, ffn_down
    layer: int  # -1 outside of layers
    problem: Problem
    bound: Mapping[str, str]  # binding -> value
    variant: str = ""  # code path; "": what should be the fastest

    @property
    def reads(self) -> list[str]:
        return [self.bound[b.name] for b in self.problem.kernel.bindings if b.is_input]

    @property
    def writes(self) -> list[str]:
        return [self.bound[b.name] for b in self.problem.kernel.bindings if b.is_output]


@dataclass(frozen=True, kw_only=True)
class Graph:
    """The steps of a phase, in an order in which each finds what it reads."""

    phase: Phase
    steps: Sequence[Step]
    inputs: Mapping[str, Format]  # that the caller fills: name -> format
    sizes: Mapping[str, int]  # bytes of each value that is no weight
    caches: Sequence[str]
    weights: Mapping[str, Weight]
    streams: Sequence[str]  # the values between layers: layer i makes i + 1 of i
    kept: Sequence[str]  # values that stay until the end
    constants: Mapping[str, Array] = field(default_factory=dict)  # inputs that are always the same
    states: Mapping[str, StateRows] = field(default_factory=dict)  # inputs that follow from a turn

    @property
    def bytes_moved(self) -> int:
        """Bytes that one run moves: what each step reads and writes."""
        return sum(step.problem.bytes_moved for step in self.steps)

    @property
    def flops(self) -> int:
        return sum(step.problem.flops for step in self.steps)


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What a graph is given for tokens at some place."""

    tokens: NDArray[np.integer]  # (batch, tokens)
    start: int  # position of the first one
    turn: Turn = field(default_factory=Turn)  # where states of the tokens before lie

    def arrays(self, graph: Graph, window: int) -> dict[str, Array]:
        """An array for each input of a graph whose window layers see so many positions."""
        phase = graph.phase
        batch, count = self.tokens.shape
        positions = np.arange(self.start, self.start + count)
        rows = (np.arange(batch)[:, None] * phase.room + positions).reshape(-1)
        known = np.arange(phase.length)
        hidden = known > positions[:, None]
        arrays = {
            TOKENS: self.tokens.reshape(-1).astype(np.int32),
            POSITIONS: positions.astype(np.int32),
            ROWS: rows.astype(np.int32),
            MASK: _mask(hidden),
            WINDOW: _mask(hidden | (known <= positions[:, None] - window)),
            WANTED: np.arange(count - 1, batch * count, count).astype(np.int32),
            UNREAD: np.zeros(4, np.float32),
            **graph.constants,
            **{name: rows.numbers(batch, self.turn) for name, rows in graph.states.items()},
        }
        return {name: arrays[name] for name in graph.inputs}


def _mask(hidden: NDArray[np.bool_]) -> Array:
    return np.where(hidden, np.float16(-np.inf), np.float16(0))
