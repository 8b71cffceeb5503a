"""Layers of Mamba in float64, a token after the other."""

from __future__ import annotations

import numpy as np

from vkbench_shaders.kernels.shared import activations
from vkbench_shaders.models.recurrent.sizes import Mamba, States
from vkbench_shaders.models.reference_weights import Floats, LayerWeights, multiply


def mix_tokens(
    sizes: Mamba, weight: LayerWeights, x: Floats, before: States, eps: float
) -> tuple[Floats, States]:
    """What a layer makes of normalised vectors that follow others, and what it leaves."""
    mixed = multiply(weight, "ssm_in", x)
    if sizes.rank:
        given, gate = np.split(mixed, [sizes.inner], axis=-1)
        values, conv = convolve_tokens(sizes.taps, weight, given, before["conv"])
        dt, b, c = np.split(
            multiply(weight, "ssm_x", values), [sizes.rank, sizes.rank + sizes.keys], axis=-1
        )
        dt = multiply(weight, "ssm_dt", dt)
    else:
        gate, given, dt = np.split(mixed, [sizes.inner, sizes.inner + sizes.channels], axis=-1)
        convolved, conv = convolve_tokens(sizes.taps, weight, given, before["conv"])
        values, b, c = np.split(convolved, [sizes.inner, sizes.inner + sizes.shared], axis=-1)
        dt = dt + weight["ssm_dt.bias"]
    made, scan = _scan(sizes, weight, values, b, c, dt, before["scan"])
    made = made * activations.silu(gate)
    if "ssm_norm.weight" in weight:
        parts = made.reshape(len(x), sizes.groups, -1)
        parts = parts / np.sqrt((parts * parts).mean(axis=-1, keepdims=True) + eps)
        made = parts.reshape(made.shape) * weight["ssm_norm.weight"].reshape(-1)
    return multiply(weight, "ssm_out", made), {"conv": conv, "scan": scan}


def convolve_tokens(
    taps: int, weight: LayerWeights, x: Floats, before: Floats
) -> tuple[Floats, Floats]:
    """Each token with those before it, by the taps of each channel; and the last ones."""
    seen = np.concatenate([before, x])
    made = sum(
        seen[tap : tap + len(x)] * weight["ssm_conv1d.weight"][:, tap] for tap in range(taps)
    )
    if "ssm_conv1d.bias" in weight:
        made = made + weight["ssm_conv1d.bias"]
    return activations.silu(np.asarray(made)), seen[len(x) :]


def _scan(
    sizes: Mamba,
    weight: LayerWeights,
    values: Floats,
    b: Floats,
    c: Floats,
    dt: Floats,
    state: Floats,
) -> tuple[Floats, Floats]:
    """What the state tells each token, once the token is in it; and the last state."""
    decay, direct = weight["ssm_a"].reshape(sizes.heads, -1), weight["ssm_d"].reshape(-1)
    shared, made = sizes.heads // sizes.groups, []
    for token, size in enumerate(activations.softplus(dt)):
        given = values[token].reshape(sizes.heads, sizes.head)
        goes_in, comes_out = (
            part[token].reshape(sizes.groups, sizes.keys).repeat(shared, axis=0) for part in (b, c)
        )
        stays = np.exp(size[:, None] * decay)[:, None]
        state = state * stays + (given * size[:, None])[..., None] * goes_in[:, None]
        outputs = (state * comes_out[:, None]).sum(axis=-1) + given * direct[:, None]
        made.append(outputs.reshape(-1))
    return np.array(made), state
