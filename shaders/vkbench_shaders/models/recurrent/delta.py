"""Layers of gated delta nets: a token by one step, where products join others, and prompts by many.

A prompt's tokens are convolved, cut into queries, keys and values and normalised by steps of their
own. Of a single token all that would take longer to launch than to do.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from vkbench.case import Value
from vkbench_shaders.models.building import BLOCK, Due
from vkbench_shaders.models.layer_parts import LayerParts
from vkbench_shaders.models.recurrent.convolved import Convolving
from vkbench_shaders.models.recurrent.memory import SLOTS
from vkbench_shaders.models.recurrent.sizes import Delta


class DeltaParts(Convolving, LayerParts):
    """Builds what gated delta nets make of tokens."""

    @property
    def delta_sizes(self) -> Delta:
        """The sizes of these layers."""
        assert isinstance(self.hyper.recurrent, Delta)
        return self.hyper.recurrent

    def delta_net(self, y: str) -> Due:
        """What a net makes of normalised vectors: it goes on from its state, and leaves another."""
        sizes, phase = self.delta_sizes, self.phase
        if phase.products.joins and phase.tokens == 1:
            return self.postpone_product("ssm_out", self.read_token(y))
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

    def read_token(self, y: str) -> str:
        """What the last matrix of a layer reads, of a single token of each sequence."""
        sizes, batch, prefix = self.delta_sizes, self.phase.batch, f"blk.{self.layer}."
        params: dict[str, Value] = {"eps": self.hyper.eps}
        if sizes.is_next:
            params["shared"] = "beside"
        is_rounded = sizes.head % BLOCK == 0 and self.rounds(*self.of_layer("ssm_out"))
        return self.step(
            "delta_net",
            "gated_delta_net_token",
            (batch, SLOTS * batch, sizes.heads, sizes.groups, sizes.head, sizes.taps),
            params,
            {"y": "q8_1" if is_rounded else "f32"},
            qkv=self.product("attn_qkv", y),
            weights=self.weight(f"{prefix}ssm_conv1d.weight", "f32"),
            conv=self.table_of("conv"),
            state=self.table_of("delta"),
            rates=self.make_joined_rates(y),
            biases=self.weight(f"{prefix}ssm_dt.bias", "f32"),
            decays=self.weight(f"{prefix}ssm_a", "f32"),
            z=self.product("attn_gate", y),
            factors=self.weight(f"{prefix}ssm_norm.weight", "f32"),
            before=self.rows_of_turn(1, is_read=True),
            behind=self.rows_of_turn(1, is_read=False),
        )["y"]

    def make_joined_rates(self, y: str) -> str:
        """What each head's rate of learning and its decay are made of, as one vector."""
        if self.delta_sizes.is_next:
            return self.product("ssm_ba", y)
        if (both := self.join_weights("ssm_beta", "ssm_alpha")) is not None:
            return self.multiply_by("ssm_rates", y, both)
        return self.join_vectors("ssm_rates", *self.make_rates(y), self.count)

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
