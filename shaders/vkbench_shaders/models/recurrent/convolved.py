"""Layers that convolve the last tokens before a scan or a net: Mamba, and gated delta nets."""

from __future__ import annotations

from math import gcd, sqrt

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Value
from vkbench_shaders.models.building import BLOCK, BYTES, NUMBERS, Builder, Due
from vkbench_shaders.models.graph import Part, Weight
from vkbench_shaders.models.recurrent.memory import SLOTS
from vkbench_shaders.models.recurrent.sizes import Delta, Mamba


class Convolving(Builder):
    """Builds what layers with a convolution over tokens share."""

    def convolve(self, x: str) -> str:
        """Each channel's numbers of a token and of those before it, weighed and added, by silu."""
        phase, name = self.phase, f"blk.{self.layer}.ssm_conv1d"
        channels, taps = self.file.tensor(f"{name}.weight").shape
        kept = taps - 1
        before = self.read_state("conv")
        rows = kept + phase.tokens
        shape = (phase.batch, 1, kept, channels, phase.tokens)
        joined = self.step("ssm_joined", "concat", shape, {"axis": "h"}, a=before, b=x)["y"]
        last = np.arange(phase.batch)[:, None] * rows + np.arange(phase.tokens, rows)
        left = self.pick_rows("ssm_last", joined, phase.batch * rows, channels, last)
        self.leave_state("conv", left)
        turned = self.step("ssm_turned", "transpose", (phase.batch, rows, channels), x=joined)["y"]
        biased = self.has("ssm_conv1d.bias")
        params: dict[str, Value] = {"bias": "yes"} if biased else {}
        return self.step(
            "ssm_conv1d",
            "ssm_conv",
            (phase.batch, channels, phase.tokens, taps),
            {**params, "activation": "silu"},
            x=turned,
            weights=self.weight(f"{name}.weight", "f32"),
            bias=self.weight(f"{name}.bias", "f32") if biased else self.unread_input(),
        )["y"]

    def reads_at_once(self) -> bool:
        """Whether one step does to a single token all that is between a layer's products."""
        return self.phase.products.joins and self.phase.tokens == 1

    def turn(self) -> dict[str, str]:
        """The states that such a step reads, and those that it leaves."""
        return {
            "before": self.rows_of_turn(1, is_read=True),
            "behind": self.rows_of_turn(1, is_read=False),
        }

    def form_of_heads(self, head: int) -> str:
        """What such a step leaves to a layer's last matrix: blocks, or numbers."""
        is_rounded = head % BLOCK == 0 and self.rounds(*self.of_layer("ssm_out"))
        return BYTES if is_rounded else NUMBERS

    def pick_columns(self, label: str, x: str, first: int, width: int) -> str:
        """Some numbers of each token: whole parts of its vector, as rows of a table of parts."""
        whole = self.sizes[x] // 4 // self.count
        part = gcd(whole, first, width)
        return self.pick_parts(label, x, part, np.arange(first, first + width, part) // part)

    def pick_parts(self, label: str, x: str, part: int, chosen: NDArray[np.integer]) -> str:
        """Some parts of each token's vector, all of one length, in an order that is given."""
        whole = self.sizes[x] // 4 // self.count // part
        ids = np.arange(self.count)[:, None] * whole + chosen
        return self.pick_rows(label, x, self.count * whole, part, ids)


class MambaParts(Convolving):
    """Builds layers in which each token leaves a state to the next one."""

    def mamba_layer(self, x: str, branch: str | Due) -> tuple[str, str | Due]:
        """A layer's input, and what is to be added to it."""
        x, y = self.normalise_rows("attn_norm", x, branch, readers=self.of_layer("ssm_in"))
        self.streams.append(x)
        if self.mamba_sizes.rank:
            scan = self.mamba_token if self.reads_at_once() else self.mamba
        else:
            scan = self.mamba2_token if self.reads_at_once() else self.mamba2
        return x, self.postpone_product("ssm_out", scan(y))

    @property
    def mamba_sizes(self) -> Mamba:
        """The sizes of these layers."""
        assert isinstance(self.hyper.recurrent, Mamba)
        return self.hyper.recurrent

    def mamba(self, y: str) -> str:
        """What the last matrix of a Mamba-1 layer reads: each number has decays of its own."""
        sizes = self.mamba_sizes
        x = self.convolve(self.product("ssm_in", y, 0, sizes.inner))
        gate = self.product("ssm_in", y, sizes.inner, sizes.inner)
        short = self.product("ssm_x", x, 0, sizes.rank)
        b, c = (self.product("ssm_x", x, sizes.rank + at, sizes.keys) for at in (0, sizes.keys))
        made = self.scan(x, b, c, self.product("ssm_dt", short), {"decay": "each"})
        direct = self.step(
            "ssm_d", "mul", self.grid(sizes.inner), {"broadcast": "row"}, a=x, b=self.factors("d")
        )["y"]
        return self.gate(gate, made, direct)

    def mamba_token(self, y: str) -> str:
        """What the last matrix of a Mamba-1 layer reads, of a single token of each sequence."""
        sizes, batch, prefix = self.mamba_sizes, self.phase.batch, f"blk.{self.layer}.ssm_"
        given, slots = self.product("ssm_in", y), SLOTS * batch
        x = self.step(
            "ssm_conv1d",
            "ssm_conv_token",
            (batch, slots, sizes.inner, 2 * sizes.inner, sizes.taps),
            given=given,
            weights=self.weight(f"{prefix}conv1d.weight", "f32"),
            biases=self.weight(f"{prefix}conv1d.bias", "f32"),
            conv=self.table_of("conv"),
            **self.turn(),
        )["y"]
        short = self.product("ssm_x", x, 0, sizes.rank)
        return self.step(
            "ssm_scan",
            "selective_scan_token",
            (batch, slots, sizes.inner, sizes.keys),
            {},
            {"y": self.form_of_heads(sizes.inner)},
            given=given,
            x=x,
            state=self.table_of("scan"),
            bc=self.product("ssm_x", x, sizes.rank, 2 * sizes.keys),
            dt=self.multiply_by("ssm_dt", short, self.whole_tensor(f"{prefix}dt.weight")),
            step_biases=self.weight(f"{prefix}dt.bias", "f32"),
            a=self.factors("a"),
            direct=self.factors("d"),
            **self.turn(),
        )["y"]

    def mamba2(self, y: str) -> str:
        """What the last matrix of a Mamba-2 layer reads: each head has one decay."""
        sizes = self.mamba_sizes
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

    def mamba2_token(self, y: str) -> str:
        """What the last matrix of a Mamba-2 layer reads, of a single token of each sequence."""
        sizes, batch, prefix = self.mamba_sizes, self.phase.batch, f"blk.{self.layer}.ssm_"
        shape = (batch, SLOTS * batch, sizes.heads, sizes.groups, sizes.head, sizes.keys)
        tensors = {
            "weights": "conv1d.weight",
            "biases": "conv1d.bias",
            "factors": "norm.weight",
        }
        rates = tuple(Part(tensor=f"{prefix}{of}") for of in ("dt.bias", "a", "d"))
        return self.step(
            "ssm_scan",
            "ssm_scan_token",
            (*shape, sizes.taps),
            {"eps": self.hyper.eps},
            {"y": self.form_of_heads(sizes.head)},
            given=self.product("ssm_in", y),
            conv=self.table_of("conv"),
            state=self.table_of("scan"),
            **self.turn(),
            rates=self.use_weight(Weight(parts=rates, format="f32")),
            **{name: self.weight(f"{prefix}{of}", "f32") for name, of in tensors.items()},
        )["y"]

    def factors(self, name: str) -> str:
        """A tensor of the scan, whose name has nothing behind it."""
        return self.weight(f"blk.{self.layer}.ssm_{name}", "f32")

    def gate(self, gate: str, made: str, direct: str) -> str:
        """What the scan made, and what goes beside it, times silu of a gate."""
        shape = self.grid(self.mamba_sizes.inner)
        y = self.step("ssm_sum", "add", shape, a=made, b=direct)["y"]
        return self.step("ssm_gate", "swiglu_split", shape, a=gate, b=y)["y"]

    def norm_groups(self, x: str) -> str:
        """Each group of heads normalised, by weights of its own."""
        sizes = self.mamba_sizes
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

    def scan(self, x: str, b: str, c: str, dt: str, params: dict[str, Value]) -> str:
        """What a scan makes of tokens; it goes on from the state, and leaves another."""
        sizes, phase = self.mamba_sizes, self.phase
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


class DeltaParts(Convolving):
    """Builds what gated delta nets make of tokens.

    A prompt's tokens are convolved, cut into queries, keys and values and normalised by steps of
    their own. Of a single token all that would take longer to launch than to do.
    """

    @property
    def delta_sizes(self) -> Delta:
        """The sizes of these layers."""
        assert isinstance(self.hyper.recurrent, Delta)
        return self.hyper.recurrent

    def delta_net(self, y: str) -> Due:
        """What a net makes of normalised vectors: it goes on from its state, and leaves another."""
        sizes, phase = self.delta_sizes, self.phase
        gate = self.product("attn_gate", y)
        convolved = self.convolve(self.product("attn_qkv", y))
        beta, alpha = self.make_rates(y)
        groups = sizes.heads if sizes.is_next else sizes.groups  # each has keys of its own then
        made = self.step(
            "delta_net",
            "gated_delta_net",
            (phase.batch, phase.tokens, sizes.heads, groups, sizes.head),
            v=self.pick_columns("delta_values", convolved, 2 * sizes.keys, sizes.values),
            state=self.read_state("delta"),
            k=self.pick_unit_heads("delta_keys", convolved, sizes.keys),
            q=self.pick_unit_heads("delta_queries", convolved, 0),
            gate=self.make_decays(alpha),
            beta=self.map_numbers("sigmoid", beta),
        )
        self.leave_state("delta", made["next_state"])
        rows = self.count * sizes.heads
        normed = self.normalise_rows("ssm_norm", made["y"], rows=rows, width=sizes.head)[1]
        shape = self.grid(sizes.values)
        gated = self.step("delta_gate", "swiglu_split", shape, a=gate, b=normed)["y"]
        return self.postpone_product("ssm_out", gated)

    def read_token(self, y: str, rates: str) -> str:
        """What the last matrix of a layer reads, of a single token of each sequence."""
        sizes, batch, prefix = self.delta_sizes, self.phase.batch, f"blk.{self.layer}."
        params: dict[str, Value] = {"eps": self.hyper.eps}
        if sizes.is_next:
            params["shared"] = "beside"
        return self.step(
            "delta_net",
            "gated_delta_net_token",
            (batch, SLOTS * batch, sizes.heads, sizes.groups, sizes.head, sizes.taps),
            params,
            {"y": self.form_of_heads(sizes.head)},
            qkv=self.product("attn_qkv", y),
            weights=self.weight(f"{prefix}ssm_conv1d.weight", "f32"),
            conv=self.table_of("conv"),
            state=self.table_of("delta"),
            rates=rates,
            biases=self.weight(f"{prefix}ssm_dt.bias", "f32"),
            decays=self.weight(f"{prefix}ssm_a", "f32"),
            z=self.product("attn_gate", y),
            factors=self.weight(f"{prefix}ssm_norm.weight", "f32"),
            **self.turn(),
        )["y"]

    def make_rates(self, y: str) -> tuple[str, str]:
        """What each head's rate of learning and its decay are made of."""
        sizes = self.delta_sizes
        if not sizes.is_next:
            return self.product("ssm_beta", y), self.product("ssm_alpha", y)
        both, parts = self.product("ssm_ba", y), np.arange(2 * sizes.groups).reshape(-1, 2).T
        beta, alpha = (
            self.pick_parts(f"delta_{name}", both, sizes.heads // sizes.groups, chosen)
            for name, chosen in zip(("beta", "alpha"), parts, strict=True)
        )
        return beta, alpha

    def pick_unit_heads(self, label: str, convolved: str, first: int) -> str:
        """The keys or queries of each token, every head of them of length 1."""
        sizes = self.delta_sizes
        chosen = sizes.shared if sizes.is_next else np.arange(sizes.groups)
        x = self.pick_parts(label, convolved, sizes.head, first // sizes.head + chosen)
        name = f"unit.{sizes.head}"
        unit = np.full(sizes.head, 1 / sqrt(sizes.head), np.float32)
        self.constants[self.input(name, "f32", sizes.head)] = unit
        shape = self.grid(sizes.head, self.count * chosen.size)
        params: dict[str, Value] = {"eps": self.hyper.eps / sizes.head, "fused": "mul"}
        bound = {"x": x, "weights": name, "biases": self.unread_input()}
        return self.step(f"{label}_norm", "rms_norm", shape, params, **bound)["y"]

    def make_decays(self, alpha: str) -> str:
        """Logarithms of what each head keeps of its state."""
        shape, row = self.grid(self.delta_sizes.heads), {"broadcast": "row"}
        bias, rates = (
            self.weight(f"blk.{self.layer}.{n}", "f32") for n in ("ssm_dt.bias", "ssm_a")
        )
        biased = self.step("delta_bias", "add", shape, row, a=alpha, b=bias)["y"]
        steps = self.map_numbers("softplus", biased)
        return self.step("delta_decay", "mul", shape, row, a=steps, b=rates)["y"]
