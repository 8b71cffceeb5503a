"""GGUF files of tiny seeded models, one of every architecture, in any formats, written by gguf."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFValueType, GGUFWriter

from vkbench_shaders import catalogue
from vkbench_shaders.formats import format_named
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array
from vkbench_shaders.quantisers import quants

VOCABULARY = 61
Keys = dict[str, int | float | str | list[int]]
Vocabulary = dict[str, str | int | bool | list[str] | list[int] | list[float]]


@dataclass(frozen=True, kw_only=True)
class Tiny:
    """A model's sizes."""

    arch: str = "llama"
    fmt: str = "f32"  # of matrices; of several names, with commas, each has the next one
    layers: int = 2
    width: int = 64
    heads: int = 4
    groups: int = 2
    head: int = 16
    inner: int = 96
    experts: int = 0
    tied: bool = False
    drafts: bool = False  # whether a layer of qwen35 follows that guesses further tokens
    lite: bool = False  # whether queries of deepseek2 are made by one matrix

    @staticmethod
    def of(arch: str, **changes: object) -> Tiny:
        """A model of the architecture, with what it needs beside sizes."""
        needs: dict[str, object] = {}
        if "moe" in arch or arch in ("gpt-oss", "deepseek2", "qwen3next"):
            needs["experts"] = 4
        if arch == "gpt2" or arch in ENCODERS:
            needs["groups"] = 4
        if arch == "gemma3":
            needs["layers"] = 6
        if arch in HYBRID:
            needs["layers"] = 4
        return Tiny(arch=arch, **{**needs, **changes})  # type: ignore[arg-type]

    @staticmethod
    def wide(**changes: object) -> Tiny:
        """With rows of whole blocks of 256."""
        sizes = {"width": 256, "heads": 4, "groups": 2, "head": 64, "inner": 256}
        return Tiny.of(**{"arch": "llama", **sizes, **changes})  # type: ignore[arg-type]


def write_model(
    path: Path, tiny: Tiny, changes: Keys | None = None, vocabulary: Vocabulary | None = None
) -> Path:
    """A file of the model; `changes` are keys that it has beside or instead of the usual ones.

    A vocabulary has keys too: tokens, merges, scores and the like.
    """
    writer = GGUFWriter(path, tiny.arch)
    for key, value in {**_keys(tiny), **(changes or {})}.items():
        add = {
            bool: writer.add_bool,
            int: writer.add_uint32,
            float: writer.add_float32,
            str: writer.add_string,
            list: writer.add_array,
        }
        add[type(value)](f"{tiny.arch}.{key}", value)  # type: ignore[operator]
    if tiny.arch in ENCODERS:
        writer.add_token_type_count(2)
    for key, word in (vocabulary or {"model": "no_vocab"}).items():
        of_key = GGUFValueType.ARRAY if isinstance(word, list) else GGUFValueType.get_type(word)
        writer.add_key_value(f"tokenizer.ggml.{key}", word, of_key)
    formats = cycle(tiny.fmt.split(","))
    later: list[str] = []
    quantised = any(format_named(fmt).quantised for fmt in tiny.fmt.split(","))
    for number, (name, shape) in enumerate(_tensors(tiny)):
        is_plain = any(part in name.replace("ssm_alpha", "ssm_rate") for part in _NUMBERS)
        matrix = len(shape) > 1 and not is_plain
        fmt = next(formats) if matrix else "f32"
        before_blocks = shape[0] == tiny.width or "_a_norm" in name
        small = quantised and "norm" in name and before_blocks
        stored = _stored(
            name,
            "q4_0" if fmt == "q2_0" else fmt,
            shape,
            number,
            0.5 / np.sqrt(shape[0]) if small else 1.0,
        )
        kind = GGMLQuantizationType["Q4_0" if fmt == "q2_0" else fmt.upper()]
        writer.add_tensor(name, stored, raw_dtype=kind)
        later += [name] if fmt == "q2_0" else []
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for name in later:
        _make_q2_0(path, name)
    return path


_SMALL = (
    *("mix_first", "mix_lerp", "mix_w1", "mix_w2", "mix_decay", "mix_a", "mix_v1", "mix_v2"),
    *("mix_g1", "mix_g2", "mix_k_", "mix_r_k"),
)
# matrices that are f32 always
_NUMBERS = (
    "position",
    "token_types",
    "inp",
    "bias",
    "ssm_a",
    "ssm_d",
    "conv1d",
    "ssm_norm",
    *_SMALL,
)


def _make_q2_0(path: Path, name: str) -> None:
    """Give a tensor of q4_0 the type that gguf does not know: half of its bytes are of it then."""
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack("<Q", len(name)) + name.encode()) + 8 + len(name)
    dims = struct.unpack_from("<I", data, at)[0]
    struct.pack_into("<I", data, at + 4 + 8 * dims, format_named("q2_0").ggml)
    path.write_bytes(data)


def _keys(tiny: Tiny) -> Keys:
    rms = tiny.arch not in (*_CENTRED, *ENCODERS)
    found: Keys = {
        "block_count": tiny.layers,
        "context_length": 512,
        "embedding_length": tiny.width,
        "feed_forward_length": tiny.inner,
        "attention.head_count": tiny.heads,
        "attention.head_count_kv": tiny.groups,
        "attention.key_length": tiny.head,
        "attention.value_length": tiny.head,
        f"attention.layer_norm_{'rms_' if rms else ''}epsilon": 1e-5,
    }
    if tiny.arch in ENCODERS:
        found |= {"attention.causal": False, "pooling_type": 1, "vocab_size": VOCABULARY}
    if tiny.arch == "phi2":
        found["rope.dimension_count"] = tiny.head // 2
    if tiny.arch in ("rwkv6", "rwkv7"):
        return {name: found[name] for name in (*_SHARED_KEYS[:3], "feed_forward_length")} | {
            "attention.layer_norm_epsilon": 1e-5,
            "attention.head_count": 0,
            "wkv.head_size": tiny.head,
            "token_shift_count": 2,
            **(_SIXTH if tiny.arch == "rwkv6" else _SEVENTH),
        }
    if tiny.arch in ("mamba", "mamba2"):
        return {name: found[name] for name in _SHARED_KEYS} | _scan_keys(tiny)
    if tiny.experts:
        found |= {"expert_count": tiny.experts, "expert_used_count": 2}
    if tiny.arch == "phi3":
        found["rope.dimension_count"] = tiny.head - 4
    if tiny.arch in ("gemma2", "gemma3", "gpt-oss"):
        found["attention.sliding_window"] = 8
    if tiny.arch in ("gpt-oss", "deepseek2"):
        found["expert_feed_forward_length"] = tiny.inner
    if tiny.arch == "deepseek2":
        found |= _latent_keys(tiny)
    if tiny.arch in HYBRID:
        found |= _net_keys(tiny)
    return found


_SHARED_KEYS = (
    "block_count",
    "context_length",
    "embedding_length",
    "attention.layer_norm_rms_epsilon",
)


_SIXTH: Keys = {"time_mix_extra_dim": 8, "time_decay_extra_dim": 12}
_SEVENTH: Keys = {
    "attention.decay_lora_rank": 8,
    "attention.iclr_lora_rank": 4,
    "attention.value_residual_mix_lora_rank": 4,
    "attention.gate_lora_rank": 16,
}


def _scan_keys(tiny: Tiny) -> Keys:
    has_heads = tiny.arch == "mamba2"
    return {
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "ssm.conv_kernel": 4,
        "ssm.inner_size": 2 * tiny.width,
        "ssm.state_size": tiny.head,
        "ssm.time_step_rank": tiny.heads,
        **({"ssm.group_count": tiny.groups} if has_heads else {}),
    }


def _net_keys(tiny: Tiny) -> Keys:
    inner = {"expert_feed_forward_length": tiny.inner}
    shared = {"expert_shared_feed_forward_length": 2 * tiny.inner}
    return {
        **({**inner, **shared} if tiny.experts else {}),
        **({} if tiny.arch == "qwen3next" else {"rope.dimension_sections": [2, 1, 1, 0]}),
        "rope.dimension_count": tiny.head // 2,
        "ssm.conv_kernel": 4,
        "ssm.inner_size": tiny.heads * tiny.head,
        "ssm.state_size": tiny.head,
        "ssm.time_step_rank": tiny.heads,
        "ssm.group_count": tiny.groups,
        **({"block_count": tiny.layers + 1, "nextn_predict_layers": 1} if tiny.drafts else {}),
    }


def _latent_keys(tiny: Tiny) -> Keys:
    return {
        "attention.head_count_kv": 1,
        "attention.key_length": 3 * tiny.head,
        "attention.value_length": 2 * tiny.head,
        "attention.key_length_mla": 2 * tiny.head,
        "attention.value_length_mla": tiny.head,
        "attention.kv_lora_rank": 2 * tiny.head,
        **({} if tiny.lite else {"attention.q_lora_rank": 2 * tiny.head, "expert_gating_func": 2}),
        "rope.dimension_count": tiny.head,
        "leading_dense_block_count": 1,
        "expert_shared_count": 2,
        "expert_weights_scale": 2.5,
    }


def _tensors(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    width = tiny.width
    yield "token_embd.weight", (VOCABULARY, width)
    if tiny.arch in ("gpt2", "bert"):
        yield "position_embd.weight", (512, width)
    if tiny.arch in ENCODERS:
        yield "token_types.weight", (2, width)
        yield "token_embd_norm.weight", (width,)
        yield "token_embd_norm.bias", (width,)
    for layer in range(tiny.layers):
        # deepseek2's first layer has no experts
        sizes = replace(tiny, experts=0) if tiny.arch == "deepseek2" and not layer else tiny
        parts = _LAYERS[tiny.arch]
        if tiny.arch in HYBRID:
            parts = _qwen35_attention if (layer + 1) % 4 == 0 else _qwen35_net
        yield from ((f"blk.{layer}.{name}", shape) for name, shape in parts(sizes))
    if tiny.drafts:
        yield from ((f"blk.{tiny.layers}.{name}", shape) for name, shape in _drafting(tiny))
    if tiny.arch in ("rwkv6", "rwkv7"):
        yield "token_embd_norm.weight", (width,)
        yield "token_embd_norm.bias", (width,)
    if tiny.arch in ENCODERS:
        return
    yield "output_norm.weight", (width,)
    if tiny.arch in (*_CENTRED, "rwkv6", "rwkv7"):
        yield "output_norm.bias", (width,)
    if not tiny.tied and tiny.arch not in ("gpt2", "gemma2", "gemma3"):
        yield "output.weight", (VOCABULARY, width)
    if tiny.arch == "phi2":
        yield "output.bias", (VOCABULARY,)


def _attention(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    query, key = tiny.heads * tiny.head, tiny.groups * tiny.head
    yield "attn_norm.weight", (tiny.width,)
    for name, rows in (("q", query), ("k", key), ("v", key)):
        yield f"attn_{name}.weight", (rows, tiny.width)
        if tiny.arch in ("qwen2", "gpt-oss"):
            yield f"attn_{name}.bias", (rows,)
    if tiny.arch.startswith("qwen3") or tiny.arch == "gemma3":
        yield "attn_q_norm.weight", (tiny.head,)
        yield "attn_k_norm.weight", (tiny.head,)
    yield "attn_output.weight", (tiny.width, query)
    if tiny.arch == "gpt-oss":
        yield "attn_output.bias", (tiny.width,)
        yield "attn_sinks.weight", (tiny.heads,)
    is_behind = tiny.arch == "gpt-oss" or tiny.arch in HYBRID
    norm = "post_attention_norm" if is_behind else "ffn_norm"
    yield f"{norm}.weight", (tiny.width,)


def _deepseek2(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, rank, query = tiny.width, 2 * tiny.head, 2 * tiny.heads * tiny.head
    yield "attn_norm.weight", (width,)
    if tiny.lite:
        yield "attn_q.weight", (query, width)
    else:
        yield "attn_q_a.weight", (rank, width)
        yield "attn_q_a_norm.weight", (rank,)
        yield "attn_q_b.weight", (query, rank)
    yield "attn_kv_a_mqa.weight", (rank + tiny.head, width)
    yield "attn_kv_a_norm.weight", (rank,)
    yield "attn_k_b.weight", (tiny.heads, rank, tiny.head)
    yield "attn_v_b.weight", (tiny.heads, tiny.head, rank)
    yield "attn_output.weight", (width, tiny.heads * tiny.head)
    yield "ffn_norm.weight", (width,)
    yield from _forward(tiny)
    if tiny.experts:
        yield from _shared_experts(tiny)
        if not tiny.lite:
            yield "exp_probs_b.bias", (tiny.experts,)


def _shared_experts(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    inner = 2 * tiny.inner
    yield "ffn_gate_shexp.weight", (inner, tiny.width)
    yield "ffn_up_shexp.weight", (inner, tiny.width)
    yield "ffn_down_shexp.weight", (tiny.width, inner)


def _llama(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _attention(tiny)
    yield from _forward(tiny)


def _forward(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    width, inner = tiny.width, tiny.inner
    if tiny.experts:
        yield "ffn_gate_inp.weight", (tiny.experts, width)
        yield "ffn_gate_exps.weight", (tiny.experts, inner, width)
        yield "ffn_up_exps.weight", (tiny.experts, inner, width)
        yield "ffn_down_exps.weight", (tiny.experts, width, inner)
        return
    yield "ffn_gate.weight", (inner, width)
    yield "ffn_up.weight", (inner, width)
    yield "ffn_down.weight", (width, inner)


def _gemma2(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _llama(tiny)
    yield "post_attention_norm.weight", (tiny.width,)
    yield "post_ffw_norm.weight", (tiny.width,)


def _fused(tiny: Tiny) -> int:
    """Rows of a matrix of queries, keys and values."""
    return (tiny.heads + 2 * tiny.groups) * tiny.head


def _phi3(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "attn_norm.weight", (tiny.width,)
    yield "attn_qkv.weight", (_fused(tiny), tiny.width)
    yield "attn_output.weight", (tiny.width, tiny.heads * tiny.head)
    yield "ffn_norm.weight", (tiny.width,)
    yield "ffn_up.weight", (2 * tiny.inner, tiny.width)
    yield "ffn_down.weight", (tiny.width, tiny.inner)


def _gpt2(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    query = tiny.heads * tiny.head
    for name, rows, columns in (
        ("attn_qkv.weight", _fused(tiny), tiny.width),
        ("attn_output.weight", tiny.width, query),
        ("ffn_up.weight", tiny.inner, tiny.width),
        ("ffn_down.weight", tiny.width, tiny.inner),
    ):
        yield name, (rows, columns)
        yield name.replace("weight", "bias"), (rows,)
    for norm in ("attn_norm", "ffn_norm") if tiny.arch == "gpt2" else ("attn_norm",):
        yield f"{norm}.weight", (tiny.width,)
        yield f"{norm}.bias", (tiny.width,)


def _gpt_oss(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _llama(tiny)
    yield "ffn_gate_inp.bias", (tiny.experts,)
    for part, rows in (("gate", tiny.inner), ("up", tiny.inner), ("down", tiny.width)):
        yield f"ffn_{part}_exps.bias", (tiny.experts, rows)


def _mamba(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    inner, state, rank = 2 * tiny.width, tiny.head, tiny.heads
    shared = 2 * tiny.groups * state
    is_second = tiny.arch == "mamba2"
    channels = inner + shared if is_second else inner
    yield "attn_norm.weight", (tiny.width,)
    yield "ssm_in.weight", (inner + channels + (rank if is_second else 0), tiny.width)
    yield "ssm_conv1d.weight", (channels, 4)
    yield "ssm_conv1d.bias", (channels,)
    if is_second:
        yield "ssm_norm.weight", (tiny.groups, inner // tiny.groups)
    else:
        yield "ssm_x.weight", (rank + 2 * state, inner)
        yield "ssm_dt.weight", (inner, rank)
    yield "ssm_dt.bias", (rank if is_second else inner,)
    yield "ssm_a", (rank, 1) if is_second else (inner, state)
    yield "ssm_d", (rank, 1) if is_second else (inner,)
    yield "ssm_out.weight", (tiny.width, inner)


def _qwen35_attention(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, shape in _attention(tiny):
        doubled = name == "attn_q.weight"
        yield name, (2 * shape[0], shape[1]) if doubled else shape
    yield from _qwen35_forward(tiny)


def _qwen35_net(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    wide, values = tiny.width, tiny.heads * tiny.head
    channels = values + 2 * tiny.groups * tiny.head
    yield "attn_norm.weight", (wide,)
    yield "post_attention_norm.weight", (wide,)
    yield "attn_qkv.weight", (channels, wide)
    yield "attn_gate.weight", (values, wide)
    yield "ssm_conv1d.weight", (channels, 4)
    yield "ssm_dt.bias", (tiny.heads,)
    yield "ssm_a", (tiny.heads,)
    if tiny.arch == "qwen3next":
        yield "ssm_ba.weight", (2 * tiny.heads, wide)
    else:
        yield "ssm_beta.weight", (tiny.heads, wide)
        yield "ssm_alpha.weight", (tiny.heads, wide)
    yield "ssm_norm.weight", (tiny.head,)
    yield "ssm_out.weight", (wide, values)
    yield from _qwen35_forward(tiny)


def _drafting(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _qwen35_attention(tiny)
    yield "nextn.eh_proj.weight", (tiny.width, 2 * tiny.width)
    for norm in ("enorm", "hnorm"):
        yield f"nextn.{norm}.weight", (tiny.width,)


def _qwen35_forward(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from _forward(tiny)
    if tiny.experts:
        yield "ffn_gate_inp_shexp.weight", (tiny.width,)
        yield from _shared_experts(tiny)


def _rwkv(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    wide, heads, is_sixth = tiny.width, tiny.width // tiny.head, tiny.arch == "rwkv6"
    for norm in ("attn_norm", "attn_norm_2", "time_mix_ln"):
        yield f"{norm}.weight", (wide,)
        yield f"{norm}.bias", (wide,)
    for name in ("key", "value", "receptance", "output", *(["gate"] if is_sixth else [])):
        yield f"time_mix_{name}.weight", (wide, wide)
    yield "time_mix_lerp_fused.weight", (5 if is_sixth else 6, 1, 1, wide)
    yield "channel_mix_lerp_k.weight", (1, 1, wide)
    yield "channel_mix_key.weight", (tiny.inner, wide)
    yield "channel_mix_value.weight", (wide, tiny.inner)
    if is_sixth:
        yield "channel_mix_lerp_r.weight", (1, 1, wide)
        yield "channel_mix_receptance.weight", (wide, wide)
        yield "time_mix_lerp_x.weight", (1, 1, wide)
        yield "time_mix_w1.weight", (40, wide)
        yield "time_mix_w2.weight", (5, wide, 8)
        yield "time_mix_first.weight", (heads, tiny.head)
        yield "time_mix_decay.weight", (wide,)
        yield "time_mix_decay_w1.weight", (12, wide)
        yield "time_mix_decay_w2.weight", (wide, 12)
        return
    for name, rank in (("w", 8), ("a", 4), ("v", 4), ("g", 16)):
        yield f"time_mix_{name}1.weight", (rank, wide)
        yield f"time_mix_{name}2.weight", (wide, rank)
        if name != "g":
            yield f"time_mix_{name}0.weight", (wide,)
    for name in ("k_k", "k_a", "r_k"):
        yield f"time_mix_{name}.weight", (wide,)


def _bert(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    query, key, width = tiny.heads * tiny.head, tiny.groups * tiny.head, tiny.width
    matrices = {
        "attn_q": (query, width),
        "attn_k": (key, width),
        "attn_v": (key, width),
        "attn_output": (width, query),
        "ffn_up": (tiny.inner, width),
        "ffn_down": (width, tiny.inner),
    }
    for name, shape in matrices.items():
        yield f"{name}.weight", shape
        yield f"{name}.bias", shape[:1]
    yield from _norms_behind(tiny)


def _nomic_bert(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "attn_qkv.weight", (_fused(tiny), tiny.width)
    yield "attn_output.weight", (tiny.width, tiny.heads * tiny.head)
    yield from _forward(tiny)
    yield from _norms_behind(tiny)


def _norms_behind(tiny: Tiny) -> Iterator[tuple[str, tuple[int, ...]]]:
    for norm in ("attn_output_norm", "layer_output_norm"):
        yield f"{norm}.weight", (tiny.width,)
        yield f"{norm}.bias", (tiny.width,)


ENCODERS = ("bert", "nomic-bert")
HYBRID = ("qwen35", "qwen35moe", "qwen3next")  # those with gated delta nets in three of four layers
_CENTRED = ("gpt2", "phi2")  # those with layer_norm, of biases everywhere
_LAYERS: dict[str, Callable[[Tiny], Iterator[tuple[str, tuple[int, ...]]]]] = {
    "llama": _llama,
    "qwen2": _llama,
    "qwen3": _llama,
    "qwen3moe": _llama,
    "phi3": _phi3,
    "gpt2": _gpt2,
    "phi2": _gpt2,
    "gemma2": _gemma2,
    "gemma3": _gemma2,
    "gpt-oss": _gpt_oss,
    "deepseek2": _deepseek2,
    "mamba": _mamba,
    "mamba2": _mamba,
    **dict.fromkeys(HYBRID, _llama),
    "rwkv6": _rwkv,
    "rwkv7": _rwkv,
    "bert": _bert,
    "nomic-bert": _nomic_bert,
}


def _stored(name: str, fmt: str, shape: tuple[int, ...], seed: int, unit: float) -> Array:
    """Blocks whose numbers are about 1; numbers by the root of a row's length.

    Norms in front of blocks make vectors smaller instead.
    """
    numbers = np.random.Generator(np.random.Philox(key=seed))
    quantised = format_named(fmt).quantised
    if quantised and not format_named(fmt).encoded:
        rows, columns = int(np.prod(shape[:-1])), shape[-1]
        posed = catalogue.problem(f"mul_mat_vec/{fmt}/m{rows}_n1_k{columns}")
        made = np.roll(data.weights(posed, "weights"), seed, axis=0)
        return np.ascontiguousarray(made.reshape(*shape[:-1], -1))
    values: Array = np.asarray(numbers.standard_normal(shape, np.float32))
    root = np.sqrt(np.float32(shape[-1]))
    if "norm" in name and name.endswith("weight"):
        values = np.float32(unit) * (1 + values / 8)
    elif "_output_norm.bias" in name:  # behind a part of an encoder
        values = np.float32(unit) * values
    elif name.endswith("ssm_a"):
        values = -np.exp(values / 2)
    elif "inp_shexp" in name or (len(shape) > 1 and not quantised and "embd" not in name):
        values = values / root
    return quants.quantise(fmt, values)
