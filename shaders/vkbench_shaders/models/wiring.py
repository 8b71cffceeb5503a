"""How the architectures' layers are made of the catalogue's kernels."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np

from vkbench.case import Value
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.kernels.attention import token
from vkbench_shaders.kernels.attention.entries import ROUNDED
from vkbench_shaders.models.building import BLOCK, Due
from vkbench_shaders.models.encoding.pooling import LAST, MEAN, NONE, NORMS
from vkbench_shaders.models.graph import (
    EMBEDDING,
    LOGITS,
    MASK,
    ROWS,
    TOKENS,
    WANTED,
    WINDOW,
    Graph,
    Part,
    Phase,
    Weight,
)
from vkbench_shaders.models.heads import HeadParts
from vkbench_shaders.models.hyper import Hyper
from vkbench_shaders.models.layer_parts import LayerParts
from vkbench_shaders.models.recurrent.convolved import DeltaParts, MambaParts
from vkbench_shaders.models.recurrent.rwkv import RwkvParts
from vkbench_shaders.models.recurrent.sizes import Mamba


def graph_of(file: GgufFile, hyper: Hyper, phase: Phase) -> Graph:
    """The steps of a phase of a file's model."""
    wiring = Wiring(file, hyper, phase)
    if hyper.architecture.encodes:
        wiring.encode()
    else:
        wiring.model()
    return wiring.graph()


_READERS = (
    *("attn_qkv", "attn_q", "attn_k", "attn_v", "attn_q_a", "attn_kv_a_mqa"),
    *("attn_gate", "ssm_beta", "ssm_alpha", "ssm_ba"),
)
_SINKS = "attn_sinks.weight"


class EncoderParts(HeadParts, LayerParts):
    """Builds a model that makes one vector of a sequence.

    There are no caches: keys and values are those of the very tokens that are read.
    """

    def encode(self) -> None:
        """All steps, from tokens to the vectors of their sequences."""
        x = self.embed_typed_tokens()
        for layer in range(self.hyper.layers):
            self.layer = layer
            self.streams.append(x)
            x = self.encoder_layer(x)
        self.layer = -1
        self.streams.append(x)
        self.pool_rows(x)

    def embed_typed_tokens(self) -> str:
        """Rows of the embedding, plus those of positions and of the first type, normalised."""
        x = self.rows("token_embd.weight", TOKENS, self.count)
        if "token_types.weight" in self.file.tensors:
            first = Weight(parts=(Part(tensor="token_types.weight", rows=1),), format="f32")
            bound = {"a": x, "b": self.use_weight(first)}
            shape = self.grid(self.hyper.width)
            x = self.step("token_types", "add", shape, {"broadcast": "row"}, **bound)["y"]
        return self.normalise_rows("token_embd_norm", self.add_positions(x))[1]

    def encoder_layer(self, x: str) -> str:
        """What a layer makes of the vectors of all tokens."""
        behind_attention, behind_all = NORMS
        x = self.normalise_rows(behind_attention, x, self.attend_to_all(x))[1]
        return self.normalise_rows(behind_all, x, self.forward(x))[1]

    def attend_to_all(self, x: str) -> Due:
        """What attention makes of vectors, each of which sees all of its sequence."""
        hyper, phase = self.hyper, self.phase
        q, k, v = self.project_heads(x)
        q, k = self.turn_heads("q", q, hyper.heads), self.turn_heads("k", k, hyper.groups)
        unread = self.unread_input()
        attended = self.step(
            "attention",
            "flash_attn",
            (
                *(phase.batch, hyper.heads, hyper.groups, phase.tokens, phase.tokens),
                *(hyper.key_size, hyper.value_size),
            ),
            {"layout": "cache", **self.score_params()},
            {"k": "f32", "v": "f32"},
            q=q,
            k=k,
            v=v,
            mask=unread,
            sinks=unread,
        )["y"]
        return self.postpone_product("attn_output", attended)

    def pool_rows(self, x: str) -> None:
        """The vector of each sequence, as the file says: their mean, one token's, or all."""
        batch, tokens, width = self.phase.batch, self.phase.tokens, self.hyper.width
        pooling = self.hyper.pooling
        if pooling == MEAN:
            shape = (1, batch, tokens, width)
            self.step("pool", "mean", shape, {"axes": "h"}, result=EMBEDDING, x=x)
            return
        rows = np.arange(self.count).reshape(batch, tokens)
        if pooling != NONE:
            rows = rows[:, -1 if pooling == LAST else 0]
        bound = {"table": x, "ids": self.fixed_ids("pool", rows)}
        chosen = (self.count, rows.size, width)
        self.step("pool", "get_rows", chosen, {}, {"table": "f32"}, result=EMBEDDING, **bound)


class Wiring(EncoderParts, DeltaParts, MambaParts, RwkvParts):
    """Builds the steps of a model's layers."""

    def model(self) -> None:
        x = self.embedding()
        branch: str | Due = ""
        for layer in range(self.hyper.layers):
            self.layer = layer
            x, branch = self.choose_wire()(x, branch)
        self.layer = -1
        self.head(x, branch)

    def choose_wire(self) -> Callable[[str, str | Due], tuple[str, str | Due]]:
        """What builds this layer."""
        if self.hyper.architecture.has_attention:
            return self.attentive_layer
        return self.mamba_layer if isinstance(self.hyper.recurrent, Mamba) else self.rwkv_layer

    def attentive_layer(self, x: str, branch: str | Due) -> tuple[str, str | Due]:
        """A layer's vectors behind attention or a net, and what is to be added to them."""
        norm = self.hyper.architecture.forward_norm
        routed = self.hyper.has_experts(self.layer)
        forward = [] if routed else self.of_layer("ffn_gate", "ffn_up")
        readers = self.of_layer(*_READERS)
        readers += [] if norm else forward
        x, y = self.normalise_rows("attn_norm", x, branch, readers=readers)
        self.streams.append(x)
        mixed = self._pass_net(y) if self.hyper.recurs(self.layer) else self.attention(y)
        if norm:
            x, y = self.normalise_rows(norm, x, mixed, readers=forward)
        else:
            x = self.add_branch(x, mixed)
        x, made = self.feed_forward(x, y)
        return x, self.behind("post_ffw_norm", made)

    def _pass_net(self, y: str) -> Due:
        """What a gated delta net makes of normalised vectors: a single token's in one step."""
        if self.reads_at_once():
            return self.postpone_product("ssm_out", self.read_token(y, self._make_joined_rates(y)))
        return self.delta_net(y)

    def _make_joined_rates(self, y: str) -> str:
        """What each head's rate of learning and its decay are made of, as one vector."""
        if self.delta_sizes.is_next:
            return self.product("ssm_ba", y)
        if (both := self.join_weights("ssm_beta", "ssm_alpha")) is not None:
            return self.multiply_by("ssm_rates", y, both)
        return self.join_vectors("ssm_rates", *self.make_rates(y), self.count)

    def embedding(self) -> str:
        x = self.rows("token_embd.weight", TOKENS, self.count)
        if self.hyper.architecture.scaled_embedding:
            x = self.map_numbers("scale", x, {"factor": sqrt(self.hyper.width)})
        if "token_embd_norm.weight" in self.file.tensors:
            x = self.normalise_rows("token_embd_norm", x)[1]
        return self.add_positions(x)

    def add_branch(self, x: str, branch: str | Due) -> str:
        """Vectors plus what a branch makes of them."""
        shape = self.grid(self.hyper.width)
        return self.step("residual", "add", shape, a=self.resolve_branch(branch), b=x)["y"]

    def behind(self, norm: str, branch: str | Due) -> str | Due:
        """A branch, behind a norm of its own if it has one."""
        if not self.has(f"{norm}.weight") or norm == self.hyper.architecture.forward_norm:
            return branch
        return self.normalise_rows(norm, self.resolve_branch(branch))[1]

    def attention(self, y: str) -> str | Due:
        """What attention makes of normalised vectors, behind its own norm if it has one."""
        hyper = self.hyper
        if hyper.latent:
            attended = self.step_by_step(*self.project_latent_heads(y))
            return self.behind("post_attention_norm", self.project_latent_output(attended))
        if self.attends_at_once():
            attended = self.at_once(*self.project_heads(y, with_gates=True))
        else:
            attended = self.step_by_step(*self.project_heads(y))
            if hyper.architecture.gated_heads:
                attended = self.gate_heads(attended, y)
        return self.behind("post_attention_norm", self.postpone_product("attn_output", attended))

    def step_by_step(self, q: str, k: str, v: str) -> str:
        """What attention makes of heads that other steps normalise, turn and store."""
        hyper, phase = self.hyper, self.phase
        stored = {"v": self.store_vectors("v", v, hyper.value_size)}
        if self.turns_into_cache():
            stored["k"] = self.turn_into_cache(k)
        else:
            k = self.norm_and_turn("k", k, hyper.groups)
            stored["k"] = self.store_vectors("k", k, hyper.key_size)
        q = self.norm_and_turn("q", q, hyper.heads)
        shape = (phase.batch, hyper.heads, hyper.groups, phase.tokens, phase.length)
        sinks = f"blk.{self.layer}.{_SINKS}"
        sunk: dict[str, Value] = {"sinks": "yes"} if self.has(_SINKS) else {}
        return self.step(
            "attention",
            "flash_attn",
            (*shape, hyper.key_size, hyper.value_size),
            {"mask": "blocks", "layout": "cache", **self.score_params(), **sunk},
            self.attention_types(gates_follow=hyper.architecture.gated_heads),
            **stored,
            q=q,
            mask=self.mask(),
            sinks=self.weight(sinks, "f32") if sunk else self.unread_input(),
        )["y"]

    def mask(self) -> str:
        """What this layer's queries see."""
        name = WINDOW if self.hyper.window_of(self.layer) else MASK
        return self.input(name, "f16", self.phase.length)

    def attention_types(self, *, gates_follow: bool = False) -> dict[str, str]:
        """Formats of caches and of results, which stay numbers for gates that other steps make."""
        results = "f32" if gates_follow else self.attended_as()
        return {"k": self.phase.cache, "v": self.phase.cache, "y": results}

    def attends_at_once(self) -> bool:
        """Whether one step turns a single token's heads, stores them, and attends to them."""
        hyper, phase, rope = self.hyper, self.phase, self.hyper.rope_of(self.layer)
        if (
            not phase.products.joins
            or not rope
            or self.has(_SINKS)
            or phase.tokens > 1
            or phase.cache not in token.CACHES
        ):
            return False
        same = hyper.key_size == hyper.value_size and phase.length <= token.MOST_POSITIONS
        return same and token.uneven(hyper.key_size, rope.n_dims, rope.mode) is None

    def at_once(self, q: str, k: str, v: str) -> str:
        """What attention makes of heads as products and their norms left them."""
        hyper, phase, rope = self.hyper, self.phase, self.hyper.rope_of(self.layer)
        assert rope
        params: dict[str, Value] = {"mode": rope.mode, **self.score_params()}
        weights = self.weights_of_norms()
        if weights:
            params |= {"norm": "rms", "eps": hyper.eps}
        else:
            q, k = self.head_norm("q", q, hyper.heads), self.head_norm("k", k, hyper.groups)
            weights = dict.fromkeys(("q_weights", "k_weights"), self.unread_input())
        if rope.n_dims != hyper.key_size:
            params["n_dims"] = rope.n_dims
        if hyper.architecture.gated_heads:
            params["gated"] = "yes"
        return self.step(
            "attention",
            "flash_attn_token",
            (phase.batch, hyper.heads, hyper.groups, phase.length, hyper.key_size),
            params,
            self.attention_types(),
            k=self.cache("k", hyper.key_size)[1],
            v=self.cache("v", hyper.value_size)[1],
            q=q,
            new_k=k,
            new_v=v,
            turns=self.turns(rope),
            ids=self.input(ROWS, "i32", self.count),
            mask=self.mask(),
            **weights,
        )["y"]

    def weights_of_norms(self) -> dict[str, str]:
        """Weights of queries and keys that attention itself normalises; {} if other steps do."""
        names = {f"{head}_weights": f"attn_{head}_norm.weight" for head in "qk"}
        if self.hyper.architecture.norm != "rms_norm" or not all(map(self.has, names.values())):
            return {}
        return {
            binding: self.weight(f"blk.{self.layer}.{name}", "f32")
            for binding, name in names.items()
        }

    def attended_as(self) -> str:
        """The format of attention's results."""
        whole = (
            self.hyper.value_size % BLOCK == 0
            and not self.hyper.latent
            and self.phase.cache in ROUNDED
        )
        return "q8_1" if whole and self.rounds(*self.of_layer("attn_output")) else "f32"

    def head(self, x: str, branch: str | Due) -> None:
        """Logits of the tokens that are wanted."""
        tied = "output.weight" not in self.file.tensors
        output = "token_embd.weight" if tied else "output.weight"
        count = self.phase.wanted or self.count
        if count == self.count:
            # not joined: a matrix of so many rows is faster alone, by more than the norm takes
            last, y = self.normalise_rows(
                "output_norm", x, self.resolve_branch(branch), readers=[output]
            )
            self.streams.append(last)
        else:
            last = self.pick_wanted(x, self.resolve_branch(branch), count)
            self.count = count
            y = self.normalise_rows("output_norm", last, readers=[output])[1]
        weight = self.whole_tensor(output)
        cap, bias = self.hyper.logit_cap, self.bias("output.bias")
        logits = self.multiply_by("output", y, weight, "" if cap else LOGITS, bias)
        if cap:
            small = self.map_numbers("scale", logits, {"factor": 1 / cap}, self.hyper.vocabulary)
            bent = self.map_numbers("tanh", small, {}, self.hyper.vocabulary)
            self.map_numbers("scale", bent, {"factor": cap}, self.hyper.vocabulary, LOGITS)

    def pick_wanted(self, x: str, branch: str, count: int) -> str:
        """The last layer's results of the tokens that are wanted."""
        last = self.add_branch(x, branch)
        self.streams.append(last)
        ids = self.input(WANTED, "i32", count)
        chosen = (self.count, count, self.hyper.width)
        types = {"table": "f32"}
        return self.step("wanted", "get_rows", chosen, {}, types, table=last, ids=ids)["y"]
