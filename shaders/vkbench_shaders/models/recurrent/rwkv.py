"""Layers of RWKV 6 and 7: heads that remember, then channels, each mixed with the token before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from vkbench.case import Value
from vkbench_shaders.models.building import Builder, Due
from vkbench_shaders.models.graph import Part, Weight
from vkbench_shaders.models.recurrent.sizes import Rwkv

HEAD_EPS: Final = 64e-5  # of the norm of each head
SLOWEST: Final = -0.606531  # the logarithm of RWKV 7's smallest decay: - e^-0.5


class RwkvParts(Builder):
    """Builds layers of RWKV."""

    def rwkv_layer(self, x: str, branch: str | Due) -> tuple[str, str | Due]:
        """A layer's vectors behind what its heads remember, and what its channels add to them."""
        x, y = self.normalise_rows("attn_norm", x, branch)
        self.streams.append(x)
        mix_heads = self.mix_heads_6 if self.rwkv_sizes.is_sixth else self.mix_heads_7
        x, y = self.normalise_rows("attn_norm_2", x, mix_heads(y))
        mixed = self.mix_channels(y)
        if not (every := self.rwkv_sizes.rescaled) or (self.layer + 1) % every:
            return x, mixed
        half: dict[str, Value] = {"factor": 0.5}
        x = self.map_numbers("scale", x, half)
        return x, self.map_numbers("scale", self.resolve_branch(mixed), half)

    @property
    def rwkv_sizes(self) -> Rwkv:
        """The sizes of these layers."""
        assert isinstance(self.hyper.recurrent, Rwkv)
        return self.hyper.recurrent

    def shift_tokens(self, name: str, y: str) -> str:
        """What lies between each token's vector and that of the token before."""
        phase, width = self.phase, self.hyper.width
        before, rows = self.read_state(name), phase.tokens + 1
        if phase.tokens == 1:
            self.leave_state(name, y)
            return self.combine("shifted", "sub", before, y)
        shape = (phase.batch, 1, 1, width, phase.tokens)
        joined = self.step("joined", "concat", shape, {"axis": "h"}, a=before, b=y)["y"]
        starts = np.arange(phase.batch)[:, None] * rows
        last = self.pick_rows(
            "last_tokens", joined, phase.batch * rows, width, starts + phase.tokens
        )
        self.leave_state(name, last)
        ids = starts + np.arange(phase.tokens)
        earlier = self.pick_rows("tokens_before", joined, phase.batch * rows, width, ids)
        return self.combine("shifted", "sub", earlier, y)

    def lean(self, y: str, shifted: str, name: str, row: int = -1) -> str:
        """Vectors that go some way towards those before, by shares that all tokens have."""
        return self.combine("leant", "add", self.combine_row(name, "mul", shifted, name, row), y)

    def apply_low_rank(self, x: str, names: Sequence[str], between: str = "") -> str:
        """Two products, the first to few numbers, and what is done to those between."""
        small = self.product(f"time_mix_{names[0]}", x)
        small = self.map_numbers(between, small) if between else small
        return self.product(f"time_mix_{names[1]}", small)

    def mix_heads_6(self, y: str) -> Due:
        """What RWKV 6's heads make of tokens, which lean on those before by their own shares."""
        shifted = self.shift_tokens("time", y)
        leant = self.lean(y, shifted, "time_mix_lerp_x.weight")
        w, k, v, r, g = (self.lean_by_token(y, shifted, leant, at) for at in range(5))
        receptance, key, value, gate = (
            self.product(f"time_mix_{name}", x)
            for name, x in (("receptance", r), ("key", k), ("value", v), ("gate", g))
        )
        slow = self.apply_low_rank(w, ("decay_w1", "decay_w2"), "tanh")
        slow = self.combine_row("decay", "add", slow, "time_mix_decay.weight")
        decay = self.map_numbers("exp", self.map_numbers("neg", self.map_numbers("exp", slow)))
        first = self.weight(f"blk.{self.layer}.time_mix_first.weight", "f32")
        made = self.remember("rwkv_wkv6", k=key, v=value, r=receptance, decay=decay, first=first)
        made = self.combine("gated", "mul", self.norm_heads(made), self.map_numbers("silu", gate))
        return self.postpone_product("time_mix_output", made)

    def lean_by_token(self, y: str, shifted: str, leant: str, at: int) -> str:
        """As `lean`, by shares that follow from each token, too: the rows of two matrices."""
        width = self.hyper.width
        rank = self.file.tensor(f"blk.{self.layer}.time_mix_w1.weight").shape[0] // 5
        small = self.map_numbers("tanh", self.product("time_mix_w1", leant, at * rank, rank))
        shares = self.product("time_mix_w2", small, at * width, width)
        shares = self.combine_row("shares", "add", shares, "time_mix_lerp_fused.weight", at)
        return self.combine("leant", "add", self.combine("lean", "mul", shares, shifted), y)

    def mix_heads_7(self, y: str) -> Due:
        """What RWKV 7's heads make of tokens: they also take out of the state what keys find."""
        shifted = self.shift_tokens("time", y)
        xr, xw, xk, xv, xa, xg = (
            self.lean(y, shifted, "time_mix_lerp_fused.weight", at) for at in range(6)
        )
        receptance, key, value = (
            self.product(f"time_mix_{name}", x)
            for name, x in (("receptance", xr), ("key", xk), ("value", xv))
        )
        slow = self.add_bias("w0", self.apply_low_rank(xw, ("w1", "w2"), "tanh"))
        decay = self.map_numbers(
            "exp", self.map_numbers("scale", self.map_numbers("sigmoid", slow), {"factor": SLOWEST})
        )
        value = self.blend_values(value, xv)
        gate = self.apply_low_rank(xg, ("g1", "g2"), "sigmoid")
        rate = self.map_numbers(
            "sigmoid", self.add_bias("a0", self.apply_low_rank(xa, ("a1", "a2")))
        )
        sizes, rows = self.rwkv_sizes, self.count * self.rwkv_sizes.heads
        unit_keys = self.combine_row("k_k", "mul", key, "time_mix_k_k.weight")
        shape, unread = (1, 1, rows, sizes.head), self.unread_input()
        unit_keys = self.step(
            "unit_keys",
            "l2_norm",
            shape,
            {"eps": 1e-12},
            x=unit_keys,
            weights=unread,
            biases=unread,
        )["y"]
        part = self.combine_row("k_a", "mul", key, "time_mix_k_a.weight")
        less = self.combine("less", "sub", self.combine("rated", "mul", rate, part), part)
        key = self.combine("key", "add", key, less)
        made = self.remember(
            "rwkv_wkv7",
            k=key,
            v=value,
            r=receptance,
            decay=decay,
            a=self.map_numbers("neg", unit_keys),
            b=self.combine("put_back", "mul", unit_keys, rate),
        )
        made = self.combine(
            "direct", "add", self.norm_heads(made), self.see_self(key, receptance, value)
        )
        return self.postpone_product("time_mix_output", self.combine("gated", "mul", made, gate))

    def add_bias(self, name: str, x: str) -> str:
        """Vectors plus one of this layer's."""
        return self.combine_row(name, "add", x, f"time_mix_{name}.weight")

    def blend_values(self, value: str, x: str) -> str:
        """Values that go some way towards those of the first layer."""
        if not self.layer:
            self.first_values = value
            return value
        share = self.map_numbers(
            "sigmoid", self.add_bias("v0", self.apply_low_rank(x, ("v1", "v2")))
        )
        apart = self.combine("apart", "sub", self.first_values, value)
        return self.combine("values", "add", value, self.combine("share", "mul", apart, share))

    def see_self(self, key: str, receptance: str, value: str) -> str:
        """What each head sees of its own token, beside what it remembers."""
        sizes, rows = self.rwkv_sizes, self.count * self.rwkv_sizes.heads
        seen = self.combine("seen", "mul", key, receptance)
        seen = self.combine_row("r_k", "mul", seen, "time_mix_r_k.weight")
        by_head = (1, rows, 1, sizes.head)
        total = self.step("seen_sum", "sum", by_head, {"axes": "w"}, x=seen)["y"]
        by = {"broadcast": "channel"}
        return self.step("own", "mul", by_head, by, a=value, b=total)["y"]

    def remember(self, kernel: str, **bound: str) -> str:
        """What heads make of tokens by the states that go from one to the next."""
        sizes, phase = self.rwkv_sizes, self.phase
        shape = (phase.batch, phase.tokens, sizes.heads, sizes.head)
        made = self.step(kernel, kernel, shape, state=self.read_state("wkv"), **bound)
        self.leave_state("wkv", made["next_state"])
        return made["y"]

    def norm_heads(self, x: str) -> str:
        """Each head normalised by itself, by weights of the whole vector."""
        sizes, unread = self.rwkv_sizes, self.unread_input()
        shape, bound = (
            (1, 1, self.count * sizes.heads, sizes.head),
            {"weights": unread, "biases": unread},
        )
        y = self.step("time_mix_ln", "layer_norm", shape, {"eps": HEAD_EPS}, x=x, **bound)["y"]
        y = self.combine_row("ln_weights", "mul", y, "time_mix_ln.weight")
        return self.combine_row("ln_biases", "add", y, "time_mix_ln.bias")

    def mix_channels(self, y: str) -> str | Due:
        """What squares of channels make of tokens that lean on those before."""
        shifted = self.shift_tokens("channels", y)
        key = self.product("channel_mix_key", self.lean(y, shifted, "channel_mix_lerp_k.weight"))
        squares = self.map_numbers("sqr", self.map_numbers("relu", key))
        if not self.rwkv_sizes.is_sixth:
            return self.postpone_product("channel_mix_value", squares)
        leant = self.lean(y, shifted, "channel_mix_lerp_r.weight")
        gate = self.map_numbers("sigmoid", self.product("channel_mix_receptance", leant))
        return self.combine("gated", "mul", gate, self.product("channel_mix_value", squares))

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
