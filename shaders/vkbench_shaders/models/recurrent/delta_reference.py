"""Gated delta nets in float64, a token after the other."""

from __future__ import annotations

import numpy as np

from vkbench_shaders.kernels.shared.activations import sigmoid, silu, softplus
from vkbench_shaders.models.recurrent.mamba_reference import convolve_tokens
from vkbench_shaders.models.recurrent.sizes import Delta, States
from vkbench_shaders.models.reference_weights import Floats, LayerWeights, multiply


def mix_tokens(
    sizes: Delta, weight: LayerWeights, x: Floats, before: States, eps: float
) -> tuple[Floats, States]:
    """What a net makes of normalised vectors that follow others, and what it leaves."""
    given = multiply(weight, "attn_qkv", x)
    convolved, conv = convolve_tokens(sizes.taps, weight, given, before["conv"])
    queries, keys, values = (
        part.reshape(len(x), -1, sizes.head)
        for part in np.split(convolved, [sizes.keys, 2 * sizes.keys], axis=-1)
    )
    queries, keys = (
        (part / np.sqrt((part * part).sum(axis=-1, keepdims=True) + eps))[:, sizes.shared]
        for part in (queries, keys)
    )
    if sizes.is_next:
        both = multiply(weight, "ssm_ba", x).reshape(len(x), sizes.groups, 2, -1)
        beta, alpha = (both[:, :, at].reshape(len(x), -1) for at in (0, 1))
    else:
        beta, alpha = multiply(weight, "ssm_beta", x), multiply(weight, "ssm_alpha", x)
    steps = softplus(alpha + weight["ssm_dt.bias"])
    decays = np.exp(steps * weight["ssm_a"].reshape(-1))
    learnt = sigmoid(beta)
    state, made = before["delta"], np.zeros_like(values)
    for token in range(len(x)):
        state = state * decays[token, :, None, None]
        key = keys[token, :, None]
        new = values[token] - (state * key).sum(axis=-1)
        state = state + (new * learnt[token, :, None])[..., None] * key
        made[token] = (state * queries[token, :, None]).sum(axis=-1) / np.sqrt(sizes.head)
    made = made / np.sqrt((made * made).mean(axis=-1, keepdims=True) + eps)
    gate = silu(multiply(weight, "attn_gate", x))
    gated = (made * weight["ssm_norm.weight"]).reshape(len(x), -1) * gate
    return multiply(weight, "ssm_out", gated), {"conv": conv, "delta": state}
