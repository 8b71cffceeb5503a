"""The architectures that are supported: what tells one from another beside sizes and tensors.

What a file shows by its tensors is no entry here: biases, norms of queries and keys, norms behind
the attention, and an output matrix of its own are used where the file has them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

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
    models: str  # whose files name it
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
    shared: str = ""  # experts that all tokens share, if there may be any: plain or gated ones
    gated_heads: bool = False  # whether what attention makes is gated, by rows of the queries'
    recurrence: str = ""  # how tokens leave states to the next ones, in place of attention
    interval: int = 0  # of so many layers the last has attention all the same; 0: none has
    encodes: bool = False  # whether all tokens see each other, to become an embedding

    @property
    def has_attention(self) -> bool:
        """Whether layers have attention, all of them or some beside others with states."""
        return not self.recurrence or self.interval > 0

    @property
    def makes(self) -> str:
        """What a run leaves: the name of a graph's last value, which is judged."""
        return "embedding" if self.encodes else "logits"


_HYBRID: Final = Architecture(
    name="qwen35",
    models="Qwen 3.5 and 3.6",
    rope="neox",
    forward_norm="post_attention_norm",
    gated_heads=True,
    recurrence="delta",
    interval=4,
)
_MIXED: Final = replace(_HYBRID, experts=True, shared="gated")
_ENCODER: Final = Architecture(
    name="bert",
    models="BERT, BGE, E5, MiniLM and alike",
    rope="",
    norm="layer_norm",
    gate="",
    forward_norm="",
    encodes=True,
)
ARCHITECTURES: Mapping[str, Architecture] = {
    architecture.name: architecture
    for architecture in (
        Architecture(name="llama", models="Llama 2 and 3, Mistral, Mixtral", experts=True),
        Architecture(name="qwen2", models="Qwen 2 and 2.5", rope="neox"),
        Architecture(name="qwen3", models="Qwen 3", rope="neox"),
        Architecture(name="qwen3moe", models="Qwen 3 with experts", rope="neox", experts=True),
        Architecture(name="phi3", models="Phi-3, Phi-3.5 and Phi-4", rope="neox"),
        Architecture(name="gpt2", models="GPT-2", rope="", norm="layer_norm", gate=""),
        Architecture(
            name="phi2", models="Phi-2", rope="neox", norm="layer_norm", gate="", forward_norm=""
        ),
        Architecture(
            name="gemma2",
            models="Gemma 2",
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
            models="Gemma 3, text",
            rope="neox",
            gate="geglu",
            scaled_embedding=True,
            period=6,
            local_base=10_000.0,
            wide_layers=62,
        ),
        Architecture(
            name="gpt-oss",
            models="gpt-oss 20b and 120b",
            rope="neox",
            gate="swiglu_oai",
            forward_norm="post_attention_norm",
            period=2,
            window=128,
            experts=True,
        ),
        Architecture(
            name="deepseek2",
            models="DeepSeek V2 Lite, V3 and alike",
            experts=True,
            latent=True,
            shared="plain",
        ),
        Architecture(name="mamba", models="Mamba", rope="", gate="", recurrence="mamba"),
        Architecture(name="mamba2", models="Mamba 2", rope="", gate="", recurrence="mamba2"),
        *(
            Architecture(
                name=name, models=models, rope="", norm="layer_norm", gate="", recurrence=name
            )
            for name, models in (("rwkv6", "RWKV 6, Finch"), ("rwkv7", "RWKV 7, Goose"))
        ),
        _HYBRID,
        replace(_MIXED, name="qwen35moe", models="Qwen 3.5 and 3.6 with experts"),
        replace(_MIXED, name="qwen3next", models="Qwen3-Next", recurrence="delta_next"),
        _ENCODER,
        replace(_ENCODER, name="nomic-bert", models="Nomic Embed 1.5", rope="neox", gate="swiglu"),
    )
}

_SCANS: Final = "scans of Mamba in some layers, and attention in others or beside them"
_PICTURES: Final = "inputs that are no tokens, and attention that sees what comes later"
_ONE_WAY: Final = "attention that sees what comes later"
# What architectures that are refused need, and no step here makes.
MISSING: Final[Mapping[str, str]] = {
    **dict.fromkeys(("rwkv6qwen2", "arwkv7"), "heads of RWKV before gated units"),
    **dict.fromkeys(("jamba", "falcon-h1", "granitehybrid", "nemotron_h"), _SCANS),
    "kimi-linear": "delta nets whose keys have decays of their own",
    "lfm2": "short convolutions in place of attention",
    **dict.fromkeys(("clip", "whisper"), _PICTURES),
    **dict.fromkeys(("modern-bert", "t5", "t5encoder"), _ONE_WAY),
    "gemma3n": "several streams of vectors that take turns",
    "gemma4": "layers that share keys and values, and embeddings of each layer",
    "deepseek4": "attention over compressed positions, and several streams of vectors",
}


def refusal_of(name: str) -> str:
    """Why a file of an architecture is refused, in a line that says what is missing."""
    needs = f", which needs {MISSING[name]}" if name in MISSING else ""
    return f"general.architecture is {name}{needs}; supported are {', '.join(ARCHITECTURES)}"


def features_of(architecture: Architecture) -> list[str]:
    """What an architecture has beside attention and a feed-forward part, in words."""
    one = architecture
    features = {
        "learnt positions": not one.rope and one.has_attention,
        "layer_norm": one.norm == "layer_norm",
        f"gated by {one.gate}": one.gate not in ("", "swiglu"),
        "gelu without a gate": not one.gate and one.has_attention,
        "a feed-forward part beside attention": not one.forward_norm and not one.encodes,
        "a scaled embedding": one.scaled_embedding,
        "softcaps": one.capped,
        f"windows in {one.period - 1} of {one.period} layers": one.period > 0,
        "another base of angles in windows": one.local_base > 0,
        "experts": one.experts,
        "experts chosen by groups": one.latent,
        "keys and values of one short vector (MLA)": one.latent,
        "experts that all tokens share": one.shared == "plain",
        "gated experts that all tokens share": one.shared == "gated",
        "gated heads": one.gated_heads,
        f"gated delta nets in {one.interval - 1} of {one.interval} layers": one.interval > 0,
        "a convolution and a scan with states in place of attention": "mamba" in one.recurrence,
        "heads with states in place of attention": "rwkv" in one.recurrence,
        "norms behind each part": one.encodes,
        "attention that sees all tokens": one.encodes,
        "an embedding in place of logits": one.encodes,
    }
    return [words for words, is_there in features.items() if is_there]
