"""What a model's file says of it beside its tensors, by llama.cpp's keys."""

from __future__ import annotations

from typing import Final

from vkbench_shaders.models.making.mixtures import Mixture
from vkbench_shaders.models.making.shape import CENTRED, CONVOLVED, ENCODERS, RWKV, TYPES, Shape

Value = bool | int | float | str | tuple[int, ...]  # u32, and others as f32

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
    types = {"tokenizer.ggml.token_type_count": TYPES} if shape.arch in ENCODERS else {}
    return general | own | types | {"tokenizer.ggml.model": "no_vocab"}


def _sizes(shape: Shape) -> dict[str, Value]:
    sizes: dict[str, Value] = {
        "vocab_size": shape.vocabulary,
        "context_length": shape.context,
        "embedding_length": shape.width,
        "block_count": shape.layers,
        "feed_forward_length": shape.feed_forward,
        "attention.head_count": shape.heads,
    }
    if shape.state:
        return sizes | _states(shape)
    if shape.arch in RWKV:
        return sizes | _heads_with_states(shape)
    if shape.arch == "gpt2":
        return sizes | {"attention.layer_norm_epsilon": shape.epsilon}
    if shape.arch in ENCODERS:
        return sizes | _encoder(shape)
    kind = "" if shape.arch in CENTRED else "rms_"
    sizes |= {
        "attention.head_count_kv": shape.kv_heads,
        f"attention.layer_norm_{kind}epsilon": shape.epsilon,
        "attention.key_length": shape.head_size,
        "attention.value_length": shape.head_size,
        "rope.dimension_count": shape.turned,
        "rope.freq_base": shape.rope_base,
    }
    sizes |= _scaling(shape) | _experts(shape) | _windows(shape)
    return sizes | _latent(shape) | _nets(shape)


def _encoder(shape: Shape) -> dict[str, Value]:
    """What an encoder sees, and what it makes of a sequence."""
    return {
        "attention.layer_norm_epsilon": shape.epsilon,
        "attention.causal": False,
        "pooling_type": shape.pooling,
        **({"rope.freq_base": shape.rope_base} if shape.arch == "nomic-bert" else {}),
    }


def _nets(shape: Shape) -> dict[str, Value]:
    """Sizes of gated delta nets, and which layers have them."""
    if not shape.nets:
        return {}
    keys, heads, size = shape.nets
    third = -(-shape.turned // 6)  # of the pairs that turn
    sections = (third, third, shape.turned // 2 - 2 * third, 0)
    return {
        **({} if shape.arch == "qwen3next" else {"rope.dimension_sections": sections}),
        "ssm.conv_kernel": CONVOLVED,
        "ssm.inner_size": heads * size,
        "ssm.state_size": size,
        "ssm.time_step_rank": heads,
        "ssm.group_count": keys,
        "full_attention_interval": shape.interval,
    }


def _states(shape: Shape) -> dict[str, Value]:
    """Sizes of a model whose tokens leave states; it has no heads of queries."""
    keys: dict[str, Value] = {
        "attention.head_count": 0,
        "attention.layer_norm_rms_epsilon": shape.epsilon,
        "ssm.conv_kernel": CONVOLVED,
        "ssm.inner_size": shape.scanned,
        "ssm.state_size": shape.state,
        "ssm.time_step_rank": shape.step_rank or shape.heads,
    }
    return keys if shape.step_rank else keys | {"ssm.group_count": shape.kv_heads}


_RANKS: Final = {  # keys of the sizes of short vectors
    "rwkv6": ("time_mix_extra_dim", "time_decay_extra_dim"),
    "rwkv7": tuple(
        f"attention.{name}_lora_rank" for name in ("decay", "iclr", "value_residual_mix", "gate")
    ),
}


def _heads_with_states(shape: Shape) -> dict[str, Value]:
    """Sizes of a model of RWKV."""
    return {
        "attention.head_count": 0,
        "attention.layer_norm_epsilon": shape.epsilon,
        "wkv.head_size": shape.head_size,
        "token_shift_count": 2,
        **dict(zip(_RANKS[shape.arch], shape.ranks, strict=True)),
    }


def _scaling(shape: Shape) -> dict[str, Value]:
    if not shape.rope_scaling:
        return {}
    keys: dict[str, Value] = {
        "rope.scaling.type": shape.rope_scaling,
        "rope.scaling.factor": shape.rope_factor,
    }
    if shape.rope_context:
        keys["rope.scaling.original_context_length"] = shape.rope_context
    if shape.rope_log:
        keys["rope.scaling.yarn_log_multiplier"] = shape.rope_log
    return keys


def _latent(shape: Shape) -> dict[str, Value]:
    """Sizes of latent attention, whose heads of keys are one, and how experts are weighed."""
    if not shape.rank:
        return {}
    keys: dict[str, Value] = {
        "attention.key_length": shape.rank + shape.turned,
        "attention.value_length": shape.rank,
        "attention.key_length_mla": shape.head_size + shape.turned,
        "attention.value_length_mla": shape.head_size,
        "attention.kv_lora_rank": shape.rank,
        "feed_forward_length": shape.dense_forward,
        "expert_feed_forward_length": shape.feed_forward,
        "expert_shared_count": shape.shared,
        "expert_weights_scale": 1.0,
        "expert_weights_norm": False,
        "expert_gating_func": 1,
        "leading_dense_block_count": shape.dense,
    }
    return keys | ({"attention.q_lora_rank": shape.query_rank} if shape.query_rank else {})


def _experts(shape: Shape) -> dict[str, Value]:
    if not shape.experts:
        return {}
    counts: dict[str, Value] = {"expert_count": shape.experts, "expert_used_count": shape.used}
    if shape.arch == "qwen3moe":
        counts["expert_feed_forward_length"] = shape.feed_forward
        counts["feed_forward_length"] = shape.feed_forward * shape.used
    if shape.nets:
        counts["expert_feed_forward_length"] = shape.feed_forward
        counts["expert_shared_feed_forward_length"] = shape.shared * shape.feed_forward
    if shape.arch == "gpt-oss":
        counts["expert_feed_forward_length"] = shape.feed_forward
    return counts


def _windows(shape: Shape) -> dict[str, Value]:
    keys: dict[str, Value] = {}
    if shape.window:
        keys["attention.sliding_window"] = shape.window
    if shape.arch == "phi3":
        keys["rope.scaling.original_context_length"] = shape.context
    return keys | (_GEMMA2_CAPS if shape.arch == "gemma2" else {})
