"""What a GGUF file's keys say of a model: positions, windows, score scale, weights of experts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Final

import numpy as np

from vkbench.errors import UsageError
from vkbench_shaders.gguf_file import GgufFile
from vkbench_shaders.models.architectures import Architecture

_SCALINGS: Final = ("none", "linear", "yarn", "longrope")
SIGMOID: Final = 2
LEAST_SUM: Final = 2.0**-14  # of gates that shares are divided by: the least normal f16
_GATINGS: Final = {1: "softmax", SIGMOID: "sigmoid"}


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
class Latent:
    """Sizes of attention whose keys and values are made of one short vector."""

    rank: int  # of that vector
    query_rank: int  # of another one, of which queries are made; 0: there is none
    nope: int  # numbers of a query that are not turned
    turned: int  # those that are
    value: int  # numbers of a head's values


@dataclass(frozen=True, kw_only=True)
class Shares:
    """How a model weighs its experts, and how many first layers have none."""

    dense: int = 0  # layers that have no experts, the first ones
    gating: str = "softmax"  # of experts
    shares_sum: bool = True  # whether shares of a token's experts add up to one
    share_scale: float = 1.0  # factor of those shares
    groups: int = 1  # of experts
    groups_used: int = 1  # groups that a token's experts are of


class Keys:
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

    def count(self, key: str) -> int:
        """A size, or 0 where the key is missing or 0."""
        return self.size(key) if self.value(key) else 0

    def number(self, key: str, default: float | None = None) -> float:
        value = self.value(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, float | int):
            raise self.refusal_of(key, f"has to be a number; it is {value}")
        return float(str(np.float32(value)))  # 1e-05 and not 9.999999747378752e-06


def epsilon_of(keys: Keys, architecture: Architecture) -> float:
    rms = architecture.norm == "rms_norm"
    return keys.number(
        "attention.layer_norm_rms_epsilon" if rms else "attention.layer_norm_epsilon"
    )


def score_scale_of(
    keys: Keys, architecture: Architecture, width: int, heads: int, key_size: int
) -> float:
    """1 / sqrt(key size); the largest gemma2 and gemma3 go by the width instead."""
    if keys.size("block_count") == architecture.wide_layers:
        return 1 / sqrt(width // heads)
    if architecture.latent:
        factor = max(1.0, _scaling_of(keys)[1])
        longer = 1 + keys.number("rope.scaling.yarn_log_multiplier", 0.0) * log(factor)
        return longer**2 / sqrt(keys.size("attention.key_length_mla"))
    return 1 / sqrt(key_size)


def latent_of(keys: Keys) -> Latent:
    """Sizes of latent attention; files without those of each head hold other tensors."""
    for name in ("attention.key_length_mla", "attention.value_length_mla"):
        if keys.value(name) is None:
            raise keys.refusal_of(name, "is missing: attn_kv_b is not supported, only attn_k_b")
    turned = keys.size("rope.dimension_count")
    rank = keys.size("attention.kv_lora_rank")
    return Latent(
        rank=rank,
        query_rank=keys.count("attention.q_lora_rank"),
        nope=keys.size("attention.key_length_mla") - turned,
        turned=turned,
        value=keys.size("attention.value_length_mla"),
    )


def shares_of(keys: Keys, architecture: Architecture) -> Shares:
    """How a file of deepseek2 weighs its experts, and how many first layers have none.

    Else the defaults.
    """
    if not architecture.latent:
        return Shares()
    groups, groups_used = _groups_of(keys)
    number = keys.value("expert_gating_func") or 1
    if number not in _GATINGS:
        known = ", ".join(f"{key} ({name})" for key, name in _GATINGS.items())
        raise keys.refusal_of("expert_gating_func", f"is {number}; known are {known}")
    return Shares(
        dense=keys.count("leading_dense_block_count"),
        gating=_GATINGS[number],
        shares_sum=bool(keys.value("expert_weights_norm")),
        share_scale=keys.number("expert_weights_scale", 1.0) or 1.0,
        groups=groups,
        groups_used=groups_used,
    )


def _groups_of(keys: Keys) -> tuple[int, int]:
    """Groups of experts, and how many of them a token uses: 1 and 1 if experts are in no groups."""
    groups = keys.count("expert_group_count")
    if groups < 2:
        return 1, 1
    experts, groups_used = keys.count("expert_count"), keys.count("expert_group_used_count")
    if experts % groups or experts < 2 * groups:
        complaint = f"is {groups}: {experts} experts are no groups of two or more, all alike"
        raise keys.refusal_of("expert_group_count", complaint)
    most, used = groups_used * experts // groups, keys.count("expert_used_count")
    if groups_used >= groups or used > most:
        complaint = f"is {groups_used} of {groups} groups, which have {most} experts, for {used}"
        raise keys.refusal_of("expert_group_used_count", complaint)
    return groups, groups_used


def layers_of(keys: Keys, architecture: Architecture) -> tuple[int, tuple[int, ...]]:
    """How many layers make logits, and which of them have states in place of attention.

    Layers behind those guess further tokens: no logits of the next one follow from them.
    """
    whole = keys.size("block_count")
    if not architecture.interval:
        return whole, tuple(range(whole)) if architecture.recurrence else ()
    guessing = keys.count("nextn_predict_layers")
    if (layers := whole - guessing) < 1:
        complaint = f"is {guessing}; the model has {whole} layers in all"
        raise keys.refusal_of("nextn_predict_layers", complaint)
    marks = keys.value("attention.recurrent_layers")
    if isinstance(marks, tuple):
        return layers, tuple(layer for layer in range(layers) if marks[layer : layer + 1] == (1,))
    interval = keys.size("full_attention_interval", architecture.interval)
    return layers, tuple(layer for layer in range(layers) if (layer + 1) % interval)


def _check_sections(keys: Keys, pairs: int) -> None:
    """UsageError if some pairs do not turn: those that are in no section of three that take turns.

    Sections tell rows and columns of pictures from time; of tokens all three are one position.
    """
    sections = keys.value("rope.dimension_sections")
    if not isinstance(sections, tuple):
        return
    whole = (*sections, 0, 0)[: max(3, len(sections))]
    sizes = [size if isinstance(size, int) and size > 0 else 0 for size in whole]
    for pair in range(pairs):
        place = pair % (sum(sizes) or 1)
        if place >= 3 * sizes[place % 3]:
            complaint = f"is {sizes}, by which pair {pair} of {pairs} never turns"
            raise keys.refusal_of("rope.dimension_sections", complaint)


def rope_of(keys: Keys, architecture: Architecture, key_size: int, context: int) -> Rope | None:
    if not architecture.rope:
        return None
    scaling, factor = _scaling_of(keys)
    n_dims = keys.size("rope.dimension_count", key_size)
    if architecture.recurrence == "delta":
        _check_sections(keys, n_dims // 2)
    trained = keys.size("context_length", 4096)
    original = keys.size("rope.scaling.original_context_length", trained)
    rope = Rope(
        mode=architecture.rope,
        n_dims=n_dims,
        freq_base=keys.number("rope.freq_base", 10000.0),
        freq_scale=1 / factor,
        ext_factor=1.0 if scaling == "yarn" else 0.0,
        attn_factor=keys.number("rope.scaling.attn_factor", 1.0),
        n_ctx_orig=original,
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", 32.0),
        beta_slow=keys.number("rope.scaling.yarn_beta_slow", 1.0),
        factors=_factors(keys.file, (context or trained) > original),
    )
    return rope.back if architecture.latent else rope  # whose scores are longer instead


def _scaling_of(keys: Keys) -> tuple[str, float]:
    """The kind of rope scaling that a file names, and its factor: none and 1.0 if it has none."""
    scaling = str(keys.value("rope.scaling.type") or "none")
    if scaling not in _SCALINGS:
        raise keys.refusal_of(
            "rope.scaling.type", f"is {scaling}; known are {', '.join(_SCALINGS)}"
        )
    if scaling == "none":
        return scaling, 1.0
    factor = keys.number("rope.scaling.factor", 0.0) or keys.number("rope.scale_linear", 0.0)
    return scaling, factor or 1.0


def local_rope_of(keys: Keys, architecture: Architecture, rope: Rope | None) -> Rope | None:
    """The rope of layers that see a window, whose positions are never far from each other."""
    if not architecture.local_base or not rope:
        return None
    base = keys.number("rope.freq_base_swa", architecture.local_base)
    return replace(rope, freq_base=base, freq_scale=1.0, ext_factor=0.0)


def windows_of(keys: Keys, architecture: Architecture) -> tuple[int, int]:
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
