"""The architectures that are supported: what tells one from another beside sizes and tensors.

What a file shows by its tensors is no entry here: biases, norms of queries and keys, norms behind
the attention, and an output matrix of its own are used where the file has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Letters of what a layer may have, by the names of its tensors behind "blk.N.".
OPTIONAL = (
    "attn_q.bias",
    "attn_k.bias",
    "attn_v.bias",
    "attn_qkv.bias",
    "attn_output.bias",
    "attn_q_norm.weight",
    "attn_k_norm.weight",
    "attn_norm.bias",
    "ffn_norm.bias",
    "ffn_up.bias",
    "ffn_down.bias",
    "ffn_gate.bias",
    "post_attention_norm.weight",
    "post_ffw_norm.weight",
)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """What all models of one name in `general.architecture` have in common."""

    name: str
    rope: str = "norm"  # mode of the kernel rope; "": positions are learnt vectors
    norm: str = "rms_norm"  # the kernel
    gate: str = "swiglu"  # the kernel glu; "": no gate, gelu alone
    scaled_embedding: bool = False  # by the root of the width
    capped: bool = False  # scores and logits, by the file's softcaps
    windowed: bool = False  # every second layer, from the first on, sees a window
    experts: bool = False  # whether it may have them


ARCHITECTURES: Mapping[str, Architecture] = {
    each.name: each
    for each in (
        Architecture(name="llama", experts=True),  # Mistral and Mixtral too
        Architecture(name="qwen2", rope="neox"),
        Architecture(name="qwen3", rope="neox"),
        Architecture(name="qwen3moe", rope="neox", experts=True),
        Architecture(name="phi3", rope="neox"),
        Architecture(name="gpt2", rope="", norm="layer_norm", gate=""),
        Architecture(
            name="gemma2",
            rope="neox",
            gate="geglu",
            scaled_embedding=True,
            capped=True,
            windowed=True,
        ),
    )
}
