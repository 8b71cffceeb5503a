"""Parts of a layer: gated units, the experts of each token, and heads of latent attention.

Keys and values of all heads of latent attention are made of one short vector. It alone lies in the
cache, behind a part that is turned. Queries are brought to it by each head's own matrix, and what
attention makes is brought to values by another. So attention itself has one head of keys, whose
values are the keys without the turned part.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from vkbench.case import Value
from vkbench_shaders.models.building import (
    BLOCK,
    BYTES,
    MOST_VECTORS,
    NUMBERS,
    ROUNDING,
    Builder,
    Due,
)
from vkbench_shaders.models.graph import HEADS, POSITIONS, Part, Weight
from vkbench_shaders.models.keys import LEAST_SUM

MOST_JOINED = 1 << 31  # bytes of all experts of a layer: few devices bind more than twice as many
_PREFERENCES = "exp_probs_b.bias"  # by which experts are chosen, and not weighed


class LayerParts(Builder):
    """Builds what layers of many architectures are made of."""

    def feed_forward(self, x: str, y: str) -> tuple[str, str | Due]:
        """Vectors, and what the feed-forward part of this layer makes of them normalised.

        What experts that all tokens share make is added to the vectors already: that is done beside
        the work of the others.
        """
        if not self.hyper.has_experts(self.layer):
            return x, self.forward(y)
        rounded = self.round_for_experts(y)
        made = self.experts(y, rounded)
        if not self.has("ffn_up_shexp.weight"):
            return x, made
        readers = self.of_layer("ffn_gate_shexp", "ffn_up_shexp")
        shared = self.share_expert(y, rounded if self.rounds(*readers) else y)
        return self.step("shared", "add", self.grid(self.hyper.width), a=shared, b=x)["y"], made

    def forward(self, y: str, kind: str = "") -> Due:
        """What one gated unit makes of vectors; `kind` is behind its tensors' names."""
        gate_name, up, down = (f"ffn_{part}{kind}" for part in ("gate", "up", "down"))
        gate = self.hyper.architecture.gate
        if not gate:
            inner = self.map_numbers("gelu", self.product(up, y))
        elif not self.has(f"{gate_name}.weight"):
            inner = self.gate_halves(up, y, self.join_weights(up), down)
        elif (both := self.join_weights(gate_name, up)) is not None:
            inner = self.gate_halves(f"{gate_name}_up", y, both, down)
        else:
            a, b = self.product(gate_name, y), self.product(up, y)
            inner = self.step(gate, f"{gate}_split", self.grid(self.count_inner(down)), a=a, b=b)[
                "y"
            ]
        return self.postpone_product(down, inner)

    def count_inner(self, down: str) -> int:
        """Numbers that a matrix of this layer leads down from."""
        return self.file.tensor(f"blk.{self.layer}.{down}.weight").shape[-1]

    def gate_halves(self, label: str, y: str, weight: Weight | None, down: str) -> str:
        """A unit of the halves of what a matrix makes, rounded if what reads it allows that."""
        gate, shape = self.hyper.architecture.gate, self.grid(self.count_inner(down))
        form = self.form(*self.of_layer(down))
        if weight and self.joins(y, weight, form):
            return self.gated_product(label, y, weight)
        x = self.multiply_by(label, y, weight) if weight else self.product(label, y)
        return self.step(gate, f"{gate}_q8_1" if form == BYTES else gate, shape, x=x)["y"]

    def join_weights(self, *names: str) -> Weight | None:
        """Matrices as one, behind each other, where they have one format and no biases."""
        if any(self.has(f"{name}.bias") for name in names):
            return None
        return self.join_tensors([f"{name}.weight" for name in names])

    def join_tensors(self, names: Sequence[str], matrices: int = 1) -> Weight | None:
        """Tensors of this layer as one, where they have one format; so many matrices in each."""
        tensors = [self.file.tensor(f"blk.{self.layer}.{name}") for name in names]
        formats = {tensor.format.name for tensor in tensors if tensor.format}
        if len(formats) > 1:
            return None
        parts = tuple(Part(tensor=tensor.name) for tensor in tensors)
        return Weight(parts=parts, format=formats.pop(), matrices=matrices)

    def experts(self, y: str, x: str) -> str:
        """What the experts of each token make of it: they read it as `x`, the router as `y`."""
        hyper, count = self.hyper, self.count
        logits = self.product("ffn_gate_inp", y)
        shape = (count, hyper.experts, hyper.used)
        routed = self.step(
            "routing",
            "top_k_moe",
            shape,
            self.list_routing_params(),
            logits=logits,
            bias=self.weight(f"blk.{self.layer}.{_PREFERENCES}", "f32")
            if self.has(_PREFERENCES)
            else self.unread_input(),
        )
        ids, shares = routed["ids"], routed["weights"]
        inner = self.gate_experts(x, ids)
        down = self.multiply_experts(["ffn_down_exps"], inner, ids, "expert", shares=shares)
        summed = (1, count, hyper.used, hyper.width)
        return self.step("experts", "sum", summed, {"axes": "h"}, x=down)["y"]

    def share_expert(self, y: str, x: str) -> str:
        """What the expert that all tokens share makes of them: it reads `x`, what gates it `y`."""
        shared = self.resolve_branch(self.forward(x, "_shexp"))
        if not self.has("ffn_gate_inp_shexp.weight"):
            return shared
        opened = self.map_numbers("sigmoid", self.product("ffn_gate_inp_shexp", y))
        by: dict[str, Value] = {"broadcast": "channel"}
        shape = (1, self.count, 1, self.hyper.width)
        return self.step("shared_gate", "mul", shape, by, a=shared, b=opened)["y"]

    def list_routing_params(self) -> dict[str, Value]:
        """How a router's logits become the weights of experts."""
        hyper = self.hyper
        biased = "_biased" if self.has(_PREFERENCES) else ""
        params: dict[str, Value] = {}
        if (gating := f"{hyper.gating}{biased}") != "softmax":
            params["gating"] = gating
        if hyper.shares_sum:
            params["normalise"] = "selected"
            if hyper.gating == "sigmoid":
                params["least_sum"] = LEAST_SUM
        if hyper.expert_groups > 1:
            params["groups"] = hyper.expert_groups
            params["groups_used"] = hyper.expert_groups_used
        if hyper.share_scale != 1:
            params["scale"] = hyper.share_scale
        return params

    def round_for_experts(self, y: str) -> str:
        """Vectors in the form that their experts multiply: rounded beside the router's work."""
        hyper, names = self.hyper, self.of_layer("ffn_gate_exps", "ffn_up_exps")
        rows = hyper.used * sum(self.file.tensor(name).shape[1] for name in names)
        formats = {self.whole_tensor(name).format for name in names}
        paths = {self.path(weights, rows * hyper.width) for weights in formats}
        if paths != {ROUNDING} or hyper.width % BLOCK:
            return y
        shape = (1, self.count, hyper.width)
        return self.step("experts_in", "quantize", shape, {}, {"y": BYTES}, x=y)["y"]

    def gate_experts(self, x: str, ids: str) -> str:
        """What the gated units of each token's experts make of it, in the form that is read."""
        hyper, gate, halves = self.hyper, self.hyper.architecture.gate, ("gate", "up")
        shape = (1, 1, self.count * hyper.used, hyper.inner)
        names = [f"ffn_{half}_exps" for half in halves]
        if not self.joins_experts(names):
            a, b = (self.multiply_experts([name], x, ids, "token") for name in names)
            return self.step(gate, f"{gate}_split", shape, a=a, b=b)["y"]
        both = self.multiply_experts(names, x, ids, "token")
        weights = self.whole_tensor(*self.of_layer("ffn_down_exps")).format
        path = self.path(weights, hyper.used * hyper.width * hyper.inner)
        is_rounded = path == ROUNDING and hyper.inner % BLOCK == 0
        return self.step(gate, f"{gate}_q8_1" if is_rounded else gate, shape, x=both)["y"]

    def joins_experts(self, names: Sequence[str]) -> bool:
        """Whether each expert's matrices may be one: alike, and bound as one array."""
        weight = self.join_tensors([f"{name}.weight" for name in names])
        is_alike = weight and len({self.has(f"{name}.bias") for name in names}) == 1
        return bool(weight and is_alike and weight.bytes(self.file) <= MOST_JOINED)

    def multiply_experts(
        self,
        names: Sequence[str],
        x: str,
        ids: str,
        vectors: str,
        *,
        used: int = 0,
        shares: str = "",
    ) -> str:
        """Products of each token with its experts' matrices; `used`: how many, if not as usual.

        Of several names each expert has all its matrices in one. Biases of the experts are added,
        and the token's shares of them multiply what they made: by the products themselves where
        tokens are few.
        """
        shapes = [self.file.tensor(f"blk.{self.layer}.{name}.weight").shape for name in names]
        experts, m, k = shapes[0][0], sum(shape[1] for shape in shapes), shapes[0][2]
        matrices = experts if len(names) > 1 else 1
        weight = self.join_tensors([f"{name}.weight" for name in names], matrices)
        assert weight
        used, count = used or self.hyper.used, self.count
        label = "+".join(names)
        biases = self.use_biases_of_experts(names, matrices)
        form = self.formats.get(x, NUMBERS)
        params: dict[str, Value] = {"x": vectors}
        bound, kernel = {}, "mul_mat_id"
        if are_few := count <= MOST_VECTORS:
            kernel, unread = "mul_mat_vec_id", self.unread_input()
            bound = {"biases": biases or unread, "shares": shares or unread}
            if then := [word for word, given in (("add", biases), ("mul", shares)) if given]:
                params["then"] = "_".join(then)
        made = self.step(
            label,
            kernel,
            (experts, used, m, count, k),
            params,
            {"weights": weight.format, "x": form},
            variant=self.path(weight.format, used * m * k) if form == NUMBERS else "",
            weights=self.use_weight(weight),
            x=x,
            ids=ids,
            **bound,
        )["y"]
        if are_few:
            return made
        if biases:
            shape = (count, used, m, experts)
            made = self.step(f"{label}_bias", "add_id", shape, x=made, biases=biases, ids=ids)["y"]
        if not shares:
            return made
        by: dict[str, Value] = {"broadcast": "channel"}
        return self.step("shares", "mul", (1, count * used, 1, m), by, a=made, b=shares)["y"]

    def use_biases_of_experts(self, names: Sequence[str], matrices: int) -> str:
        """Biases of experts' matrices, joined as these are; "" where there are none."""
        if not self.has(f"{names[0]}.bias"):
            return ""
        parts = tuple(Part(tensor=f"blk.{self.layer}.{name}.bias") for name in names)
        return self.use_weight(Weight(parts=parts, format="f32", matrices=matrices))

    def project_latent_heads(self, y: str) -> tuple[str, str, str]:
        """Queries, keys and values as attention takes them: the part that is turned comes first."""
        hyper, latent = self.hyper, self.hyper.latent
        assert latent
        parts = latent.nope, latent.turned
        source, name = self.make_query_source(y)
        size = sum(parts)
        plain = self.multiply_rows_of_heads("attn_q_plain", name, source, 0, parts[0], size)
        turned = self.multiply_rows_of_heads(
            "attn_q_turned", name, source, parts[0], parts[1], size
        )
        brought = self.multiply_experts(
            ["attn_k_b"], plain, self.number_heads(), "expert", used=hyper.heads
        )
        q = self.join_vectors("attn_q", turned, brought, self.count * hyper.heads)
        ends = self.product("attn_kv_a_mqa", y, latent.rank, latent.turned)
        short = self.product("attn_kv_a_mqa", y, 0, latent.rank)
        v = self.normalise_rows("attn_kv_a_norm", short, width=latent.rank)[1]
        return q, self.join_vectors("attn_k", ends, v, self.count), v

    def make_query_source(self, y: str) -> tuple[str, str]:
        """The vectors that queries are made of, and the name of the matrix that makes them."""
        latent = self.hyper.latent
        assert latent
        if not latent.query_rank:
            return y, "attn_q"
        short = self.product("attn_q_a", y)
        width, readers = latent.query_rank, self.of_layer("attn_q_b")
        return self.normalise_rows("attn_q_a_norm", short, width=width, readers=readers)[1], (
            "attn_q_b"
        )

    def multiply_rows_of_heads(
        self, label: str, name: str, x: str, first: int, rows: int, size: int
    ) -> str:
        """Products with so many rows of each head's part of a matrix."""
        whole = self.whole_tensor(tensor := f"blk.{self.layer}.{name}.weight")
        parts = tuple(
            Part(tensor=tensor, first=start + first, rows=rows)
            for start in range(0, self.file.tensor(tensor).shape[0], size)
        )
        return self.multiply_by(label, x, Weight(parts=parts, format=whole.format))

    def project_gated_heads(self, y: str, half: int) -> str:
        """Queries, or what gates their heads: the one or the other half of each head's rows."""
        size, label = self.hyper.key_size, ("attn_q", "attn_q_gate")[half]
        return self.multiply_rows_of_heads(label, "attn_q", y, half * size, size, 2 * size)

    def gate_heads(self, attended: str, y: str) -> str:
        """What attention made, each number times a share that the vectors themselves give."""
        shares = self.map_numbers("sigmoid", self.project_gated_heads(y, 1))
        shape = self.grid(self.hyper.heads * self.hyper.value_size)
        return self.step("attn_gated", "mul", shape, a=attended, b=shares)["y"]

    def join_vectors(self, label: str, a: str, b: str, rows: int) -> str:
        """Each row of `a` and the same row of `b` behind it, as one longer vector."""
        widths = (self.sizes[part] // 4 // rows for part in (a, b))
        return self.step(f"{label}_joined", "concat", (1, 1, rows, *widths), a=a, b=b)["y"]

    def number_heads(self) -> str:
        """The numbers of heads, for each token: a head's matrix is as an expert's."""
        heads = self.hyper.heads
        name = self.input(HEADS, "i32", self.count * heads)
        self.constants[name] = np.tile(np.arange(heads, dtype=np.int32), self.count)
        return name

    def make_values(self, attended: str) -> str:
        """Each head's values of what attention made."""
        heads = self.hyper.heads
        return self.multiply_experts(
            ["attn_v_b"], attended, self.number_heads(), "expert", used=heads
        )

    def project_latent_output(self, attended: str) -> str | Due:
        """What the last matrix of attention makes of those values."""
        return self.postpone_product("attn_output", self.make_values(attended))

    def gated_product(self, label: str, x: str, weight: Weight) -> str:
        """A gated unit of what a matrix of two halves makes of vectors, in their form again."""
        m, k = self.shape_of(weight)
        params: dict[str, Value] = {"norm": "none"}
        if x in self.squares:
            params = {"eps": self.hyper.eps}
        return self.step(
            label,
            self.joined_kernel(self.hyper.architecture.gate, x),
            (m // 2, self.count, k),
            params,
            {"weights": weight.format},
            weights=self.use_weight(weight),
            x=x,
            squares=self.squares.get(x) or self.unread_input(),
        )["y"]

    def rows(self, table: str, ids: str, count: int) -> str:
        """Rows of a tensor by number."""
        weight = self.whole_tensor(table)
        m, k = self.file.tensor(table).shape
        bound = {"table": self.use_weight(weight), "ids": self.input(ids, "i32", count)}
        return self.step(
            "embedding", "get_rows", (m, count, k), {}, {"table": weight.format}, **bound
        )["y"]

    def add_positions(self, x: str) -> str:
        """Vectors plus the learnt ones of their positions, where a model has such."""
        if "position_embd.weight" not in self.file.tensors:
            return x
        places = self.rows("position_embd.weight", POSITIONS, self.phase.tokens)
        shape = (self.phase.batch, 1, self.phase.tokens, self.hyper.width)
        params: dict[str, Value] = {"broadcast": "batch"} if self.phase.batch > 1 else {}
        return self.step("add", "add", shape, params, a=x, b=places)["y"]

    def project_heads(self, y: str, *, with_gates: bool = False) -> tuple[str, str, str]:
        """Queries, each before its gates if asked for, keys and values: of one matrix or three."""
        hyper = self.hyper
        if not self.has("attn_qkv.weight"):
            gated = hyper.architecture.gated_heads and not with_gates
            q = self.project_gated_heads(y, 0) if gated else self.product("attn_q", y)
            return q, self.product("attn_k", y), self.product("attn_v", y)
        keys = hyper.groups * hyper.key_size
        sizes = (hyper.heads * hyper.key_size, keys, hyper.groups * hyper.value_size)
        starts = (0, sizes[0], sizes[0] + keys)
        q, k, v = (
            self.product("attn_qkv", y, first, rows)
            for first, rows in zip(starts, sizes, strict=True)
        )
        return q, k, v

    def score_params(self) -> dict[str, Value]:
        """How scores of this model differ from what attention makes of products by itself."""
        params: dict[str, Value] = {}
        if self.hyper.scale != 1 / sqrt(self.hyper.key_size):
            params["scale"] = self.hyper.scale
        if self.hyper.score_cap:
            params["softcap"] = self.hyper.score_cap
        return params
