"""Tensors of encoders, and how one vector is made of those of all tokens, by a file's keys."""

from __future__ import annotations

from typing import Final

from vkbench_shaders.models.architectures import Architecture
from vkbench_shaders.models.keys import Keys

NORMS: Final = ("attn_output_norm", "layer_output_norm")  # of a layer, behind its two parts
OUTER: Final = ("token_embd.weight", "token_embd_norm.weight")
# Outside of layers, where a file has them.
OPTIONAL_OUTER: Final = ("token_embd_norm.bias", "token_types.weight", "position_embd.weight")
# Of a layer, where a file has them.
OPTIONAL: Final = (
    *(f"{norm}.bias" for norm in NORMS),
    *(f"attn_{name}.bias" for name in ("q", "k", "v", "qkv", "output")),
    *("ffn_up.bias", "ffn_down.bias"),
)
NONE: Final = "none"  # the vectors of all tokens stay
MEAN: Final = "mean"
LAST: Final = "last"
_POOLINGS: Final = (NONE, MEAN, "cls", LAST)


def pooling_of(keys: Keys, architecture: Architecture) -> str:
    """How an encoder makes one vector of a sequence; "" of a model that is none."""
    if not architecture.encodes:
        return ""
    if (causal := keys.value("attention.causal")) is not False:
        told = "missing" if causal is None else str(causal).lower()
        raise keys.refusal_of("attention.causal", f"is {told}; supported is false")
    number = keys.value("pooling_type") or 0
    if not isinstance(number, int) or number not in range(len(_POOLINGS)):
        known = ", ".join(f"{at} ({name})" for at, name in enumerate(_POOLINGS))
        raise keys.refusal_of("pooling_type", f"is {number}; known are {known}")
    return _POOLINGS[number]
