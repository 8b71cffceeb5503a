"""Gated delta nets in place of attention: a convolution, and heads that learn what they lack."""

from __future__ import annotations

from math import sqrt

import numpy as np

from vkbench.case import Value
from vkbench_shaders.models.building import Due
from vkbench_shaders.models.layer_parts import LayerParts
from vkbench_shaders.models.recurrent.convolving import Convolving
from vkbench_shaders.models.recurrent.sizes import Delta


class DeltaParts(LayerParts, Convolving):
    """Builds what gated delta nets make of tokens."""

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

    def make_rates(self, y: str) -> tuple[str, str]:
        """What each head's rate of learning and its decay are made of."""
        sizes = self.delta_sizes
        if not sizes.is_next:
            return self.product("ssm_beta", y), self.product("ssm_alpha", y)
        each = sizes.heads // sizes.groups
        beta, alpha = (
            self.multiply_rows_of_heads(f"ssm_{name}", "ssm_ba", y, first, each, 2 * each)
            for name, first in (("beta", 0), ("alpha", each))
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
