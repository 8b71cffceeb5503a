"""Encoders in float64: a layer whose tokens all see each other, and one vector of a sequence."""

from __future__ import annotations

import numpy as np

from vkbench_shaders.kernels.shared import activations
from vkbench_shaders.models.encoding.pooling import LAST, MEAN, NONE, NORMS
from vkbench_shaders.models.hyper import Hyper
from vkbench_shaders.models.reference_weights import Floats, LayerWeights, multiply, normalise


def attend_to_all(hyper: Hyper, q: Floats, k: Floats, v: Floats) -> Floats:
    """What heads (tokens, heads, size) see of all tokens: (tokens, numbers of all heads)."""
    made = []
    for head in range(hyper.heads):
        group = head * hyper.groups // hyper.heads
        scores = q[:, head] @ k[:, group].T * hyper.scale
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        made.append(shares / shares.sum(axis=-1, keepdims=True) @ v[:, group])
    return np.concatenate(made, axis=-1)


def end_layer(hyper: Hyper, weight: LayerWeights, x: Floats, attended: Floats) -> Floats:
    """A layer's vectors, of those that went into it and of what attention made of them."""
    behind_attention, behind_all = NORMS
    x = normalise(hyper, weight, behind_attention, x + multiply(weight, "attn_output", attended))
    up = multiply(weight, "ffn_up", x)
    if hyper.architecture.gate:
        inner = activations.silu(multiply(weight, "ffn_gate", x)) * up
    else:
        inner = activations.gelu(up)
    return normalise(hyper, weight, behind_all, x + multiply(weight, "ffn_down", inner))


def pool_rows(pooling: str, x: Floats) -> Floats:
    """The vector of a sequence, or all of its tokens' behind each other."""
    if pooling == NONE:
        return x.reshape(-1)
    return np.asarray(x.mean(axis=0) if pooling == MEAN else x[-1 if pooling == LAST else 0])
