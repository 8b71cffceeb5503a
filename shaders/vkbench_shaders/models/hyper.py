"""Sizes and other hyperparameters of a model, from the keys and tensors of its GGUF file.

What is not supported is refused in one line that names the key or the tensor.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from typing import Final

from vkbench.errors import UsageError
from vkbench_shaders.gguf_file import SHA_DIGITS, GgufFile
from vkbench_shaders.models.architectures import (
    ARCHITECTURES,
    OPTIONAL,
    Architecture,
    refusal_of,
)
from vkbench_shaders.models.encoding import pooling
from vkbench_shaders.models.keys import (
    SIGMOID,
    Keys,
    Latent,
    Rope,
    epsilon_of,
    latent_of,
    layers_of,
    local_rope_of,
    rope_of,
    score_scale_of,
    shares_of,
    windows_of,
)
from vkbench_shaders.models.recurrent.sizes import (
    OUTER,
    TENSORS,
    Recurrent,
    check_shapes,
    recurrent_of,
)

_EXPERT: Final = ("gate", "up", "down")
_HEAD_BIASES: Final = ("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_qkv.bias")
_SHARED_GATE: Final = "ffn_gate_inp_shexp.weight"
_ROPES: Final = ("rope", "local_rope")
HASHED: Final = 1 << 16  # bytes of a tensor's beginning and end that its model's hash is made of


@dataclass(frozen=True, kw_only=True)
class Hyper:
    """What a graph and its reference need to know of a model, beside its weights."""

    architecture: Architecture
    layers: int
    width: int
    vocabulary: int
    eps: float
    heads: int = 1
    groups: int = 1  # heads of keys and values
    key_size: int = 0
    value_size: int = 0
    inner: int = 0  # of the feed-forward part, or of one expert
    scale: float = 1.0  # of scores
    rope: Rope | None = None
    local_rope: Rope | None = None  # of layers that see a window, if it is another
    experts: int = 0
    used: int = 0  # of the experts, by a token
    dense: int = 0  # layers that have no experts, the first ones
    gating: str = "softmax"  # of experts
    shares_sum: bool = True  # whether shares of a token's experts add up to one
    share_scale: float = 1.0  # factor of those shares
    expert_groups: int = 1
    expert_groups_used: int = 1  # groups that a token's experts are of
    latent: Latent | None = None
    recurrent: Recurrent | None = None  # sizes of layers that have states in place of attention
    recurring: tuple[int, ...] = ()  # those layers
    guessing: int = 0  # layers behind all others, which guess further tokens and are not run
    score_cap: float = 0.0
    logit_cap: float = 0.0
    window: int = 0
    period: int = 0  # of so many layers all but the last see the window
    trained_context: int = 0
    pooling: str = ""  # how an encoder makes one vector of a sequence's

    def window_of(self, layer: int) -> int:
        """Positions that a layer sees; 0: all."""
        return self.window if self.period and (layer + 1) % self.period else 0

    def rope_of(self, layer: int) -> Rope | None:
        """How a layer turns queries and keys."""
        return self.local_rope if self.local_rope and self.window_of(layer) else self.rope

    def has_experts(self, layer: int) -> bool:
        """Whether the feed-forward part of a layer is of experts."""
        return bool(self.experts) and layer >= self.dense

    def recurs(self, layer: int) -> bool:
        """Whether a layer has states in place of attention."""
        return layer in self.recurring

    @property
    def can_shift(self) -> bool:
        """Whether the oldest tokens can be dropped from all that a sequence leaves."""
        return self.rope is not None and not self.recurrent and not self.architecture.encodes

    @property
    def turned_back(self) -> Hyper:
        """This model, whose heads were turned before and are turned once more."""
        turned = {name: rope.back for name in _ROPES if (rope := getattr(self, name))}
        return replace(self, **turned)


def hyper_of(file: GgufFile, context: int = 0) -> Hyper:
    """The hyperparameters of a file's model for a context; 0: the trained one."""
    keys = Keys(file)
    architecture = _architecture(keys)
    make = _attentive_hyper if architecture.has_attention else _recurrent_hyper
    hyper = make(keys, architecture, context)
    _check_preferences(file, hyper)
    check_tensors(file, hyper)
    _check_room(file, hyper, context)
    return hyper


def predicting_hyper_of(file: GgufFile, context: int = 0) -> Hyper:
    """As `hyper_of`; UsageError of a model that makes no logits."""
    hyper = hyper_of(file, context)
    if hyper.architecture.encodes:
        name = hyper.architecture.name
        raise UsageError(f"{file.path}: a model of architecture {name} makes no logits")
    return hyper


def _recurrent_hyper(keys: Keys, architecture: Architecture, context: int) -> Hyper:
    """Of a model whose layers have states in place of attention."""
    layers, recurring = layers_of(keys, architecture)
    return Hyper(
        architecture=architecture,
        layers=layers,
        width=keys.size("embedding_length"),
        vocabulary=keys.file.tensor("token_embd.weight").shape[0],
        eps=epsilon_of(keys, architecture),
        recurrent=recurrent_of(keys, architecture.recurrence),
        recurring=recurring,
        trained_context=keys.count("context_length"),
    )


def _attentive_hyper(keys: Keys, architecture: Architecture, context: int) -> Hyper:
    """Of a model whose layers have attention."""
    width, heads = keys.size("embedding_length"), keys.size("attention.head_count")
    groups = keys.size("attention.head_count_kv", heads)
    key_size = keys.size("attention.key_length", width // heads)
    experts = keys.count("expert_count")
    if experts and not architecture.experts:
        able = ", ".join(name for name, known in ARCHITECTURES.items() if known.experts)
        raise keys.refusal_of("expert_count", f"is {experts}; experts are supported in {able}")
    if architecture.gate == "swiglu_oai" and not experts:
        raise keys.refusal_of(
            "expert_count", "is missing or 0: this gate is supported in experts alone"
        )
    if architecture.latent and groups != 1:
        raise keys.refusal_of(
            "attention.head_count_kv", f"is {groups}; latent attention has one head of keys"
        )
    if heads % groups:
        raise keys.refusal_of(
            "attention.head_count_kv", f"is {groups}, which does not divide {heads}"
        )
    value_size = keys.size("attention.value_length", key_size)
    if architecture.gated_heads and value_size != key_size:
        complaint = f"is {value_size}; gated heads have as many values as keys, {key_size}"
        raise keys.refusal_of("attention.value_length", complaint)
    inner = keys.size("feed_forward_length", 0)
    if experts:
        inner = keys.size("expert_feed_forward_length", inner)
    capped, rope = architecture.capped, rope_of(keys, architecture, key_size, context)
    latent = latent_of(keys) if architecture.latent else None
    window, period = windows_of(keys, architecture)
    shares = shares_of(keys, architecture)
    layers, recurring = layers_of(keys, architecture)
    recurrence = architecture.recurrence
    return Hyper(
        architecture=architecture,
        layers=layers,
        recurrent=recurrent_of(keys, recurrence) if recurrence else None,
        guessing=keys.size("block_count") - layers,
        recurring=recurring,
        width=width,
        heads=heads,
        groups=groups,
        key_size=key_size,
        value_size=value_size,
        inner=inner,
        vocabulary=keys.file.tensor("token_embd.weight").shape[0],
        eps=epsilon_of(keys, architecture),
        scale=score_scale_of(keys, architecture, width, heads, key_size),
        dense=shares.dense,
        gating=shares.gating,
        shares_sum=shares.shares_sum,
        share_scale=shares.share_scale,
        expert_groups=shares.groups,
        expert_groups_used=shares.groups_used,
        latent=latent,
        rope=rope,
        local_rope=local_rope_of(keys, architecture, rope),
        experts=experts,
        used=keys.size("expert_used_count") if experts else 0,
        score_cap=keys.number("attn_logit_softcapping", 50.0) if capped else 0.0,
        logit_cap=keys.number("final_logit_softcapping", 30.0 if capped else 0.0),
        window=window,
        period=period,
        trained_context=keys.count("context_length"),
        pooling=pooling.pooling_of(keys, architecture),
    )


def _check_preferences(file: GgufFile, hyper: Hyper) -> None:
    """UsageError if biases choose the experts of a model whose gates are a softmax."""
    preferred = [name for name in file.tensors if name.endswith("exp_probs_b.bias")]
    if preferred and hyper.gating == "softmax":
        raise UsageError(
            f"{file.path}: tensor {preferred[0]} is supported where "
            f"{hyper.architecture.name}.expert_gating_func is {SIGMOID}, sigmoid"
        )


def _check_room(file: GgufFile, hyper: Hyper, context: int) -> None:
    """UsageError if a model whose positions are learnt has fewer than are asked for."""
    places = file.tensors.get("position_embd.weight")
    if not hyper.rope and hyper.architecture.has_attention and not places:
        raise UsageError(f"{file.path}: tensor position_embd.weight is missing")
    if places and context > places.shape[0]:
        raise UsageError(f"{file.path}: {context} positions; the model has {places.shape[0]}")


def _architecture(keys: Keys) -> Architecture:
    if not keys.name:
        raise UsageError(f"{keys.file.path}: the key general.architecture is missing")
    if keys.name not in ARCHITECTURES:
        raise UsageError(f"{keys.file.path}: {refusal_of(keys.name)}")
    return ARCHITECTURES[keys.name]


def check_tensors(file: GgufFile, hyper: Hyper) -> None:
    """UsageError that names a tensor that is missing, or that this model would not use."""
    optional = pooling.OPTIONAL if hyper.architecture.encodes else OPTIONAL
    known = set(_outer(file, hyper)) | {
        f"blk.{layer}.{part}"
        for layer in range(hyper.layers)
        for part in optional
        if not _is_unread(hyper, layer, part)
    }
    for layer in range(hyper.layers):
        for part in _parts(file, hyper, layer):
            name = f"blk.{layer}.{part}"
            known.add(name)
            if name not in file.tensors:
                raise UsageError(f"{file.path}: tensor {name} is missing")
        _check_layer_shapes(file, hyper, layer)
    unused = [name for name in file.tensors if name not in known and _counts(hyper, name)]
    if unused:
        raise UsageError(
            f"{file.path}: tensor {unused[0]} has no place in a model of architecture "
            f"{hyper.architecture.name}"
        )


def _check_layer_shapes(file: GgufFile, hyper: Hyper, layer: int) -> None:
    """UsageError of a tensor of another shape, where steps would read what lies behind it."""
    prefix = f"blk.{layer}."
    if hyper.recurrent and hyper.recurs(layer):
        parts = TENSORS[hyper.architecture.recurrence]
        stored = {part: file.tensors[prefix + part].shape for part in parts}
        check_shapes(file.path, prefix, hyper.recurrent.shapes(stored), stored)
    needed: dict[str, tuple[int, ...]] = {_SHARED_GATE: (hyper.width,)}
    if hyper.architecture.gated_heads and not hyper.recurs(layer):
        needed["attn_q.weight"] = (2 * hyper.heads * hyper.key_size, hyper.width)
    stored = {
        part: file.tensors[prefix + part].shape for part in needed if prefix + part in file.tensors
    }
    check_shapes(file.path, prefix, needed, stored)


def _is_unread(hyper: Hyper, layer: int, part: str) -> bool:
    """Whether no step of this layer would read a tensor that other models' layers may have."""
    if hyper.recurs(layer):
        return True
    if part == "ffn_norm.bias":
        return hyper.architecture.forward_norm != "ffn_norm"
    if hyper.architecture.gated_heads and part in ("attn_q.bias", "attn_qkv.bias"):
        return True
    return part in _HEAD_BIASES and hyper.latent is not None


def _counts(hyper: Hyper, name: str) -> bool:
    """Whether a tensor would change results: factors of the other context length do not.

    Nor do layers of a hybrid model that only guess further tokens.
    """
    if hyper.guessing and (found := re.match(r"blk\.(\d+)\.", name)):
        return not hyper.layers <= int(found[1]) < hyper.layers + hyper.guessing
    return not re.fullmatch(r"rope_.*|blk\.\d+\.rope_freqs\.weight", name)


def _outer(file: GgufFile, hyper: Hyper) -> tuple[str, ...]:
    """Tensors outside of the layers."""
    needed: tuple[str, ...] = pooling.OUTER
    if not hyper.architecture.encodes:
        more = OUTER.get(hyper.architecture.recurrence, ())
        needed = ("token_embd.weight", "output_norm.weight", *more)
    for name in needed:
        file.tensor(name)
    if hyper.architecture.encodes:
        return (*needed, *pooling.OPTIONAL_OUTER)
    optional = ("output.weight", "output.bias", "output_norm.bias", "position_embd.weight")
    return (*needed, *optional)


def _parts(file: GgufFile, hyper: Hyper, layer: int) -> list[str]:
    """Tensors that a layer has to have, behind its prefix."""
    recurring = TENSORS.get(hyper.architecture.recurrence, ())
    if not hyper.architecture.has_attention:
        return [*recurring]
    if hyper.recurs(layer):
        return ["attn_norm.weight", *recurring, *_outside_attention(file, hyper, layer)]
    fused = f"blk.{layer}.attn_qkv.weight" in file.tensors and not hyper.architecture.gated_heads
    attention = ["attn_qkv"] if fused else ["attn_q", "attn_k", "attn_v"]
    if latent := hyper.latent:
        queries = ["attn_q_a", "attn_q_a_norm", "attn_q_b"] if latent.query_rank else ["attn_q"]
        attention = [*queries, "attn_kv_a_mqa", "attn_kv_a_norm", "attn_k_b", "attn_v_b"]
    norms = pooling.NORMS if hyper.architecture.encodes else ("attn_norm",)
    names = [f"{name}.weight" for name in (*norms, *attention, "attn_output")]
    return [*names, *_outside_attention(file, hyper, layer)]


def _outside_attention(file: GgufFile, hyper: Hyper, layer: int) -> list[str]:
    """Tensors of the feed-forward part that a layer has to have, and of the norm before it."""
    shared = hyper.architecture.shared
    if hyper.has_experts(layer):
        forward = ["ffn_gate_inp", *(f"ffn_{part}_exps" for part in _EXPERT)]
        if shared and f"blk.{layer}.ffn_up_shexp.weight" in file.tensors:
            forward += [f"ffn_{part}_shexp" for part in _EXPERT]
            forward += ["ffn_gate_inp_shexp"] if shared == "gated" else []
    elif hyper.architecture.gate and (
        hyper.architecture.encodes or f"blk.{layer}.ffn_gate.weight" in file.tensors
    ):
        forward = ["ffn_gate", "ffn_up", "ffn_down"]
    else:
        forward = ["ffn_up", "ffn_down"]
    norm = hyper.architecture.forward_norm
    return [f"{name}.weight" for name in (*([norm] if norm else []), *forward)]


def hash_of(file: GgufFile) -> str:
    """The first digits of a SHA-256 that tells models apart.

    It is made of every key and tensor that the header names, and of the first and last bytes of
    each tensor: the whole of a large file would take a minute to read.
    """
    digest = hashlib.sha256(repr(sorted(file.keys.items())).encode())
    with file.path.open("rb") as opened:
        for tensor in file.tensors.values():
            digest.update(repr((tensor.name, tensor.number, tensor.shape)).encode())
            for start in {0, max(0, tensor.bytes - HASHED)}:
                opened.seek(tensor.offset + start)
                digest.update(opened.read(min(HASHED, tensor.bytes)))
    return digest.hexdigest()[:SHA_DIGITS]
