"""The shapes of models: sizes of real ones, and a tiny one of each architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from vkbench.errors import UsageError
from vkbench.words import names
from vkbench_shaders.models.making.shape import Shape


def _llama_3(layers: int, width: int, head_size: int, feed_forward: int) -> Shape:
    return Shape(
        arch="llama",
        layers=layers,
        width=width,
        heads=32,
        kv_heads=8,
        head_size=head_size,
        feed_forward=feed_forward,
        vocabulary=128_256,
        context=8192,
        rope_base=500_000.0,
    )


def _llama_2(arch: str, kv_heads: int, feed_forward: int) -> Shape:
    return Shape(
        arch=arch,
        layers=32,
        width=4096,
        heads=32,
        kv_heads=kv_heads,
        head_size=128,
        feed_forward=feed_forward,
        vocabulary=32_000,
        context=4096,
    )


def _qwen(arch: str, layers: int, width: int, heads: tuple[int, int], feed_forward: int) -> Shape:
    return Shape(
        arch=arch,
        layers=layers,
        width=width,
        heads=heads[0],
        kv_heads=heads[1],
        feed_forward=feed_forward,
        head_size=128,
        vocabulary=151_936,
        context=32_768,
        epsilon=1e-6,
        rope_base=1e6,
    )


def _gpt2(layers: int, width: int) -> Shape:
    return Shape(
        arch="gpt2",
        layers=layers,
        width=width,
        heads=width // 64,
        kv_heads=width // 64,
        head_size=64,
        feed_forward=4 * width,
        vocabulary=50_257,
        context=1024,
        tied=True,
    )


_PHI3 = replace(
    _llama_2("phi3", 32, 8192), width=3072, head_size=96, vocabulary=32_064, window=2047
)
_GEMMA2 = Shape(
    arch="gemma2",
    layers=26,
    width=2304,
    heads=8,
    kv_heads=4,
    head_size=256,
    feed_forward=9216,
    vocabulary=256_000,
    context=8192,
    tied=True,
    epsilon=1e-6,
    window=4096,
)
_PHI2 = replace(
    _llama_2("phi2", 32, 10_240), width=2560, head_size=80, vocabulary=51_200, context=2048
)
_PHI4 = replace(
    _llama_2("phi3", 10, 17_920),
    layers=40,
    width=5120,
    heads=40,
    vocabulary=100_352,
    context=16_384,
    rope_base=250_000.0,
)
_GEMMA3 = Shape(
    arch="gemma3",
    layers=34,
    width=2560,
    heads=8,
    kv_heads=4,
    head_size=256,
    feed_forward=10_240,
    vocabulary=262_144,
    context=131_072,
    tied=True,
    epsilon=1e-6,
    rope_base=1e6,
    rope_scaling="linear",
    rope_factor=8.0,
    window=1024,
)
_GPT_OSS = Shape(
    arch="gpt-oss",
    layers=24,
    width=2880,
    heads=64,
    kv_heads=8,
    head_size=64,
    feed_forward=2880,
    vocabulary=201_088,
    context=131_072,
    experts=32,
    used=4,
    rope_base=150_000.0,
    rope_scaling="yarn",
    rope_factor=32.0,
    rope_context=4096,
    window=128,
)
_DEEPSEEK2 = Shape(
    arch="deepseek2",
    layers=27,
    width=2048,
    heads=16,
    kv_heads=1,
    head_size=128,
    feed_forward=1408,
    vocabulary=102_400,
    context=163_840,
    experts=64,
    used=6,
    shared=2,
    dense=1,
    dense_forward=10_944,
    rank=512,
    epsilon=1e-6,
    rope_scaling="yarn",
    rope_factor=40.0,
    rope_context=4096,
    rope_log=0.0707,
)
_MAMBA2 = Shape(
    arch="mamba2",
    layers=64,
    width=2560,
    heads=80,
    kv_heads=1,
    head_size=64,
    feed_forward=0,
    vocabulary=50_288,
    context=1 << 20,
    tied=True,
    state=128,
)
_MAMBA = replace(
    _MAMBA2, arch="mamba", heads=1, head_size=5120, vocabulary=50_280, state=16, step_rank=160
)
_RWKV6 = Shape(
    arch="rwkv6",
    layers=24,
    width=2048,
    heads=32,
    kv_heads=32,
    head_size=64,
    feed_forward=7168,
    vocabulary=65_536,
    context=1 << 20,
    ranks=(32, 64),
)
_RWKV7 = replace(_RWKV6, arch="rwkv7", feed_forward=8192, ranks=(96, 96, 64, 256))
_QWEN35 = Shape(
    arch="qwen35",
    layers=32,
    width=2560,
    heads=16,
    kv_heads=4,
    head_size=256,
    feed_forward=9216,
    vocabulary=248_320,
    context=262_144,
    tied=True,
    epsilon=1e-6,
    rope_base=1e7,
    nets=(16, 32, 128),
    interval=4,
)
_QWEN35MOE = replace(
    _QWEN35,
    arch="qwen35moe",
    layers=40,
    width=2048,
    kv_heads=2,
    feed_forward=512,
    experts=256,
    used=8,
    shared=1,
    tied=False,
)
_BERT = Shape(
    arch="bert",
    layers=12,
    width=768,
    heads=12,
    kv_heads=12,
    head_size=64,
    feed_forward=3072,
    vocabulary=30_522,
    context=512,
    epsilon=1e-12,
    pooling=2,
)
_MISTRAL = replace(_llama_2("llama", 8, 14_336), context=32_768, rope_base=1e6)
_MIXTRAL = replace(_MISTRAL, arch="mixtral", experts=8, used=2)
_QWEN3MOE = replace(_qwen("qwen3moe", 48, 2048, (32, 4), 768), experts=128, used=8)


def _tiny(shape: Shape) -> Shape:
    """Two layers of an architecture, or a period, whose rows are one or two blocks of 256 long."""
    heads, scanned = min(shape.heads, 4), 512
    return replace(
        shape,
        layers=shape.interval or (6 if shape.arch == "gemma3" else 2),  # a period of windows
        width=256,
        heads=heads,
        head_size=scanned // heads if shape.state else 64,
        feed_forward=0 if shape.state else 512,
        kv_heads={shape.heads: 4, 1: 1}.get(shape.kv_heads, 2),
        vocabulary=512,
        context=512,
        nets=(2, 4, 64) if shape.nets else (),
        step_rank=min(shape.step_rank, 16),
        ranks=tuple(min(rank, 32) for rank in shape.ranks),
        experts=min(shape.experts, 8),
        used=min(shape.used, 2),
        dense_forward=min(shape.dense_forward, 512),
        rank=min(shape.rank, 256),
        query_rank=min(shape.rank, 256),  # llama.cpp knows models without by their 27 layers
        window=min(shape.window, 64),
    )


_REAL: Final[dict[str, Shape]] = {
    "llama-3.2-1b": replace(
        _llama_3(16, 2048, 64, 8192), context=131_072, tied=True, rope_factors=True
    ),
    "llama-3-8b": _llama_3(32, 4096, 128, 14_336),
    "llama-2-7b": _llama_2("llama", 32, 11_008),
    "mistral-7b": _MISTRAL,
    "mixtral-8x7b": _MIXTRAL,
    "qwen2-0.5b": replace(_qwen("qwen2", 24, 896, (14, 2), 4864), head_size=64, tied=True),
    "qwen2-7b": replace(_qwen("qwen2", 28, 3584, (28, 4), 18_944), vocabulary=152_064),
    "qwen3-0.6b": replace(_qwen("qwen3", 28, 1024, (16, 8), 3072), tied=True),
    "qwen3-8b": _qwen("qwen3", 36, 4096, (32, 8), 12_288),
    "qwen3-30b-a3b": _QWEN3MOE,
    "gpt2-124m": _gpt2(12, 768),
    "gpt2-774m": _gpt2(36, 1280),
    "phi3-mini": _PHI3,
    "gemma2-2b": _GEMMA2,
    "phi2": _PHI2,
    "phi4": _PHI4,
    "gemma3-4b": _GEMMA3,
    "gpt-oss-20b": _GPT_OSS,
    "deepseek-v2-lite": _DEEPSEEK2,
    "mamba-130m": replace(_MAMBA, layers=24, width=768, head_size=1536, step_rank=48),
    "mamba-2.8b": _MAMBA,
    "mamba2-130m": replace(_MAMBA2, layers=24, width=768, heads=24),
    "mamba2-2.7b": _MAMBA2,
    "rwkv6-1.6b": _RWKV6,
    "rwkv7-1.5b": _RWKV7,
    "qwen3.5-4b": _QWEN35,
    "qwen3.5-9b": replace(_QWEN35, width=4096, feed_forward=12_288, tied=False),
    "qwen3.5-35b-a3b": _QWEN35MOE,
    "qwen3-next-80b-a3b": replace(
        _QWEN35MOE, arch="qwen3next", layers=48, experts=512, used=10, vocabulary=151_936
    ),
    "bge-base": _BERT,
    "bge-large": replace(_BERT, layers=24, width=1024, heads=16, kv_heads=16, feed_forward=4096),
    "minilm-l6": replace(_BERT, layers=6, width=384, head_size=32, feed_forward=1536, pooling=1),
    "nomic-embed-1.5": replace(_BERT, arch="nomic-bert", context=2048, rope_base=1000.0, pooling=1),
}
# The first model of each architecture, by which `--arch` alone goes.
_FIRST: Final[Mapping[str, str]] = {
    shape.arch: name for name, shape in reversed(list(_REAL.items()))
}
ARCHITECTURES: Final = tuple(dict.fromkeys(shape.arch for shape in _REAL.values()))
SHAPES: Final[Mapping[str, Shape]] = _REAL | {
    f"tiny-{arch}": _tiny(_REAL[_FIRST[arch]]) for arch in ARCHITECTURES
}


def shape_named(arch: str, like: str) -> tuple[str, Shape]:
    """The name and the shape that `--arch` and `--like` ask for; either may be empty."""
    if not arch and not like:
        known = ", ".join(ARCHITECTURES)
        raise UsageError(f"give --arch ({known}) or --like, the name of a model")
    architecture = names.pick(arch, ARCHITECTURES, "architecture") if arch else ""
    name = names.pick(like, SHAPES, "model") if like else _FIRST[architecture]
    shape = SHAPES[name]
    if architecture and shape.arch != architecture:
        raise UsageError(f"{name} has the architecture {shape.arch}, not {architecture}")
    return name, shape
