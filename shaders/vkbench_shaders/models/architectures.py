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
    "attn_sinks.weight",
    "exp_probs_b.bias",
    "attn_norm.bias",
    "ffn_norm.bias",
    "ffn_up.bias",
    "ffn_down.bias",
    "ffn_gate.bias",
    "ffn_gate_inp.bias",
    "ffn_gate_exps.bias",
    "ffn_up_exps.bias",
    "ffn_down_exps.bias",
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
    forward_norm: str = "ffn_norm"  # before the feed-forward part; "": it reads what attention does
    scaled_embedding: bool = False  # by the root of the width
    capped: bool = False  # scores and logits, by the file's softcaps or by usual ones
    period: int = 0  # of so many layers all but the last see a window; 0: none does
    window: int = 0  # positions that those see, if the file does not say
    local_base: float = 0.0  # of the angles of layers that see a window; 0: as in all others
    wide_layers: int = 0  # a model of so many scales scores by its width
    experts: bool = False  # whether it may have them
    latent: bool = False  # whether keys and values of all heads are made of one short vector


ARCHITECTURES: Mapping[str, Architecture] = {
    each.name: each
    for each in (
        Architecture(name="llama", experts=True),  # Mistral and Mixtral too
        Architecture(name="qwen2", rope="neox"),
        Architecture(name="qwen3", rope="neox"),
        Architecture(name="qwen3moe", rope="neox", experts=True),
        Architecture(name="phi3", rope="neox"),
        Architecture(name="gpt2", rope="", norm="layer_norm", gate=""),
        Architecture(name="phi2", rope="neox", norm="layer_norm", gate="", forward_norm=""),
        Architecture(
            name="gemma2",
            rope="neox",
            gate="geglu",
            scaled_embedding=True,
            capped=True,
            period=2,
            window=4096,
            wide_layers=46,
        ),
        Architecture(
            name="gemma3",
            rope="neox",
            gate="geglu",
            scaled_embedding=True,
            period=6,
            local_base=10_000.0,
            wide_layers=62,
        ),
        Architecture(
            name="gpt-oss",
            rope="neox",
            gate="swiglu_oai",
            forward_norm="post_attention_norm",
            period=2,
            window=128,
            experts=True,
        ),
        Architecture(name="deepseek2", experts=True, latent=True),  # V2 and V3
    )
}
