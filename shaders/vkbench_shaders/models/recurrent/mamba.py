"""Layers of Mamba: a convolution over the last tokens, a scan whose state goes on, and a gate."""

from __future__ import annotations

from math import gcd, prod

import numpy as np

from vkbench.case import Value
from vkbench_shaders.models.building import Due
from vkbench_shaders.models.layer_parts import LayerParts
from vkbench_shaders.models.recurrent.memory import SLOTS, StateRows
from vkbench_shaders.models.recurrent.sizes import Recurrent


class MambaParts(LayerParts):
    """Builds layers in which each token leaves a state to the next one."""

    def recurrent_layer(self, x: str, branch: str | Due) -> tuple[str, str | Due]:
        """A layer's input, and what is to be added to it."""
        x, y = self.normalise_rows("attn_norm", x, branch, readers=self.of_layer("ssm_in"))
        self.streams.append(x)
        scan = self.mamba if self.recurrent.rank else self.mamba2
        return x, self.postpone_product("ssm_out", scan(y))

    @property
    def recurrent(self) -> Recurrent:
        """The sizes of these layers."""
        assert self.hyper.recurrent
        return self.hyper.recurrent

    def mamba(self, y: str) -> str:
        """What the last matrix of a Mamba-1 layer reads: each number has decays of its own."""
        sizes = self.recurrent
        x = self.convolve(self.product("ssm_in", y, 0, sizes.inner))
        gate = self.product("ssm_in", y, sizes.inner, sizes.inner)
        short = self.product("ssm_x", x, 0, sizes.rank)
        b, c = (self.product("ssm_x", x, sizes.rank + at, sizes.keys) for at in (0, sizes.keys))
        made = self.scan(x, b, c, self.product("ssm_dt", short), {"decay": "each"})
        direct = self.step(
            "ssm_d", "mul", self.grid(sizes.inner), {"broadcast": "row"}, a=x, b=self.factors("d")
        )["y"]
        return self.gate(gate, made, direct)

    def mamba2(self, y: str) -> str:
        """What the last matrix of a Mamba-2 layer reads: each head has one decay."""
        sizes = self.recurrent
        gate = self.product("ssm_in", y, 0, sizes.inner)
        convolved = self.convolve(self.product("ssm_in", y, sizes.inner, sizes.channels))
        steps = self.product("ssm_in", y, sizes.inner + sizes.channels, sizes.heads)
        row: dict[str, Value] = {"broadcast": "row"}
        bias = self.weight(f"blk.{self.layer}.ssm_dt.bias", "f32")
        dt = self.step("ssm_dt_bias", "add", self.grid(sizes.heads), row, a=steps, b=bias)["y"]
        x = self.pick_columns("ssm_values", convolved, 0, sizes.inner)
        b = self.pick_columns("ssm_b", convolved, sizes.inner, sizes.shared)
        c = self.pick_columns("ssm_c", convolved, sizes.inner + sizes.shared, sizes.shared)
        made = self.scan(x, b, c, dt, {})
        heads, by = (self.count, sizes.heads, 1, sizes.head), {"broadcast": "channel"}
        direct = self.step("ssm_d", "mul", heads, by, a=x, b=self.factors("d"))["y"]
        return self.norm_groups(self.gate(gate, made, direct))

    def factors(self, name: str) -> str:
        """A tensor of the scan, whose name has nothing behind it."""
        return self.weight(f"blk.{self.layer}.ssm_{name}", "f32")

    def gate(self, gate: str, made: str, direct: str) -> str:
        """What the scan made, and what goes beside it, times silu of a gate."""
        shape = self.grid(self.recurrent.inner)
        y = self.step("ssm_sum", "add", shape, a=made, b=direct)["y"]
        return self.step("ssm_gate", "swiglu_split", shape, a=gate, b=y)["y"]

    def norm_groups(self, x: str) -> str:
        """Each group of heads normalised, by weights of its own."""
        sizes = self.recurrent
        if sizes.groups == 1:
            readers = self.of_layer("ssm_out")
            return self.normalise_rows("ssm_norm", x, width=sizes.inner, readers=readers)[1]
        shape = self.grid(sizes.inner // sizes.groups, self.count * sizes.groups)
        unread = self.unread_input()
        bound = {"x": x, "weights": unread, "biases": unread}
        y = self.step("ssm_norm", "rms_norm", shape, {"eps": self.hyper.eps}, **bound)["y"]
        row: dict[str, Value] = {"broadcast": "row"}
        weights = self.weight(f"blk.{self.layer}.ssm_norm.weight", "f32")
        return self.step("ssm_norm_weights", "mul", self.grid(sizes.inner), row, a=y, b=weights)[
            "y"
        ]

    def convolve(self, x: str) -> str:
        """Each channel's numbers of a token and of those before it, weighed and added, by silu."""
        sizes, phase = self.recurrent, self.phase
        channels, kept = sizes.channels, sizes.taps - 1
        before = self.read_state("conv")
        rows = kept + phase.tokens
        shape = (phase.batch, 1, kept, channels, phase.tokens)
        joined = self.step("ssm_joined", "concat", shape, {"axis": "h"}, a=before, b=x)["y"]
        last = np.arange(phase.batch)[:, None] * rows + np.arange(phase.tokens, rows)
        left = self.pick_rows("ssm_last", joined, phase.batch * rows, channels, last)
        self.leave_state("conv", left)
        turned = self.step("ssm_turned", "transpose", (phase.batch, rows, channels), x=joined)["y"]
        return self.step(
            "ssm_conv1d",
            "ssm_conv",
            (phase.batch, channels, phase.tokens, sizes.taps),
            {"bias": "yes", "activation": "silu"},
            x=turned,
            weights=self.weight(f"blk.{self.layer}.ssm_conv1d.weight", "f32"),
            bias=self.weight(f"blk.{self.layer}.ssm_conv1d.bias", "f32"),
        )["y"]

    def scan(self, x: str, b: str, c: str, dt: str, params: dict[str, Value]) -> str:
        """What a scan makes of tokens; it goes on from the state, and leaves another."""
        sizes, phase = self.recurrent, self.phase
        made = self.step(
            "ssm_scan",
            "ssm_scan",
            (phase.batch, phase.tokens, sizes.heads, sizes.groups, sizes.head, sizes.keys),
            params,
            v=x,
            state=self.read_state("scan"),
            b=b,
            c=c,
            dt=dt,
            a=self.factors("a"),
            ids=self.fixed_ids("sequences", np.arange(phase.batch)),
        )
        self.leave_state("scan", made["next_state"])
        return made["y"]

    def pick_columns(self, label: str, x: str, first: int, width: int) -> str:
        """Some numbers of each token: whole parts of its vector, as rows of a table of parts."""
        sizes = self.recurrent
        part = gcd(sizes.inner, sizes.keys)
        whole = sizes.channels // part
        parts = np.arange(first // part, (first + width) // part)
        ids = np.arange(self.count)[:, None] * whole + parts
        return self.pick_rows(label, x, self.count * whole, part, ids)

    def pick_rows(self, label: str, x: str, rows: int, width: int, ids: np.ndarray) -> str:
        """Rows of a value, by numbers that are always the same."""
        bound = {"table": x, "ids": self.fixed_ids(label, ids)}
        return self.step(label, "get_rows", (rows, ids.size, width), {}, {"table": "f32"}, **bound)[
            "y"
        ]

    def fixed_ids(self, name: str, ids: np.ndarray) -> str:
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

    def place_state(self, name: str, *, is_read: bool) -> tuple[tuple[int, int, int], str, str]:
        """Sizes of a table of this layer's states, its name, and which rows a turn has."""
        each, *others = self.recurrent.states[name]
        count, width = self.phase.batch * each, prod(others)
        rows, state = StateRows(each=each, is_read=is_read), f"state.{name}.{self.layer}"
        if state not in self.caches:
            self.caches.append(state)
            self.sizes[state] = SLOTS * count * width * 4
        self.states[self.input(rows.name, "i32", count)] = rows
        return (SLOTS * count, count, width), state, rows.name
