"""Seeded models: any host makes one by itself, always the same file, so suites can name them.

    model/llama-3-8b-q8_0-0123456789ab/pp512

The hash stands in the table, so that a plan needs no file: a change of how models are made changes
it, and begins new series. `python -m vkbench_shaders.models.making.seeded` prints what the hashes
are now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Final

from vkbench.case import is_model
from vkbench_shaders.gguf_file import GgufFile, open_gguf
from vkbench_shaders.models.cases import HASH_DIGITS
from vkbench_shaders.models.hyper import HASHED, hash_of

if TYPE_CHECKING:
    from vkbench_shaders.models.making.making import ModelPlan


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """A model that `make` makes, drawn from blocks with seed 0."""

    like: str  # whose shape it has
    type: str  # of the file
    hash: str  # of the file's keys and tensors, as in cases
    layers: int = 0  # 0: as many as the model has
    encodes: bool = False  # whether it makes embeddings, and so has prompts alone

    @property
    def stem(self) -> str:
        """What its file is called, and so its cases."""
        return f"{self.shape_name}-{self.type}"

    @property
    def shape_name(self) -> str:
        """What its metadata call it."""
        return f"{self.like}-layers{self.layers}" if self.layers else self.like

    @property
    def name(self) -> str:
        """How its cases call it."""
        return f"{self.stem}-{self.hash}"

    @property
    def is_tiny(self) -> bool:
        """Whether a CPU driver runs it in seconds."""
        return self.like.startswith("tiny-")

    @cached_property
    def plan(self) -> ModelPlan:
        """How it is made."""
        from vkbench_shaders.models.making.making import ModelPlan
        from vkbench_shaders.models.making.mixtures import mixture_named
        from vkbench_shaders.models.making.shape import resize_shape
        from vkbench_shaders.models.making.shapes import SHAPES

        return ModelPlan(
            name=self.shape_name,
            shape=resize_shape(SHAPES[self.like], {"layers": self.layers} if self.layers else {}),
            mixture=mixture_named(self.type),
            weights="blocks",
            seed=0,
        )

    @contextmanager
    def write_outline(self) -> Iterator[GgufFile]:
        """The model's file without most weights, made in a moment: keys, tensors and the hash."""
        from vkbench_shaders.models.making.making import outline

        with NamedTemporaryFile(suffix=".gguf") as file:
            outline(self.plan, file, HASHED)
            yield open_gguf(Path(file.name))


SEEDED: Final = (
    Seeded(like="tiny-llama", type="q4_K_M", hash="09330859b246"),
    Seeded(like="gpt2-124m", type="q4_K_M", hash="591ce5cea1de"),
    Seeded(like="gpt2-124m", type="q8_0", hash="4d56d4d65801"),
    Seeded(like="llama-3.2-1b", type="q4_K_M", hash="a11e4362a4de"),
    Seeded(like="llama-3.2-1b", type="f16", hash="6bfb1ddb4081"),
    Seeded(like="llama-3-8b", type="q4_K_M", hash="23e676c93373"),
    Seeded(like="llama-3-8b", type="q8_0", hash="55637495c4aa"),
    Seeded(like="mixtral-8x7b", type="q4_K_M", hash="113d9900f351", layers=8),
    Seeded(like="qwen3-8b", type="q4_K_M", hash="a502154260ad"),
    Seeded(like="qwen3.5-4b", type="q4_K_M", hash="b1ae5660ee2b"),
    Seeded(like="qwen3.5-35b-a3b", type="q4_K_M", hash="8f0ee5b6044b", layers=8),
    Seeded(like="qwen3-next-80b-a3b", type="q4_K_M", hash="a718b9c8a1ec", layers=4),
    Seeded(like="phi2", type="q4_K_M", hash="95ea2f54a9cf"),
    Seeded(like="gemma3-4b", type="q4_K_M", hash="262c7216eb95"),
    Seeded(like="gpt-oss-20b", type="mxfp4_moe", hash="d339afdd7d8a", layers=8),
    Seeded(like="deepseek-v2-lite", type="q4_K_M", hash="5607dd3e0e49", layers=8),
    Seeded(like="mamba-2.8b", type="q4_K_M", hash="330149f9ff60"),
    Seeded(like="mamba2-2.7b", type="q4_K_M", hash="e1b25ac3032b"),
    Seeded(like="rwkv6-1.6b", type="q4_K_M", hash="600a08b81ec2"),
    Seeded(like="rwkv7-1.5b", type="q4_K_M", hash="9ad2807e7a3c"),
    Seeded(like="bge-large", type="f16", hash="fb1d7636c579", encodes=True),
)
_BY_NAME: Final[Mapping[str, Seeded]] = {each.name: each for each in SEEDED}


def seeded_of(case: str) -> Seeded | None:
    """The seeded model whose case this is, if any."""
    return _BY_NAME.get(case.split("/")[1]) if is_model(case) else None


def hash_now(model: Seeded) -> str:
    """The hash of what would be made now."""
    with model.write_outline() as file:
        return hash_of(file)[:HASH_DIGITS]


if __name__ == "__main__":
    for each in SEEDED:
        print(f"{each.stem} {hash_now(each)}")
