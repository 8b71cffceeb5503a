"""A model in float64: what its logits are, from the weights that a file's blocks stand for.

Written from the architectures' definitions, and not from the graph that runs on devices: it joins
no kernels and splits no tensors, so that a graph that is wired wrongly differs from it. Keys and
values are rounded to the format of the cache, as the device does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.kernels.shared import activations, gates
from vkbench_shaders.models.encoding.reference import attend_to_all, end_layer, pool_rows
from vkbench_shaders.models.hyper import Hyper
from vkbench_shaders.models.keys import LEAST_SUM, Rope
from vkbench_shaders.models.recurrent.reference import mix_in_place_of_attention, recur
from vkbench_shaders.models.recurrent.sizes import Memory
from vkbench_shaders.models.reference_weights import Floats, LayerWeights, multiply, normalise
from vkbench_shaders.quantisers import quants

Tokens = NDArray[np.integer]


@dataclass
class Cache:
    """Keys and values of a layer's earlier positions: (positions, groups, size)."""

    keys: Floats
    values: Floats


@dataclass(kw_only=True)
class Reference:
    """A model, and the cache of what it has read."""

    file: GgufFile
    hyper: Hyper
    cache_format: str = "f16"
    caches: dict[int, Cache] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)  # in place of caches, of layers with states
    held: dict[str, Floats] = field(default_factory=dict)  # weights outside of layers

    def logits(self, tokens: Tokens) -> Floats:
        """Logits of these tokens, which follow those read before: (tokens, vocabulary)."""
        first = max((len(cache.keys) for cache in self.caches.values()), default=0)
        positions = np.arange(first, first + len(tokens))
        x = self.embed_tokens(tokens, positions)
        for layer in range(self.hyper.layers):
            x = self.layer(layer, x, positions)
        return self.head(x)

    def embedding(self, tokens: Tokens) -> Floats:
        """What an encoder makes of the tokens of a sequence."""
        positions = np.arange(len(tokens))
        x = self.embed_tokens(tokens, positions)
        for layer in range(self.hyper.layers):
            x = self.layer(layer, x, positions)
        return pool_rows(self.hyper.pooling, x)

    def shift(self, dropped: int) -> None:
        """Drop the oldest positions; the others move to the front, their keys turned back."""
        back = self.hyper.turned_back
        for layer, cache in self.caches.items():
            keys, values = cache.keys[dropped:], cache.values[dropped:]
            rope = back.rope_of(layer)
            assert rope
            turned = self._turn_heads(rope, keys, np.full(len(keys), -dropped))
            self.caches[layer] = Cache(
                keys=self._round_as_cached(turned), values=self._round_as_cached(values)
            )

    def embed_tokens(self, tokens: Tokens, positions: NDArray[np.integer]) -> Floats:
        """Rows of the embedding."""
        x = self._rows("token_embd.weight", tokens)
        if self.hyper.architecture.scaled_embedding:
            x = x * sqrt(self.hyper.width)
        weight, encodes = LayerWeights(self.file, "", self.held), self.hyper.architecture.encodes
        is_normed = "token_embd_norm.weight" in weight
        if is_normed and not encodes:
            x = normalise(self.hyper, weight, "token_embd_norm", x)
        if "token_types.weight" in weight:
            x = x + weight["token_types.weight"][0]
        if "position_embd.weight" in weight:
            x = x + self._rows("position_embd.weight", positions)
        return normalise(self.hyper, weight, "token_embd_norm", x) if encodes else x

    def layer(self, layer: int, x: Floats, positions: NDArray[np.integer]) -> Floats:
        """What a layer makes of the vectors of tokens at these positions."""
        weight = self._weights_of(layer)
        if not self.hyper.architecture.has_attention:
            return recur(self.hyper, layer, weight, x, self.memory)
        if self.hyper.architecture.encodes:
            return end_layer(self.hyper, weight, x, self._see_all(layer, weight, x, positions))
        y = normalise(self.hyper, weight, "attn_norm", x)
        norm = self.hyper.architecture.forward_norm
        if self.hyper.recurs(layer):
            attended = mix_in_place_of_attention(self.hyper, layer, weight, y, self.memory)
        else:
            attended = self._attention(layer, weight, y, positions)
        if "post_attention_norm.weight" in weight and norm != "post_attention_norm":
            attended = normalise(self.hyper, weight, "post_attention_norm", attended)
        x = x + attended
        forward = self._experts if self.hyper.has_experts(layer) else self._forward
        made = forward(weight, normalise(self.hyper, weight, norm, x) if norm else y)
        if "post_ffw_norm.weight" in weight:
            made = normalise(self.hyper, weight, "post_ffw_norm", made)
        return x + made

    def head(self, x: Floats, words: NDArray[np.integer] | None = None) -> Floats:
        """Logits of the last layer's vectors; only of some of the vocabulary if given."""
        weight = LayerWeights(self.file, "", self.held)
        name = "output" if "output.weight" in weight else "token_embd"
        y = normalise(self.hyper, weight, "output_norm", x)
        logits = (
            multiply(weight, name, y)
            if words is None
            else y @ self._rows(f"{name}.weight", words).T
        )
        if words is not None and f"{name}.bias" in weight:
            logits = logits + weight[f"{name}.bias"][words]
        if cap := self.hyper.logit_cap:
            logits = cap * np.tanh(logits / cap)
        return np.asarray(logits)

    def _rows(self, name: str, rows: NDArray[np.integer]) -> Floats:
        fmt = self.file.tensor(name).format
        assert fmt
        distinct, places = np.unique(rows, return_inverse=True)
        stored = np.concatenate([self.file.rows(name, int(row), 1) for row in distinct])
        return quants.dequantise(fmt.name, stored)[places]

    def _weights_of(self, layer: int) -> LayerWeights:
        return LayerWeights(self.file, f"blk.{layer}.", {})

    def _see_all(
        self, layer: int, weight: LayerWeights, x: Floats, positions: NDArray[np.integer]
    ) -> Floats:
        """What each token's heads see of all tokens."""
        hyper, count = self.hyper, len(x)
        q, k, v = self._project_heads(weight, x)
        q, k = q.reshape(count, hyper.heads, -1), k.reshape(count, hyper.groups, -1)
        if rope := hyper.rope_of(layer):
            q, k = (self._turn_heads(rope, part, positions) for part in (q, k))
        return attend_to_all(hyper, q, k, v.reshape(count, hyper.groups, -1))

    def _attention(
        self, layer: int, weight: LayerWeights, x: Floats, positions: NDArray[np.integer]
    ) -> Floats:
        hyper, count = self.hyper, len(x)
        if hyper.latent:
            return self._latent_attention(layer, weight, x, positions)
        q, k, v = self._project_heads(weight, x)
        q, k = q.reshape(count, hyper.heads, -1), k.reshape(count, hyper.groups, -1)
        gate = None
        if hyper.architecture.gated_heads:
            q, gate = (part.copy() for part in np.split(q, 2, axis=-1))
        for name, part in (("attn_q_norm", q), ("attn_k_norm", k)):
            if f"{name}.weight" in weight:
                part[...] = normalise(self.hyper, weight, name, part)
        if rope := hyper.rope_of(layer):
            q, k = (self._turn_heads(rope, part, positions) for part in (q, k))
        cache = self.append_positions(layer, k.reshape(count, -1), v)
        sinks = weight.find("attn_sinks.weight")
        attended = self._attend_positions(layer, q, cache, positions, sinks)
        if gate is not None:
            attended = attended * activations.sigmoid(gate).reshape(count, -1)
        return multiply(weight, "attn_output", attended)

    def _latent_attention(
        self, layer: int, weight: LayerWeights, x: Floats, positions: NDArray[np.integer]
    ) -> Floats:
        """Attention whose cache holds one short vector, of which every head makes its own keys."""
        hyper, latent, rope = self.hyper, self.hyper.latent, self.hyper.rope_of(layer)
        assert latent
        assert rope
        source = x
        if latent.query_rank:
            source = normalise(self.hyper, weight, "attn_q_a_norm", multiply(weight, "attn_q_a", x))
        q = multiply(weight, "attn_q_b" if latent.query_rank else "attn_q", source)
        q = q.reshape(len(x), hyper.heads, -1)
        plain, turned = np.split(q, [latent.nope], axis=-1)
        turned = self._turn_heads(rope, turned, positions)
        short, ends = np.split(multiply(weight, "attn_kv_a_mqa", x), [latent.rank], axis=-1)
        short = normalise(self.hyper, weight, "attn_kv_a_norm", short)
        ends = self._turn_heads(rope, ends[:, None], positions)[:, 0]
        cache = self.append_positions(layer, np.concatenate([ends, short], axis=-1), short)
        ends, short = np.split(cache.keys[:, 0], [latent.turned], axis=-1)
        seen = np.arange(len(ends)) <= positions[:, None]
        made = []
        for head in range(hyper.heads):
            keys = short @ weight["attn_k_b.weight"][head]
            scores = plain[:, head] @ keys.T + turned[:, head] @ ends.T
            shares = _softmax(np.where(seen, scores * hyper.scale, -np.inf))
            made.append(shares @ (cache.values[:, 0] @ weight["attn_v_b.weight"][head].T))
        return multiply(weight, "attn_output", np.concatenate(made, axis=-1))

    def _project_heads(self, weight: LayerWeights, x: Floats) -> tuple[Floats, Floats, Floats]:
        hyper = self.hyper
        if "attn_qkv.weight" not in weight:
            q, k, v = (multiply(weight, f"attn_{part}", x) for part in "qkv")
            return q, k, v
        ends = hyper.heads * hyper.key_size, (hyper.heads + hyper.groups) * hyper.key_size
        q, k, v = np.split(multiply(weight, "attn_qkv", x), ends, axis=-1)
        return q.copy(), k.copy(), v

    def append_positions(self, layer: int, k: Floats, v: Floats) -> Cache:
        """The layer's cache with the new positions in it."""
        k, v = (
            self._round_as_cached(part.reshape(len(part), self.hyper.groups, -1)) for part in (k, v)
        )
        if before := self.caches.get(layer):
            k, v = np.concatenate([before.keys, k]), np.concatenate([before.values, v])
        self.caches[layer] = Cache(keys=k, values=v)
        return self.caches[layer]

    def _round_as_cached(self, x: Floats) -> Floats:
        """Keys or values (positions, groups, size) as a cache holds them: in rows of a position."""
        rows = quants.quantise(self.cache_format, x.reshape(len(x), -1))
        return quants.dequantise(self.cache_format, rows).reshape(x.shape)

    def _attend_positions(
        self,
        layer: int,
        q: Floats,
        cache: Cache,
        positions: NDArray[np.integer],
        sinks: Floats | None,
    ) -> Floats:
        hyper, known = self.hyper, np.arange(len(cache.keys))
        seen = known <= positions[:, None]
        if window := hyper.window_of(layer):
            seen &= known > positions[:, None] - window
        heads = []
        for head in range(hyper.heads):
            group = head * hyper.groups // hyper.heads
            scores = q[:, head] @ cache.keys[:, group].T * hyper.scale
            if cap := hyper.score_cap:
                scores = cap * np.tanh(scores / cap)
            scores = np.where(seen, scores, -np.inf)
            weights = _softmax(scores, None if sinks is None else sinks[head])
            heads.append(weights @ cache.values[:, group])
        return np.concatenate(heads, axis=-1)

    def _turn_heads(self, rope: Rope, x: Floats, positions: NDArray[np.integer]) -> Floats:
        pairs = np.arange(rope.n_dims // 2)
        angles = positions[:, None] * rope.freq_base ** (-2.0 * pairs / rope.n_dims)
        if rope.factors:
            angles = angles / self.file.read(rope.factors).astype(np.float64)
        angles = angles * _scales(rope, pairs)
        turn = rope.magnitude * np.exp(1j * angles)[:, None]
        made, half = x.copy(), rope.n_dims // 2
        if rope.mode == "norm":
            turned = (x[..., 0 : 2 * half : 2] + 1j * x[..., 1 : 2 * half : 2]) * turn
            made[..., 0 : 2 * half : 2], made[..., 1 : 2 * half : 2] = turned.real, turned.imag
        else:
            turned = (x[..., :half] + 1j * x[..., half : 2 * half]) * turn
            made[..., :half], made[..., half : 2 * half] = turned.real, turned.imag
        return made

    def _forward(self, weight: LayerWeights, x: Floats, kind: str = "") -> Floats:
        """A gated unit; `kind` is behind its tensors' names."""
        gate = self.hyper.architecture.gate
        up = multiply(weight, f"ffn_up{kind}", x)
        if not gate:
            return multiply(weight, f"ffn_down{kind}", activations.gelu(up))
        if f"ffn_gate{kind}.weight" in weight:
            gated = multiply(weight, f"ffn_gate{kind}", x)
        else:
            gated, up = np.split(up, 2, axis=-1)
        return multiply(weight, f"ffn_down{kind}", _GATES[gate](gated, up))

    def _experts(self, weight: LayerWeights, x: Floats) -> Floats:
        """Tokens through their experts, by shares of the best, and through those of all tokens."""
        hyper, logits = self.hyper, multiply(weight, "ffn_gate_inp", x)
        odds = _softmax(logits) if hyper.gating == "softmax" else activations.sigmoid(logits)
        preferences = weight.find("exp_probs_b.bias")
        preferred = odds if preferences is None else odds + preferences
        preferred = self._hide_groups(preferred)
        best = np.argsort(-preferred, axis=-1, kind="stable")[:, : hyper.used]
        shares = np.take_along_axis(odds, best, -1)
        if hyper.shares_sum:
            shares = shares / np.maximum(shares.sum(axis=-1, keepdims=True), LEAST_SUM)
        shares = shares * hyper.share_scale
        made, activate = np.zeros_like(x), _GATES[self.hyper.architecture.gate]
        for expert in np.unique(best):
            gate, up, down = (_Expert(weight, part, int(expert)) for part in _EXPERT)
            for token, place in np.argwhere(best == expert):
                inner = activate(gate.times(x[token]), up.times(x[token]))
                made[token] += shares[token, place] * down.times(inner)
        if "ffn_up_shexp.weight" not in weight:
            return made
        shared = self._forward(weight, x, "_shexp")
        if "ffn_gate_inp_shexp.weight" in weight:
            opened = activations.sigmoid(x @ weight["ffn_gate_inp_shexp.weight"].reshape(-1))
            shared = shared * opened[:, None]
        return made + shared

    def _hide_groups(self, preferred: Floats) -> Floats:
        """Preferences of experts, -Inf where the two best of a group do not lead to it."""
        hyper = self.hyper
        if hyper.expert_groups == 1:
            return preferred
        by_group = preferred.reshape(len(preferred), hyper.expert_groups, -1)
        sums = np.sort(by_group)[..., -2:].sum(axis=-1)
        places = np.argsort(np.argsort(-sums, kind="stable"), kind="stable")
        is_used = (places < hyper.expert_groups_used)[..., None]
        return np.where(is_used, by_group, -np.inf).reshape(preferred.shape)


_EXPERT = ("gate", "up", "down")
_GATES: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "swiglu": lambda gated, up: activations.silu(gated) * up,
    "geglu": lambda gated, up: activations.gelu(gated) * up,
    "swiglu_oai": partial(gates.swiglu_oai, alpha=1.702, limit=7.0),
}


class _Expert:
    """A matrix of one expert, and its bias."""

    def __init__(self, weight: LayerWeights, part: str, number: int) -> None:
        self._matrix = weight.expert(f"ffn_{part}_exps.weight", number)
        bias = f"ffn_{part}_exps.bias"
        self._bias = weight[bias][number] if bias in weight else 0.0

    def times(self, x: Floats) -> Floats:
        """What it makes of a vector."""
        return np.asarray(self._matrix @ x + self._bias)


def _softmax(scores: Floats, sink: float | None = None) -> Floats:
    """Shares of the scores of each row; a sink is one more score, whose share is lost."""
    most = scores.max(axis=-1, keepdims=True)
    weights = np.exp(scores - most)
    beside = 0.0 if sink is None else np.exp(sink - most)
    return np.asarray(weights / (weights.sum(axis=-1, keepdims=True) + beside))


def _scales(rope: Rope, pairs: NDArray[np.integer]) -> Floats | float:
    """What angles of pairs are multiplied by: yarn leaves those of fast pairs."""
    if not rope.ext_factor:
        return rope.freq_scale
    low, high = (
        rope.n_dims * log(rope.n_ctx_orig / (turns * 2 * pi)) / (2 * log(rope.freq_base))
        for turns in (rope.beta_fast, rope.beta_slow)
    )
    first, last = max(0, np.floor(low)), min(rope.n_dims - 1, np.ceil(high))
    slow = np.clip((pairs - first) / max(1, last - first), 0, 1)
    share = (1 - slow) * rope.ext_factor
    return np.asarray(rope.freq_scale * (1 - share) + share)
