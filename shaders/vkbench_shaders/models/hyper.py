"""Sizes and other hyperparameters of a model, from the keys and tensors of its GGUF file.

What is not supported is refused in one line that names the key or the tensor.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Final

import numpy as np

from vkbench.errors import UsageError
from vkbench_shaders.gguf_file import SHA_DIGITS, GgufFile
from vkbench_shaders.models.architectures import ARCHITECTURES, OPTIONAL, Architecture

_SCALINGS: Final = ("none", "linear", "yarn", "longrope")
_ROPES: Final = ("rope", "local_rope")
HASHED: Final = 1 << 16  # bytes of a tensor's beginning and end that its model's hash is made of


@dataclass(frozen=True, kw_only=True)
class Rope:
    """How queries and keys are turned; fields are the kernel rope's parameters."""

    mode: str
    n_dims: int
    freq_base: float
    freq_scale: float = 1.0
    ext_factor: float = 0.0
    attn_factor: float = 1.0
    n_ctx_orig: int = 4096
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    factors: str = ""  # the tensor of divisors, if any

    @property
    def magnitude(self) -> float:
        """How much longer what is turned becomes."""
        return self.attn_factor * self._stretch

    @property
    def back(self) -> Rope:
        """This rope without a change of lengths, for what was turned before."""
        return replace(self, attn_factor=1 / self._stretch)

    @property
    def _stretch(self) -> float:
        return 1 + 0.1 * log(1 / self.freq_scale) if self.ext_factor else 1.0


@dataclass(frozen=True, kw_only=True)
class Hyper:
    """What a graph and its reference need to know of a model, beside its weights."""

    architecture: Architecture
    layers: int
    width: int
    heads: int
    groups: int  # heads of keys and values
    key_size: int
    value_size: int
    inner: int  # of the feed-forward part, or of one expert
    vocabulary: int
    eps: float
    scale: float  # of scores
    rope: Rope | None
    local_rope: Rope | None = None  # of layers that see a window, if it is another
    experts: int = 0
    used: int = 0  # of the experts, by a token
    score_cap: float = 0.0
    logit_cap: float = 0.0
    window: int = 0
    period: int = 0  # of so many layers all but the last see the window
    trained_context: int = 0

    def window_of(self, layer: int) -> int:
        """Positions that a layer sees; 0: all."""
        return self.window if self.period and (layer + 1) % self.period else 0

    def rope_of(self, layer: int) -> Rope | None:
        """How a layer turns queries and keys."""
        return self.local_rope if self.local_rope and self.window_of(layer) else self.rope

    @property
    def turned_back(self) -> Hyper:
        """This model, whose heads were turned before and are turned once more."""
        turned = {name: rope.back for name in _ROPES if (rope := getattr(self, name))}
        return replace(self, **turned)


class _Keys:
    """The keys of a file, each with its architecture's prefix."""

    def __init__(self, file: GgufFile) -> None:
        self.file = file
        self.name = str(file.keys.get("general.architecture", ""))

    def refusal_of(self, key: str, complaint: str) -> UsageError:
        return UsageError(f"{self.file.path}: {self.name}.{key} {complaint}")

    def value(self, key: str) -> object:
        return self.file.keys.get(f"{self.name}.{key}")

    def size(self, key: str, default: int | None = None) -> int:
        value = self.value(key)
        if value is None and default is not None:
            return default
        if isinstance(value, tuple) and len(set(value)) == 1:
            value = value[0]  # one for each layer, all alike
        if not isinstance(value, int) or value < 1:
            raise self.refusal_of(key, f"has to be a size, alike in all layers; it is {value}")
        return int(value)

    def number(self, key: str, default: float | None = None) -> float:
        value = self.value(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, float | int):
            raise self.refusal_of(key, f"has to be a number; it is {value}")
        return float(str(np.float32(value)))  # 1e-05 and not 9.999999747378752e-06


def hyper_of(file: GgufFile, context: int = 0) -> Hyper:
    """The hyperparameters of a file's model for a context; 0: the trained one."""
    keys = _Keys(file)
    architecture = _architecture(keys)
    width, heads = keys.size("embedding_length"), keys.size("attention.head_count")
    groups = keys.size("attention.head_count_kv", heads)
    key_size = keys.size("attention.key_length", width // heads)
    experts = keys.size("expert_count", 0) if keys.value("expert_count") else 0
    if experts and not architecture.experts:
        able = ", ".join(name for name, each in ARCHITECTURES.items() if each.experts)
        raise keys.refusal_of("expert_count", f"is {experts}; experts are supported in {able}")
    if heads % groups:
        raise keys.refusal_of(
            "attention.head_count_kv", f"is {groups}, which does not divide {heads}"
        )
    inner = keys.size("feed_forward_length", 0)
    if experts:
        inner = keys.size("expert_feed_forward_length", inner)
    capped, rope = architecture.capped, _rope(keys, architecture, key_size, context)
    window, period = _windows(keys, architecture)
    hyper = Hyper(
        architecture=architecture,
        layers=keys.size("block_count"),
        width=width,
        heads=heads,
        groups=groups,
        key_size=key_size,
        value_size=keys.size("attention.value_length", key_size),
        inner=inner,
        vocabulary=file.tensor("token_embd.weight").shape[0],
        eps=_eps(keys, architecture),
        scale=_score_scale(keys, architecture, width, heads, key_size),
        rope=rope,
        local_rope=_local_rope(keys, architecture, rope),
        experts=experts,
        used=keys.size("expert_used_count") if experts else 0,
        score_cap=keys.number("attn_logit_softcapping", 50.0) if capped else 0.0,
        logit_cap=keys.number("final_logit_softcapping", 30.0 if capped else 0.0),
        window=window,
        period=period,
        trained_context=keys.size("context_length", 0) if keys.value("context_length") else 0,
    )
    check_tensors(file, hyper)
    _check_room(file, hyper, context)
    return hyper


def _check_room(file: GgufFile, hyper: Hyper, context: int) -> None:
    """UsageError if a model whose positions are learnt has fewer than are asked for."""
    places = file.tensors.get("position_embd.weight")
    if not hyper.rope and not places:
        raise UsageError(f"{file.path}: tensor position_embd.weight is missing")
    if places and context > places.shape[0]:
        raise UsageError(f"{file.path}: {context} positions; the model has {places.shape[0]}")


def _architecture(keys: _Keys) -> Architecture:
    if not keys.name:
        raise UsageError(f"{keys.file.path}: the key general.architecture is missing")
    if keys.name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise UsageError(
            f"{keys.file.path}: general.architecture is {keys.name}; supported are {known}"
        )
    return ARCHITECTURES[keys.name]


def _eps(keys: _Keys, architecture: Architecture) -> float:
    rms = architecture.norm == "rms_norm"
    return keys.number(
        "attention.layer_norm_rms_epsilon" if rms else "attention.layer_norm_epsilon"
    )


def _score_scale(
    keys: _Keys, architecture: Architecture, width: int, heads: int, key_size: int
) -> float:
    """1 / sqrt(key size); the largest gemma2 and gemma3 go by the width instead."""
    if keys.size("block_count") == architecture.wide_layers:
        return 1 / sqrt(width // heads)
    return 1 / sqrt(key_size)


def _rope(keys: _Keys, architecture: Architecture, key_size: int, context: int) -> Rope | None:
    if not architecture.rope:
        return None
    scaling = keys.value("rope.scaling.type") or "none"
    if scaling not in _SCALINGS:
        raise keys.refusal_of(
            "rope.scaling.type", f"is {scaling}; known are {', '.join(_SCALINGS)}"
        )
    factor = keys.number("rope.scaling.factor", 0.0) or keys.number("rope.scale_linear", 0.0)
    trained = keys.size("context_length", 4096)
    original = keys.size("rope.scaling.original_context_length", trained)
    return Rope(
        mode=architecture.rope,
        n_dims=keys.size("rope.dimension_count", key_size),
        freq_base=keys.number("rope.freq_base", 10000.0),
        freq_scale=1 / factor if factor and scaling != "none" else 1.0,
        ext_factor=1.0 if scaling == "yarn" else 0.0,
        attn_factor=keys.number("rope.scaling.attn_factor", 1.0),
        n_ctx_orig=original,
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=keys.number("rope.scaling.yarn_beta_slow", 1.0),
        factors=_factors(keys.file, (context or trained) > original),
    )


def _local_rope(keys: _Keys, architecture: Architecture, rope: Rope | None) -> Rope | None:
    """The rope of layers that see a window, whose positions are never far from each other."""
    if not architecture.local_base or not rope:
        return None
    base = keys.number("rope.freq_base_swa", architecture.local_base)
    return replace(rope, freq_base=base, freq_scale=1.0, ext_factor=0.0)


def _windows(keys: _Keys, architecture: Architecture) -> tuple[int, int]:
    """Positions that a window has, and the period of layers of which all but the last see it."""
    if not architecture.period:
        return 0, 0
    window = keys.value("attention.sliding_window")
    if window == 0 or (window is None and not architecture.window):
        return 0, 0
    window_size = keys.size("attention.sliding_window", architecture.window)
    return window_size, keys.size("attention.sliding_window_pattern", architecture.period)


def _factors(file: GgufFile, is_long: bool) -> str:
    """The tensor of divisors of angles; phi3 has two, for short contexts and long ones."""
    length = "long" if is_long else "short"
    for name in (f"rope_factors_{length}.weight", "rope_freqs.weight"):
        if name in file.tensors:
            return name
    return ""


def check_tensors(file: GgufFile, hyper: Hyper) -> None:
    """UsageError that names a tensor that is missing, or that this model would not use."""
    known = set(_outer(file)) | {
        f"blk.{n}.{part}" for n in range(hyper.layers) for part in OPTIONAL
    }
    for layer in range(hyper.layers):
        for part in _parts(file, hyper, layer):
            name = f"blk.{layer}.{part}"
            known.add(name)
            if name not in file.tensors:
                raise UsageError(f"{file.path}: tensor {name} is missing")
    unused = [name for name in file.tensors if name not in known and _counts(name)]
    if unused:
        raise UsageError(
            f"{file.path}: tensor {unused[0]} has no place in a model of architecture "
            f"{hyper.architecture.name}"
        )


def _counts(name: str) -> bool:
    """Whether a tensor would change results: factors of the other context length do not."""
    return not re.fullmatch(r"rope_.*|blk\.\d+\.rope_freqs\.weight", name)


def _outer(file: GgufFile) -> tuple[str, ...]:
    """Tensors outside of the layers."""
    for name in ("token_embd.weight", "output_norm.weight"):
        file.tensor(name)
    optional = ("output.weight", "output.bias", "output_norm.bias", "position_embd.weight")
    return ("token_embd.weight", "output_norm.weight", *optional)


def _parts(file: GgufFile, hyper: Hyper, layer: int) -> list[str]:
    """Tensors that a layer has to have, behind its prefix."""
    fused = f"blk.{layer}.attn_qkv.weight" in file.tensors
    attention = ["attn_qkv"] if fused else ["attn_q", "attn_k", "attn_v"]
    if hyper.experts:
        forward = ["ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"]
    elif hyper.architecture.gate and f"blk.{layer}.ffn_gate.weight" in file.tensors:
        forward = ["ffn_gate", "ffn_up", "ffn_down"]
    else:
        forward = ["ffn_up", "ffn_down"]
    norm = hyper.architecture.forward_norm
    names = ["attn_norm", *attention, "attn_output", *([norm] if norm else []), *forward]
    return [f"{name}.weight" for name in names]


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
