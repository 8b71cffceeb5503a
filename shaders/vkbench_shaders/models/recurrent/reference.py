"""Layers with states in float64, of whatever recurrence."""

from __future__ import annotations

from vkbench_shaders.models.hyper import Hyper
from vkbench_shaders.models.recurrent import delta_reference, mamba_reference, rwkv_reference
from vkbench_shaders.models.recurrent.sizes import Delta, Mamba, Memory, Rwkv
from vkbench_shaders.models.reference_weights import Floats, LayerWeights, normalise


def recur(hyper: Hyper, layer: int, weight: LayerWeights, x: Floats, memory: Memory) -> Floats:
    """Vectors behind a layer that go on from its states in a memory, and leave others there."""
    sizes = hyper.recurrent
    if isinstance(sizes, Rwkv):
        return rwkv_reference.read_layer(hyper, layer, weight, x, memory)
    assert isinstance(sizes, Mamba)
    y = normalise(hyper, weight, "attn_norm", x)
    before = memory.states_of(layer, sizes)
    made, memory.states[layer] = mamba_reference.mix_tokens(sizes, weight, y, before, hyper.eps)
    return x + made


def mix_in_place_of_attention(
    hyper: Hyper, layer: int, weight: LayerWeights, y: Floats, memory: Memory
) -> Floats:
    """What a layer of a hybrid model makes of normalised vectors where others have attention."""
    sizes = hyper.recurrent
    assert isinstance(sizes, Delta)
    before = memory.states_of(layer, sizes)
    made, memory.states[layer] = delta_reference.mix_tokens(sizes, weight, y, before, hyper.eps)
    return made
