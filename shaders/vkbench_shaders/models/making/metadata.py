"""What a model's file says of it beside its tensors, by llama.cpp's keys."""

from __future__ import annotations

from typing import Final

from vkbench_shaders.models.making.mixtures import Mixture
from vkbench_shaders.models.making.shapes import Shape

Value = bool | int | float | str  # whole numbers are stored as u32, others as f32

_QUANTISATION: Final = 2  # version of the blocks' layouts
_GEMMA2_CAPS: Final = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0}


def metadata(name: str, shape: Shape, mixture: Mixture) -> dict[str, Value]:
    """Keys and values in the order of the file."""
    general: dict[str, Value] = {
        "general.architecture": shape.architecture,
        "general.name": name,
        "general.quantization_version": _QUANTISATION,
    }
    if mixture.file_type is not None:
        general["general.file_type"] = mixture.file_type
    own = {f"{shape.architecture}.{key}": value for key, value in _sizes(shape).items()}
    return general | own | {"tokenizer.ggml.model": "no_vocab"}


def _sizes(shape: Shape) -> dict[str, Value]:
    sizes: dict[str, Value] = {
        "vocab_size": shape.vocabulary,
        "context_length": shape.context,
        "embedding_length": shape.width,
        "block_count": shape.layers,
        "feed_forward_length": shape.feed_forward,
        "attention.head_count": shape.heads,
    }
    if shape.arch == "gpt2":
        return sizes | {"attention.layer_norm_epsilon": shape.epsilon}
    sizes |= {
        "attention.head_count_kv": shape.kv_heads,
        "attention.layer_norm_rms_epsilon": shape.epsilon,
        "attention.key_length": shape.head_size,
        "attention.value_length": shape.head_size,
        "rope.dimension_count": shape.head_size,
        "rope.freq_base": shape.rope_base,
    }
    return sizes | _experts(shape) | _windows(shape)


def _experts(shape: Shape) -> dict[str, Value]:
    if not shape.experts:
        return {}
    counts: dict[str, Value] = {"expert_count": shape.experts, "expert_used_count": shape.used}
    if shape.arch == "qwen3moe":
        counts["expert_feed_forward_length"] = shape.feed_forward
        counts["feed_forward_length"] = shape.feed_forward * shape.used
    return counts


def _windows(shape: Shape) -> dict[str, Value]:
    keys: dict[str, Value] = {}
    if shape.window:
        keys["attention.sliding_window"] = shape.window
    if shape.arch == "phi3":
        keys["rope.scaling.original_context_length"] = shape.context
    return keys | (_GEMMA2_CAPS if shape.arch == "gemma2" else {})
