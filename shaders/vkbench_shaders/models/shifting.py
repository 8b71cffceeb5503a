"""Graphs that shift caches, and what they are given.

A cache is shifted where its context is full: the oldest positions are dropped, what is left moves
to the front, and keys are turned back, so that the text can go on without being read again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from vkbench.errors import UsageError
from vkbench_shaders.formats import Array
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.models.graph import POSITIONS, ROWS, UNREAD, Graph, Phase
from vkbench_shaders.models.heads import HeadParts
from vkbench_shaders.models.hyper import Hyper

SOURCES: Final = "sources"  # the rows of a cache that move


def shift_graph_of(file: GgufFile, hyper: Hyper, phase: Phase) -> Graph:
    """The steps that move `phase.tokens` positions of each sequence; UsageError if none can be."""
    if hyper.recurrent:
        raise UsageError(
            f"{file.path}: the model's layers keep one state of all tokens, so "
            "no token can be dropped from it"
        )
    if not hyper.rope:
        raise UsageError(f"{file.path}: positions are learnt, so that caches cannot be shifted")
    shifting = _Shifting(file, hyper.turned_back, phase)
    for layer in range(hyper.layers):
        shifting.layer = layer
        shifting.move_rows("k", hyper.key_size)
        shifting.move_rows("v", hyper.value_size)
    return replace(shifting.graph(), kept=())


def shift_arrays(phase: Phase, dropped: int) -> dict[str, Array]:
    """What such a graph is given, to drop so many positions."""
    count = phase.tokens
    rows = (np.arange(phase.batch)[:, None] * phase.room + np.arange(count)).reshape(-1)
    return {
        SOURCES: (rows + dropped).astype(np.int32),
        ROWS: rows.astype(np.int32),
        POSITIONS: np.full(count, -dropped, np.int32),
        UNREAD: np.zeros(4, np.float32),
    }


class _Shifting(HeadParts):
    """Rows of caches, read, turned if they are keys, and written elsewhere."""

    def move_rows(self, name: str, size: int) -> None:
        phase, width = self.phase, self.hyper.groups * size
        rows = phase.batch * phase.room
        ids = self.input(SOURCES, "i32", self.count)
        x = self.step(
            f"shift_{name}",
            "get_rows",
            (rows, self.count, width),
            {},
            {"table": phase.cache},
            table=f"cache.{name}.{self.layer}",
            ids=ids,
        )["y"]
        self.store_vectors(
            name, self.turn_heads(name, x, self.hyper.groups) if name == "k" else x, size
        )
