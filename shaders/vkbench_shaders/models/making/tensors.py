"""The tensors of a model, by llama.cpp's names, and how large their numbers have to be.

Every matrix keeps vectors about as long as it found them; what a layer adds to the sum of all
layers is so much smaller that the sum stays about as large as the embedding. So neither numbers
nor logits run away, however many layers there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import pi, prod, sqrt

import numpy as np

from vkbench_shaders.models.making.shape import CENTRED, CONVOLVED, ENCODERS, RWKV, TYPES, Shape

_LOGITS = 3.0  # standard deviation of logits: the likeliest token stands out, as in real models
_SCALED = ("gemma2", "gemma3")  # architectures that scale the embedding, with norms behind parts
_SCORES = 1.5  # how much longer queries and keys are than their inputs: attention has a focus


@dataclass(frozen=True, kw_only=True)
class TensorPlan:
    """A tensor to make: normal numbers about a mean, or given ones."""

    name: str
    shape: tuple[int, ...]  # rows are the last
    deviation: float
    mean: float = 0.0
    is_signed: bool = False  # whether the mean's sign is drawn too
    given: tuple[float, ...] = ()

    @property
    def count(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)

    @property
    def layer(self) -> int:
        """The layer it belongs to; -1 for none."""
        parts = self.name.split(".")
        return int(parts[1]) if parts[0] == "blk" else -1

    @property
    def kind(self) -> str:
        """What it is in its layer, such as attn_q.weight."""
        return self.name.split(".", 2)[2] if self.layer >= 0 else self.name


def plan_tensors(shape: Shape) -> list[TensorPlan]:
    """All tensors, in the order of the file."""
    return [*_before(shape), *(t for layer in range(shape.layers) for t in _layer(shape, layer))]


def _before(shape: Shape) -> Iterator[TensorPlan]:
    deviation = _LOGITS / sqrt(shape.width)
    vectors = (shape.vocabulary, shape.width)
    yield TensorPlan(name="token_embd.weight", shape=vectors, deviation=deviation)
    if shape.arch in ENCODERS:
        yield from _before_encoder(shape, deviation)
        return
    if shape.arch == "gpt2":
        places = (shape.context, shape.width)
        yield TensorPlan(name="position_embd.weight", shape=places, deviation=deviation / 2)
    # With random signs the output is no longer nearest to the token that was read.
    yield _norm("output_norm", shape.width, is_signed=shape.tied)
    if shape.arch in (*CENTRED, *RWKV):
        yield _bias("output_norm", shape.width)
    if shape.arch in RWKV:
        yield _norm("token_embd_norm", shape.width, mean=deviation)
        yield _bias("token_embd_norm", shape.width, deviation)
    if not shape.tied:
        yield TensorPlan(name="output.weight", shape=vectors, deviation=deviation)
        if shape.arch == "phi2":
            yield _bias("output", shape.vocabulary)
    if shape.rope_factors:
        factors = _rope_factors(shape)
        yield TensorPlan(
            name="rope_freqs.weight", shape=(len(factors),), deviation=0, given=factors
        )


def _before_encoder(shape: Shape, deviation: float) -> Iterator[TensorPlan]:
    """What an encoder adds to the embedding of a token, and the norm behind it."""
    rows = {"token_types": TYPES}
    if shape.arch == "bert":
        rows["position_embd"] = shape.context
    for name, count in rows.items():
        sizes = (count, shape.width)
        yield TensorPlan(name=f"{name}.weight", shape=sizes, deviation=deviation / 2)
    yield _norm("token_embd_norm", shape.width)
    yield _bias("token_embd_norm", shape.width)


def _encoder_layer(shape: Shape) -> Iterator[TensorPlan]:
    """A layer of an encoder, whose norms stand behind its parts."""
    wide, inner, is_biased = shape.width, shape.feed_forward, shape.arch == "bert"
    queries = {f"attn_{name}": (wide, wide) for name in "qkv"}
    matrices = {
        **(queries if is_biased else {"attn_qkv": (3 * wide, wide), "ffn_gate": (inner, wide)}),
        "attn_output": (wide, wide),
        "ffn_up": (inner, wide),
        "ffn_down": (wide, inner),
    }
    for name, sizes in matrices.items():
        yield _matrix(name, sizes, _SCORES if name in ("attn_q", "attn_k", "attn_qkv") else 1.0)
        if is_biased:
            yield _bias(name, sizes[0])
    for name in ("attn_output_norm", "layer_output_norm"):
        yield _norm(name, wide)
        yield _bias(name, wide)


def _layer(shape: Shape, layer: int) -> Iterator[TensorPlan]:
    if shape.state or shape.ranks or shape.arch in ENCODERS:
        parts = _scan(shape) if shape.state else _heads_with_states(shape, layer)
        if shape.arch in ENCODERS:
            parts = _encoder_layer(shape)
        yield from (replace(made, name=f"blk.{layer}.{made.name}") for made in parts)
        return
    attention = _latent if shape.rank else _attention
    if shape.nets and (layer + 1) % shape.interval:
        attention = _net
    sizes = shape
    if layer < shape.dense:
        sizes = replace(shape, experts=0, feed_forward=shape.dense_forward)
    for made in (*attention(shape), *_feed_forward(sizes)):
        yield replace(made, name=f"blk.{layer}.{made.name}")


def _attention(shape: Shape) -> Iterator[TensorPlan]:
    yield _norm("attn_norm", shape.width)
    joined = shape.arch in ("gpt2", "phi2", "phi3")
    queries = 2 * shape.query if shape.nets else shape.query  # with gates of what heads make
    sizes = {"attn_q": queries, "attn_k": shape.key, "attn_v": shape.key}
    if joined:
        sizes = {"attn_qkv": sum(sizes.values())}
    for name, size in sizes.items():
        gain = 1.0 if name == "attn_v" else _SCORES
        yield _matrix(name, (size, shape.width), gain)
        if shape.arch in (*CENTRED, "qwen2", "gpt-oss"):
            yield _bias(name, size)
    if shape.arch in ("qwen3", "qwen3moe", "gemma3") or shape.nets:
        yield _norm("attn_q_norm", shape.head_size)
        yield _norm("attn_k_norm", shape.head_size)
    # gates halve what heads make
    loss = 2.0 if shape.nets else 1.0
    yield _matrix("attn_output", (shape.width, shape.query), loss * _share(shape))
    if shape.arch in CENTRED:
        yield _bias("attn_norm", shape.width)
    if shape.arch in (*CENTRED, "gpt-oss"):
        yield _bias("attn_output", shape.width, _share(shape))
    if shape.arch == "gpt-oss":
        yield TensorPlan(name="attn_sinks.weight", shape=(shape.heads,), deviation=1.0)
    if shape.arch in _SCALED:
        yield _norm("post_attention_norm", shape.width, mean=_share(shape))


def _net(shape: Shape) -> Iterator[TensorPlan]:
    """A gated delta net: tokens are convolved, heads learn what they lack, and a gate follows."""
    keys, heads, size = shape.nets
    wide, values, channels = shape.width, heads * size, (2 * keys + heads) * size
    yield _norm("attn_norm", wide)
    yield _matrix("attn_qkv", (channels, wide))
    yield _matrix("attn_gate", (values, wide))
    yield _matrix("ssm_conv1d", (channels, CONVOLVED))
    yield TensorPlan(name="ssm_dt.bias", shape=(heads,), deviation=1.0, mean=-4.0)
    yield TensorPlan(name="ssm_a", shape=(heads,), deviation=1.5, mean=-8.0)
    joined = {"ssm_ba": 2 * heads}
    separate = {"ssm_beta": heads, "ssm_alpha": heads}
    for name, rows in (joined if shape.arch == "qwen3next" else separate).items():
        yield _matrix(name, (rows, wide))
    yield _norm("ssm_norm", size)
    yield _matrix("ssm_out", (wide, values), 2 * _share(shape))


def _latent(shape: Shape) -> Iterator[TensorPlan]:
    """Attention whose keys and values of all heads are made of one vector."""
    rank, short, heads, size = shape.rank, shape.query_rank, shape.heads, shape.head_size
    yield _norm("attn_norm", shape.width)
    if short:
        yield _matrix("attn_q_a", (short, shape.width))
        yield _norm("attn_q_a_norm", short)
    rows = heads * (size + shape.turned)
    yield _matrix("attn_q_b" if short else "attn_q", (rows, short or shape.width), _SCORES)
    yield _matrix("attn_kv_a_mqa", (rank + shape.turned, shape.width), _SCORES)
    yield _norm("attn_kv_a_norm", rank)
    yield TensorPlan(
        name="attn_k_b.weight", shape=(heads, rank, size), deviation=_SCORES / sqrt(rank)
    )
    yield _matrix("attn_v_b", (heads, size, rank))
    yield _matrix("attn_output", (shape.width, heads * size), _share(shape))


def _scan(shape: Shape) -> Iterator[TensorPlan]:
    """A layer of Mamba: tokens are convolved, scanned and gated."""
    wide, inner, shared = shape.width, shape.scanned, shape.kv_heads * shape.state
    heads = inner if shape.step_rank else shape.heads
    channels = inner if shape.step_rank else inner + 2 * shared
    yield _norm("attn_norm", wide)
    yield _matrix("ssm_in", (inner + channels + (0 if shape.step_rank else heads), wide))
    yield _matrix("ssm_conv1d", (channels, CONVOLVED))
    yield _bias("ssm_conv1d", channels)
    if shape.step_rank:
        yield _matrix("ssm_x", (shape.step_rank + 2 * shared, inner), gain=2.0)
        yield _matrix("ssm_dt", (inner, shape.step_rank))
    yield TensorPlan(name="ssm_dt.bias", shape=(heads,), deviation=1.0, mean=-4.0)
    decays = (inner, shape.state) if shape.step_rank else (heads, 1)
    yield TensorPlan(name="ssm_a", shape=decays, deviation=1.5, mean=-8.0)
    direct = (inner,) if shape.step_rank else (heads, 1)
    yield TensorPlan(name="ssm_d", shape=direct, deviation=0.1, mean=1.0)
    if not shape.step_rank:
        groups = (shape.kv_heads, inner // shape.kv_heads)
        yield TensorPlan(name="ssm_norm.weight", shape=groups, deviation=0.1, mean=1.0)
    loss = 4.0 if shape.step_rank else 1.4  # of length on the way, which the last matrix makes up
    yield _matrix("ssm_out", (wide, inner), loss * _share(shape))


def _heads_with_states(shape: Shape, layer: int) -> Iterator[TensorPlan]:
    """A layer of RWKV: heads that remember, and channels."""
    wide, inner, is_sixth = shape.width, shape.feed_forward, shape.arch == "rwkv6"
    for norm in ("attn_norm", "attn_norm_2", "time_mix_ln"):
        yield _norm(norm, wide)
        yield _bias(norm, wide)
    for name in ("key", "value", "receptance", *(["gate"] if is_sixth else [])):
        yield _matrix(f"time_mix_{name}", (wide, wide))
    yield _matrix("time_mix_output", (wide, wide), 2 * _share(shape))
    yield _shares("time_mix_lerp_fused", (5 if is_sixth else 6, 1, 1, wide))
    yield _shares("channel_mix_lerp_k", (1, 1, wide))
    yield _matrix("channel_mix_key", (inner, wide))
    yield _matrix("channel_mix_value", (wide, inner), _share(shape))
    if is_sixth:
        mixed, decayed = shape.ranks
        yield _shares("channel_mix_lerp_r", (1, 1, wide))
        yield _matrix("channel_mix_receptance", (wide, wide))
        yield _shares("time_mix_lerp_x", (1, 1, wide))
        yield _matrix("time_mix_w1", (5 * mixed, wide), 0.3)
        yield _matrix("time_mix_w2", (5, wide, mixed), 0.3)
        yield _shares("time_mix_first", (shape.heads, shape.head_size))
        yield TensorPlan(name="time_mix_decay.weight", shape=(wide,), deviation=1.0, mean=-2.0)
        yield _matrix("time_mix_decay_w1", (decayed, wide), 0.3)
        yield _matrix("time_mix_decay_w2", (wide, decayed))
        return
    for name, given in zip("wavg", shape.ranks, strict=True):
        # llama.cpp asks layer 0 for v's too, by the rank of its rates; no step reads them
        rank = shape.ranks[1] if name == "v" and not layer else given
        yield _matrix(f"time_mix_{name}1", (rank, wide))
        yield _matrix(f"time_mix_{name}2", (wide, rank))
        if name != "g":
            yield _shares(f"time_mix_{name}0", (wide,))
    yield _shares("time_mix_k_k", (wide,), 0.8)
    yield _shares("time_mix_k_a", (wide,), 0.8)
    yield TensorPlan(name="time_mix_r_k.weight", shape=(wide,), deviation=0.1)


def _shares(name: str, shape: tuple[int, ...], mean: float = 0.5) -> TensorPlan:
    """Numbers about the middle between 0 and 1, as what parts of two vectors have."""
    return TensorPlan(name=f"{name}.weight", shape=shape, deviation=0.1, mean=mean)


def _feed_forward(shape: Shape) -> Iterator[TensorPlan]:
    wide, inner = shape.width, shape.feed_forward
    if shape.arch != "phi2":
        is_behind = shape.arch == "gpt-oss" or shape.nets
        yield _norm("post_attention_norm" if is_behind else "ffn_norm", wide)
    if shape.experts:
        yield from _experts(shape)
        return
    if shape.arch == "phi3":
        yield _matrix("ffn_up", (2 * inner, wide))
    elif shape.arch not in CENTRED:
        yield _matrix("ffn_gate", (inner, wide))
    if shape.arch != "phi3":
        yield _matrix("ffn_up", (inner, wide))
    yield _matrix("ffn_down", (wide, inner), _share(shape))
    if shape.arch == "gpt2":
        yield _bias("ffn_norm", wide)
    if shape.arch in CENTRED:
        yield _bias("ffn_up", inner)
        yield _bias("ffn_down", wide, _share(shape))
    if shape.arch in _SCALED:
        yield _norm("post_ffw_norm", wide, mean=_share(shape))


def _experts(shape: Shape) -> Iterator[TensorPlan]:
    wide, inner, biased = shape.width, shape.feed_forward, shape.arch == "gpt-oss"
    yield _matrix("ffn_gate_inp", (shape.experts, wide), gain=2.0)
    if biased:
        yield _bias("ffn_gate_inp", shape.experts)
    for name, rows, columns, gain in (
        ("ffn_gate_exps", inner, wide, 1.0),
        ("ffn_up_exps", inner, wide, 1.0),
        ("ffn_down_exps", wide, inner, _share(shape)),
    ):
        yield _matrix(name, (shape.experts, rows, columns), gain)
        if biased:
            deviation = 0.1 * (1.0 if name != "ffn_down_exps" else gain)
            sizes = (shape.experts, rows)
            yield TensorPlan(name=f"{name}.bias", shape=sizes, deviation=deviation)
    if shape.shared:
        yield _matrix("ffn_gate_shexp", (shape.shared * inner, wide))
        yield _matrix("ffn_up_shexp", (shape.shared * inner, wide))
        yield _matrix("ffn_down_shexp", (wide, shape.shared * inner), _share(shape))
    if shape.shared and shape.nets:
        yield _matrix("ffn_gate_inp_shexp", (wide,))


def _share(shape: Shape) -> float:
    """How long one of a layer's two parts may be, so that all together are as the embedding."""
    embedding = _LOGITS if shape.arch in _SCALED else _LOGITS / sqrt(shape.width)
    return embedding / sqrt(2 * shape.layers)


def _matrix(name: str, shape: tuple[int, ...], gain: float = 1.0) -> TensorPlan:
    return TensorPlan(name=f"{name}.weight", shape=shape, deviation=gain / sqrt(shape[-1]))


def _norm(name: str, size: int, mean: float = 1.0, is_signed: bool = False) -> TensorPlan:
    return TensorPlan(
        name=f"{name}.weight",
        shape=(size,),
        deviation=0.1 * mean,
        mean=mean,
        is_signed=is_signed,
    )


def _bias(name: str, size: int, length: float = 1.0) -> TensorPlan:
    return TensorPlan(name=f"{name}.bias", shape=(size,), deviation=0.1 * length)


def _rope_factors(shape: Shape) -> tuple[float, ...]:
    """Divisors of Llama 3.2's frequencies: 1 for short waves, 32 for those beyond 8192."""
    most, trained, short, long = 32.0, 8192, 4.0, 1.0
    exponents = np.arange(0, shape.head_size, 2) / shape.head_size
    waves = 2 * pi * shape.rope_base**exponents
    smooth = np.clip((trained / waves - long) / (short - long), 0, 1)
    return tuple(float(1 / ((1 - share) / most + share)) for share in smooth)
