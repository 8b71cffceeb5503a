"""Tiny models of all architectures, and what llama.cpp's library found for them: logits, or the
embedding that an encoder makes of a sequence.

    python tests/planted/recorded_logits.py PROGRAM

records them anew. PROGRAM is `logits.cpp` of the folder below, compiled with llama.cpp's headers:

    g++ logits.cpp -lllama -lggml -lggml-base -o logits

`GGML_BACKENDS` names the folder of ggml's backends where its libraries do not find it themselves.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from planted_model import ENCODERS, VOCABULARY, Keys, Tiny, write_model

RECORDED = Path(__file__).parent / "recorded" / "llama_cpp_logits" / "logits.npz"
TOKENS = np.arange(24) * 7 % VOCABULARY


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A model, keys that its file has beside the usual ones, and how its tokens were read."""

    tiny: Tiny
    prompt: int = len(TOKENS)  # tokens that llama.cpp read at once, before others one by one
    keys: Keys = field(default_factory=dict)

    def write(self, path: Path) -> Path:
        return write_model(path, self.tiny, {"vocab_size": VOCABULARY, **self.keys})


_YARN: Keys = {
    "rope.scaling.type": "yarn",
    "rope.scaling.factor": 4.0,
    "rope.scaling.original_context_length": 8,
}
MODELS: dict[str, Recorded] = {
    "llama": Recorded(tiny=Tiny()),
    "llama tied": Recorded(tiny=Tiny(tied=True)),
    "llama experts": Recorded(tiny=Tiny(experts=4)),
    "llama linear": Recorded(
        tiny=Tiny(), keys={"rope.scaling.type": "linear", "rope.scaling.factor": 4.0}
    ),
    "llama yarn": Recorded(tiny=Tiny(), keys=_YARN),
    "llama base": Recorded(
        tiny=Tiny(), keys={"rope.freq_base": 500000.0, "attention.layer_norm_rms_epsilon": 1e-2}
    ),
    "qwen2": Recorded(tiny=Tiny(arch="qwen2")),
    "qwen3": Recorded(tiny=Tiny(arch="qwen3")),
    "qwen3 yarn": Recorded(
        tiny=Tiny(arch="qwen3"), keys={**_YARN, "rope.scaling.attn_factor": 1.2}
    ),
    "qwen3moe": Recorded(
        tiny=Tiny(arch="qwen3moe", experts=4), keys={"expert_feed_forward_length": 96}
    ),
    "phi3": Recorded(tiny=Tiny(arch="phi3")),
    "gpt2": Recorded(tiny=Tiny(arch="gpt2", groups=4)),
    "gemma2": Recorded(tiny=Tiny(arch="gemma2")),
    "gemma2 caps": Recorded(
        tiny=Tiny(arch="gemma2"),
        keys={"attn_logit_softcapping": 2.0, "final_logit_softcapping": 10.0},
    ),
    "phi2": Recorded(tiny=Tiny.of("phi2")),
    "phi3 without windows": Recorded(
        tiny=Tiny.of("phi3", tied=True, groups=1), keys={"rope.dimension_count": 16}
    ),
    "gemma3": Recorded(tiny=Tiny.of("gemma3")),
    "gemma3 scaled": Recorded(
        tiny=Tiny.of("gemma3"),
        keys={
            "rope.freq_base": 1e6,
            "rope.scaling.type": "linear",
            "rope.scaling.factor": 8.0,
            "final_logit_softcapping": 10.0,
        },
    ),
    "gemma3 62 layers": Recorded(tiny=Tiny.of("gemma3", layers=62, heads=2, inner=32)),
    "gpt-oss": Recorded(tiny=Tiny.of("gpt-oss")),
    "gpt-oss yarn": Recorded(tiny=Tiny.of("gpt-oss", layers=3), keys=_YARN),
    "deepseek2": Recorded(tiny=Tiny.of("deepseek2"), keys={"expert_weights_norm": True}),
    "deepseek2 lite": Recorded(
        tiny=Tiny.of("deepseek2", lite=True, layers=27, width=128, inner=16),
        keys={"expert_weights_scale": 0.5},
    ),
    "deepseek2 yarn": Recorded(
        tiny=Tiny.of("deepseek2"), keys={**_YARN, "rope.scaling.yarn_log_multiplier": 0.0707}
    ),
    "deepseek2 groups": Recorded(
        tiny=Tiny.of("deepseek2", experts=16),
        keys={
            "expert_group_count": 4,
            "expert_group_used_count": 2,
            "expert_used_count": 4,
            "expert_weights_norm": True,
        },
    ),
    "mamba": Recorded(tiny=Tiny.of("mamba")),
    "mamba tied": Recorded(tiny=Tiny.of("mamba", tied=True, layers=3)),
    "mamba2": Recorded(tiny=Tiny.of("mamba2")),
    "mamba2 one group": Recorded(tiny=Tiny.of("mamba2", groups=1, head=32)),
    "rwkv6": Recorded(tiny=Tiny.of("rwkv6", layers=3), keys={"rescale_every_n_layers": 2}),
    # llama.cpp's own heads of 16 numbers read what lies behind them
    "rwkv7": Recorded(tiny=Tiny.of("rwkv7", layers=3, width=128, head=64)),
    "qwen35": Recorded(tiny=Tiny.of("qwen35")),
    "qwen35 tied": Recorded(
        tiny=Tiny.of("qwen35", tied=True, layers=8, groups=1),
        keys={"attention.layer_norm_rms_epsilon": 1e-2, "rope.freq_base": 1e6},
    ),
    "qwen35 tokens": Recorded(tiny=Tiny.of("qwen35", layers=5), prompt=9),
    "qwen35 marked": Recorded(
        tiny=Tiny.of("qwen35", drafts=True),
        keys={"attention.recurrent_layers": [True, True, True, False, False]},
    ),
    "qwen35moe": Recorded(tiny=Tiny.of("qwen35moe")),
    "qwen35moe many": Recorded(
        tiny=Tiny.of("qwen35moe", experts=16, groups=1), keys={"expert_used_count": 5}
    ),
    "qwen3next": Recorded(tiny=Tiny.of("qwen3next")),
    "qwen3next tokens": Recorded(tiny=Tiny.of("qwen3next"), prompt=1),
    "qwen3next wide": Recorded(
        tiny=Tiny.of("qwen3next", heads=6, groups=2, tied=True),
        keys={"attention.layer_norm_rms_epsilon": 1e-2},
    ),
    "bert": Recorded(tiny=Tiny.of("bert")),
    "bert cls": Recorded(
        tiny=Tiny.of("bert", layers=3),
        keys={"pooling_type": 2, "attention.layer_norm_epsilon": 1e-12},
    ),
    "bert last": Recorded(tiny=Tiny.of("bert"), keys={"pooling_type": 3}),
    "bert rows": Recorded(tiny=Tiny.of("bert"), keys={"pooling_type": 0}),
    "nomic-bert": Recorded(tiny=Tiny.of("nomic-bert"), keys={"rope.freq_base": 1000.0}),
    "nomic-bert cls": Recorded(tiny=Tiny.of("nomic-bert", layers=3), keys={"pooling_type": 2}),
    "gemma2 46 layers": Recorded(tiny=Tiny(arch="gemma2", layers=46, width=32, inner=32)),
}


def recorded() -> dict[str, NDArray[np.float32]]:
    """Logits of the tokens, or their embedding, by model."""
    with np.load(RECORDED) as file:
        return dict(file)


def main() -> None:
    program, found = sys.argv[1], {}
    with tempfile.TemporaryDirectory() as folder:
        for name, model in MODELS.items():
            path = model.write(Path(folder) / "model.gguf")
            command = [program, str(path), *map(str, (model.prompt, *TOKENS))]
            said = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
            numbers = np.frombuffer(said, np.float32)
            is_encoder = model.tiny.arch in ENCODERS
            found[name] = numbers if is_encoder else numbers.reshape(len(TOKENS), VOCABULARY)
    np.savez_compressed(RECORDED, allow_pickle=False, **found)


if __name__ == "__main__":
    main()
