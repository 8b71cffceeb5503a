"""Layers of RWKV 6 and 7 in float64, a token after the other."""

from __future__ import annotations

import numpy as np

from vkbench_shaders.kernels.shared.activations import relu, sigmoid, silu
from vkbench_shaders.models.hyper import Hyper
from vkbench_shaders.models.recurrent.sizes import Memory, Rwkv
from vkbench_shaders.models.reference_weights import Floats, LayerWeights, multiply, normalise


def read_layer(hyper: Hyper, layer: int, weight: LayerWeights, x: Floats, memory: Memory) -> Floats:
    """Vectors behind a layer that goes on from states, and leaves others."""
    sizes = hyper.recurrent
    assert isinstance(sizes, Rwkv)
    before = memory.states_of(layer, sizes)
    y = normalise(hyper, weight, "attn_norm", x)
    shifted = np.concatenate([before["time"], y[:-1]]) - y
    if sizes.is_sixth:
        made, wkv = _mix_heads_6(sizes, weight, y, shifted, before["wkv"])
    else:
        made, wkv = _mix_heads_7(
            sizes, weight, y, shifted, before["wkv"], memory if layer else None
        )
        if not layer:
            memory.first_values = multiply(
                weight, "time_mix_value", y + shifted * _row(weight, "time_mix_lerp_fused", 3)
            )
    x = x + multiply(weight, "time_mix_output", made)
    z = normalise(hyper, weight, "attn_norm_2", x)
    shifted = np.concatenate([before["channels"], z[:-1]]) - z
    x = x + _mix_channels(weight, z, shifted, is_sixth=sizes.is_sixth)
    memory.states[layer] = {"time": y[-1:], "channels": z[-1:], "wkv": wkv}
    return x / 2 if sizes.rescaled and (layer + 1) % sizes.rescaled == 0 else x


def _row(weight: LayerWeights, name: str, row: int = 0) -> Floats:
    """A vector of weights, or one of several."""
    whole = weight[f"{name}.weight"]
    return np.asarray(whole.reshape(-1, whole.shape[-1])[row])


def _mix_heads_6(
    sizes: Rwkv, weight: LayerWeights, y: Floats, shifted: Floats, state: Floats
) -> tuple[Floats, Floats]:
    leant = y + shifted * _row(weight, "time_mix_lerp_x")
    small = np.tanh(multiply(weight, "time_mix_w1", leant)).reshape(len(y), 5, -1)
    xw, xk, xv, xr, xg = (
        y
        + shifted
        * (
            small[:, at] @ weight["time_mix_w2.weight"][at].T
            + _row(weight, "time_mix_lerp_fused", at)
        )
        for at in range(5)
    )
    slow = np.tanh(multiply(weight, "time_mix_decay_w1", xw))
    slow = multiply(weight, "time_mix_decay_w2", slow) + weight["time_mix_decay.weight"]
    decay = np.exp(-np.exp(slow))
    r, k, v = (
        multiply(weight, f"time_mix_{name}", part)
        for name, part in (("receptance", xr), ("key", xk), ("value", xv))
    )
    first, made = weight["time_mix_first.weight"], []
    for token in range(len(y)):
        rt, kt, vt, dt = (part[token].reshape(sizes.heads, -1) for part in (r, k, v, decay))
        given = kt[..., None] * vt[:, None]
        made.append((rt[..., None] * (state + first[..., None] * given)).sum(axis=1).reshape(-1))
        state = state * dt[..., None] + given
    return _norm_heads(sizes, weight, np.array(made)) * silu(
        multiply(weight, "time_mix_gate", xg)
    ), state


def _mix_heads_7(
    sizes: Rwkv,
    weight: LayerWeights,
    y: Floats,
    shifted: Floats,
    state: Floats,
    memory: Memory | None,
) -> tuple[Floats, Floats]:
    """`memory` has the first layer's values, but for that layer itself."""
    xr, xw, xk, xv, xa, xg = (
        y + shifted * _row(weight, "time_mix_lerp_fused", at) for at in range(6)
    )
    r, k, v = (
        multiply(weight, f"time_mix_{name}", part)
        for name, part in (("receptance", xr), ("key", xk), ("value", xv))
    )
    slow = multiply(weight, "time_mix_w2", np.tanh(multiply(weight, "time_mix_w1", xw)))
    decay = np.exp(-0.606531 * sigmoid(slow + weight["time_mix_w0.weight"]))
    if memory:
        share = multiply(weight, "time_mix_v2", multiply(weight, "time_mix_v1", xv))
        v = v + (memory.first_values - v) * sigmoid(share + weight["time_mix_v0.weight"])
    gate = multiply(weight, "time_mix_g2", sigmoid(multiply(weight, "time_mix_g1", xg)))
    rate = multiply(weight, "time_mix_a2", multiply(weight, "time_mix_a1", xa))
    rate = sigmoid(rate + weight["time_mix_a0.weight"])
    unit_keys = (k * weight["time_mix_k_k.weight"]).reshape(len(y), sizes.heads, -1)
    length = np.sqrt((unit_keys * unit_keys).sum(axis=-1, keepdims=True))
    unit_keys = (unit_keys / np.maximum(length, 1e-12)).reshape(y.shape)
    k = k * (1 + (rate - 1) * weight["time_mix_k_a.weight"])
    made = []
    for token in range(len(y)):
        rt, kt, vt, dt, at, bt = (
            part[token].reshape(sizes.heads, -1)
            for part in (r, k, v, decay, -unit_keys, unit_keys * rate)
        )
        taken = (state * at[:, None]).sum(axis=-1)
        state = state * dt[:, None] + vt[..., None] * kt[:, None] + taken[..., None] * bt[:, None]
        made.append((state * rt[:, None]).sum(axis=-1).reshape(-1))
    seen = (k * r * weight["time_mix_r_k.weight"].reshape(-1)).reshape(len(y), sizes.heads, -1)
    own = v.reshape(seen.shape) * seen.sum(axis=-1, keepdims=True)
    return (_norm_heads(sizes, weight, np.array(made)) + own.reshape(y.shape)) * gate, state


def _norm_heads(sizes: Rwkv, weight: LayerWeights, x: Floats) -> Floats:
    heads = x.reshape(len(x), sizes.heads, -1)
    heads = heads - heads.mean(axis=-1, keepdims=True)
    heads = heads / np.sqrt((heads * heads).mean(axis=-1, keepdims=True) + 64e-5)
    return np.asarray(
        heads.reshape(x.shape) * weight["time_mix_ln.weight"] + weight["time_mix_ln.bias"]
    )


def _mix_channels(weight: LayerWeights, y: Floats, shifted: Floats, *, is_sixth: bool) -> Floats:
    key = multiply(weight, "channel_mix_key", y + shifted * _row(weight, "channel_mix_lerp_k"))
    made = multiply(weight, "channel_mix_value", relu(key) ** 2)
    if not is_sixth:
        return made
    leant = y + shifted * _row(weight, "channel_mix_lerp_r")
    return sigmoid(multiply(weight, "channel_mix_receptance", leant)) * made
