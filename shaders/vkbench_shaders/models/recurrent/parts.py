"""What layers with states are made of, whatever the recurrence: tables of states, rows, vectors."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Value
from vkbench_shaders.models.graph import Part, Weight
from vkbench_shaders.models.layer_parts import LayerParts
from vkbench_shaders.models.recurrent.memory import SLOTS, StateRows


class RecurrentParts(LayerParts):
    """Builds what layers with states share."""

    def combine(self, label: str, kernel: str, a: str, b: str) -> str:
        """Two vectors of each token, number by number."""
        return self.step(label, kernel, self.grid(self.sizes[a] // 4 // self.count), a=a, b=b)["y"]

    def combine_row(self, label: str, kernel: str, x: str, name: str, row: int = -1) -> str:
        """Each token's vector and one of this layer's weights: a row of a tensor, or all of it."""
        part = Part(tensor=f"blk.{self.layer}.{name}", first=max(row, 0), rows=int(row >= 0))
        weight = self.use_weight(Weight(parts=(part,), format="f32"))
        by: dict[str, Value] = {"broadcast": "row"}
        shape = self.grid(self.sizes[x] // 4 // self.count)
        return self.step(label, kernel, shape, by, a=x, b=weight)["y"]

    def pick_rows(self, label: str, x: str, rows: int, width: int, ids: NDArray[np.integer]) -> str:
        """Rows of a value, by numbers that are always the same."""
        bound = {"table": x, "ids": self.fixed_ids(label, ids)}
        return self.step(label, "get_rows", (rows, ids.size, width), {}, {"table": "f32"}, **bound)[
            "y"
        ]

    def fixed_ids(self, name: str, ids: NDArray[np.integer]) -> str:
        """An input of numbers that are always the same."""
        made = self.input(name, "i32", ids.size)
        self.constants[made] = ids.astype(np.int32).reshape(-1)
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
        each, *others = self.state_sizes[name]
        count, width = self.phase.batch * each, prod(others)
        rows, state = StateRows(each=each, is_read=is_read), f"state.{name}.{self.layer}"
        if state not in self.caches:
            self.caches.append(state)
            self.sizes[state] = SLOTS * count * width * 4
        self.states[self.input(rows.name, "i32", count)] = rows
        return (SLOTS * count, count, width), state, rows.name
