"""Types of files: which format each tensor of a model gets, by the rules of llama.cpp's quantiser.

A type is named after its main format. Tensors by which a model loses more get better formats: the
output matrix, values, and what leads down from the feed-forward part of some layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from vkbench.words import names
from vkbench_shaders.formats import PLAIN, WEIGHTS, format_named
from vkbench_shaders.models.making.shape import Shape
from vkbench_shaders.models.making.tensors import TensorPlan


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """A type of file."""

    name: str
    main: str  # format of most tensors
    file_type: int | None  # as general.file_type; None where llama.cpp has no number
    pure: bool = False  # whether every matrix gets the main format


_TYPES: Final = (
    *(("f32", "f32", 0), ("f16", "f16", 1), ("bf16", "bf16", 32)),
    *(("q4_0", "q4_0", 2), ("q4_1", "q4_1", 3), ("q5_0", "q5_0", 8), ("q5_1", "q5_1", 9)),
    *(("q8_0", "q8_0", 7), ("q2_K", "q2_K", 10), ("q2_K_S", "q2_K", 21)),
    *(("q3_K_S", "q3_K", 11), ("q3_K_M", "q3_K", 12), ("q3_K_L", "q3_K", 13)),
    *(("q4_K_S", "q4_K", 14), ("q4_K_M", "q4_K", 15)),
    *(("q5_K_S", "q5_K", 16), ("q5_K_M", "q5_K", 17), ("q6_K", "q6_K", 18)),
    *(("iq1_s", "iq1_s", 24), ("iq1_m", "iq1_m", 31), ("iq2_xxs", "iq2_xxs", 19)),
    *(("iq2_xs", "iq2_xs", 20), ("iq2_s", "iq2_xs", 28), ("iq2_m", "iq2_s", 29)),
    *(("iq3_xxs", "iq3_xxs", 23), ("iq3_xs", "iq3_s", 22), ("iq3_s", "iq3_s", 26)),
    *(("iq3_m", "iq3_s", 27), ("iq4_nl", "iq4_nl", 25), ("iq4_xs", "iq4_xs", 30)),
    *(("tq1_0", "tq1_0", 36), ("tq2_0", "tq2_0", 37)),
    *(("mxfp4_moe", "mxfp4", 38), ("nvfp4", "nvfp4", 39), ("q1_0", "q1_0", 40)),
)
TYPES: Final[Mapping[str, Mixture]] = {
    name: Mixture(name=name, main=main, file_type=number) for name, main, number in _TYPES
}
_PLAIN_KINDS: Final = (  # matrices kept in f32
    *(
        "position_embd.weight",
        "token_types.weight",
        "ffn_gate_inp.weight",
        "ssm_conv1d.weight",
        "ssm_norm.weight",
    ),
    *(
        f"time_mix_{name}{number}.weight"
        for name in ("w", "a", "v", "g", "decay_w")
        for number in "12"
    ),
    *("time_mix_first.weight", "time_mix_lerp_fused.weight", "time_mix_lerp_x.weight"),
    *("channel_mix_lerp_k.weight", "channel_mix_lerp_r.weight"),
)
# What a row that is no whole number of blocks gets instead.
_INSTEAD: Final = {
    **dict.fromkeys(("q2_K", "q3_K", "tq1_0", "tq2_0"), "q4_0"),
    "q4_K": "q5_0",
    "q5_K": "q5_1",
    "q6_K": "q8_0",
    **{fmt: "iq4_nl" for fmt in WEIGHTS if fmt.startswith("iq")},
}
_VERY_SMALL: Final = ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m")
_SMALL_EXPERTS: Final = (
    *("q2_K", "q3_K_S", "q3_K_M", "q4_K_S", "q4_K_M"),
    *("iq3_xxs", "iq3_xs", "iq3_s", "iq3_m", "iq4_nl", "iq4_xs"),
)


def mixture_named(name: str, pure: bool = False) -> Mixture:
    """The type of that name; a pure one may be any format of weights."""
    if not pure:
        return TYPES[names.pick(name, TYPES, "type")]
    formats = (*PLAIN, *WEIGHTS)
    main = names.pick(name, dict.fromkeys((*formats, *TYPES)), "type")
    main = TYPES[main].main if main not in formats else main
    number = TYPES[main].file_type if main in TYPES and TYPES[main].main == main else None
    return Mixture(name=main, main=main, file_type=number, pure=True)


def format_of(tensor: TensorPlan, mixture: Mixture, shape: Shape) -> str:
    """The format that a tensor gets."""
    if len(tensor.shape) < 2 or tensor.kind in _PLAIN_KINDS or not tensor.kind.endswith(".weight"):
        return "f32"
    main = mixture.main
    if main in PLAIN or mixture.pure:
        return _fitting(main, tensor)
    return _fitting(_choose_format(tensor, mixture, shape), tensor)


def _fitting(fmt: str, tensor: TensorPlan) -> str:
    """The format, or one like it that rows of this length can have."""
    for possible in (fmt, _INSTEAD.get(fmt, "f16"), "f16"):
        if tensor.shape[-1] % format_named(possible).elements == 0:
            return possible
    raise AssertionError("f16 has no blocks")


def _choose_format(tensor: TensorPlan, mixture: Mixture, shape: Shape) -> str:
    kind = tensor.kind.removesuffix(".weight")
    if kind == "output" or (kind == "token_embd" and shape.tied):
        return _of_output(mixture, tensor)
    if mixture.name == "mxfp4_moe":
        return "mxfp4" if len(tensor.shape) > 2 else "q8_0"
    if kind == "token_embd":
        return _EMBEDDINGS.get(mixture.name, mixture.main)
    rules = _RULES_OF_SMALL if mixture.name in _VERY_SMALL else _RULES
    rule = rules.get(kind.removesuffix("_exps"))
    better = rule(mixture.name, tensor.layer, shape) if rule else ""
    return better or mixture.main


def _of_output(mixture: Mixture, tensor: TensorPlan) -> str:
    if mixture.name == "mxfp4_moe" or tensor.shape[-1] % format_named(mixture.main).elements:
        return "q8_0"
    if mixture.name in (*_VERY_SMALL, "iq3_xxs"):
        return "q5_K"
    return "q8_0" if mixture.main == "q8_0" else "q6_K"


_EMBEDDINGS: Final = {
    **dict.fromkeys(("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs"), "q2_K"),
    **dict.fromkeys(("iq2_s", "iq2_m", "iq3_xxs"), "iq3_s"),
    **dict.fromkeys(("tq1_0", "tq2_0"), "q4_K"),
}

_ATTENTION_OUTPUTS: Final = {
    "q2_K": "q3_K",
    "iq3_xxs": "iq3_s",
    "q3_K_M": "q4_K",
    "q3_K_L": "q5_K",
    "iq3_m": "q4_K",
}

Rule = Callable[[str, int, Shape], str]  # of type, layer and shape: a format, or "" for the main


def _needs_more(layer: int, layers: int) -> bool:
    """Whether a layer is among the first or last eighth, or every third between."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def _of_values(name: str, layer: int, shape: Shape) -> str:
    if shape.experts == 8:
        return "q8_0"
    shared = shape.heads // shape.kv_heads >= 4
    if name in ("q2_K", "q2_K_S", "iq3_xxs", "iq3_xs", "iq3_s"):
        plain = {"q2_K": "q3_K", "iq3_xxs": "iq3_s"}.get(name, "")
        return "q4_K" if shared else plain
    if name in ("q4_K_M", "q5_K_M"):
        return "q6_K" if _needs_more(layer, shape.layers) else ""
    if name in ("iq4_nl", "iq4_xs"):
        return "q5_K" if shared else ""
    few = {"q3_K_M": (2, "q4_K"), "q4_K_S": (4, "")}
    if name in few:
        return "q5_K" if layer < few[name][0] else few[name][1]
    return {"iq3_m": "q4_K", "q3_K_L": "q5_K"}.get(name, "")


def _of_keys(name: str, layer: int, shape: Shape) -> str:
    return "q8_0" if shape.experts == 8 else _of_queries(name, layer, shape)


def _of_queries(name: str, layer: int, shape: Shape) -> str:
    return {"iq3_xs": "iq3_xxs", "iq3_xxs": "iq2_s"}.get(name, "")


def _of_attention_output(name: str, layer: int, shape: Shape) -> str:
    if shape.experts == 8:
        return "q5_K" if name in _SMALL_EXPERTS else ""
    return _ATTENTION_OUTPUTS.get(name, "")


def _of_down(name: str, layer: int, shape: Shape) -> str:
    first = layer < shape.layers // 8
    more = _needs_more(layer, shape.layers)
    match name:
        case "q2_K" | "q3_K_L":
            return "q3_K" if name == "q2_K" else "q5_K"
        case "q2_K_S" | "q4_K_S" | "iq4_nl" | "iq4_xs":
            return ("q4_K" if name == "q2_K_S" else "q5_K") if first else ""
        case "iq3_xxs":
            return "q4_K" if first else "q3_K"
        case "q3_K_M":
            return "q5_K" if layer < shape.layers // 16 else "q4_K"
        case "iq3_m":
            return "q4_K" if first or (shape.experts == 8 and more) else ""
        case "q4_K_M" | "q5_K_M":
            return "q6_K" if more else ""
    return ""


def _of_gate_and_up(name: str, layer: int, shape: Shape) -> str:
    middle = shape.layers // 8 <= layer < 7 * shape.layers // 8
    return "iq3_xxs" if name == "iq3_xs" and middle else ""


def _small_values(name: str, layer: int, shape: Shape) -> str:
    if shape.heads // shape.kv_heads >= 4 or shape.experts >= 4:
        return "q4_K"
    return _better_of_small(name)


def _small_down(name: str, layer: int, shape: Shape) -> str:
    return _better_of_small(name) if layer < shape.layers // 8 else ""


def _small_attention_output(name: str, layer: int, shape: Shape) -> str:
    if shape.experts == 8:
        return "q5_K"
    if name in ("iq1_s", "iq1_m"):
        return "iq2_xxs"
    return "iq3_s" if name in ("iq2_s", "iq2_m") else ""


def _better_of_small(name: str) -> str:
    return "iq3_s" if name in ("iq2_s", "iq2_m") else "q2_K"


_RULES: Final[Mapping[str, Rule]] = {
    "attn_v": _of_values,
    "attn_qkv": _of_values,
    "attn_k": _of_keys,
    "attn_q": _of_queries,
    "attn_output": _of_attention_output,
    "ffn_down": _of_down,
    "ffn_gate": _of_gate_and_up,
    "ffn_up": _of_gate_and_up,
}
_RULES_OF_SMALL: Final[Mapping[str, Rule]] = {
    "attn_v": _small_values,
    "attn_qkv": _small_values,
    "attn_k": lambda name, layer, shape: "q4_K" if shape.experts == 8 else "",
    "attn_output": _small_attention_output,
    "ffn_down": _small_down,
}
