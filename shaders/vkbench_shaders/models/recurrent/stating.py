"""Steps that read states of layers and leave others, and the tables where states lie."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from vkbench_shaders.models.building import Builder
from vkbench_shaders.models.recurrent.memory import SLOTS, StateRows


class StateParts(Builder):
    """Builds what layers with states share."""

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
