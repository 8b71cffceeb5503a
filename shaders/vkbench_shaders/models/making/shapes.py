"""The shapes of models: sizes of real ones, and a tiny one of each architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from vkbench.errors import UsageError
from vkbench.words import names


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What decides which tensors a model has, how large they are, and what its metadata says."""

    arch: str  # as `--arch` names it
    layers: int
    width: int  # of the embedding
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int  # of the feed-forward part, or of one expert
    vocabulary: int
    context: int
    experts: int = 0
    used: int = 0  # of the experts, by a token
    shared: int = 0  # experts that every token uses besides
    dense: int = 0  # layers without experts, the first ones
    dense_forward: int = 0  # of their feed-forward part
    rank: int = 0  # of the vector that keys and values of all heads are made of, if there is one
    query_rank: int = 0  # of one that queries are made of
    tied: bool = False  # whether the embedding is the output matrix too
    epsilon: float = 1e-5
    rope_base: float = 10_000.0
    rope_factors: bool = False  # whether a tensor divides the frequencies, as in Llama 3.1 and 3.2
    rope_scaling: str = ""  # how angles are made smaller for long contexts, if they are
    rope_factor: float = 1.0  # by how much
    rope_context: int = 0  # the context before that
    rope_log: float = 0.0  # by how much scores grow with the factor's logarithm
    window: int = 0  # tokens that a layer with a sliding window sees
    state: int = 0  # numbers that Mamba's tokens leave for each of theirs; 0: there is attention
    step_rank: int = 0  # of the vector that Mamba-1's step sizes are made of
    # numbers of the short vectors that RWKV 6's shares and decays are made of, or RWKV 7's decays,
    # rates, values and gates
    ranks: tuple[int, ...] = ()

    @property
    def architecture(self) -> str:
        """The architecture as the key general.architecture names it."""
        return "llama" if self.arch == "mixtral" else self.arch

    @property
    def turned(self) -> int:
        """Numbers of a head that follow from its position: of phi2's 80 only 32."""
        if self.rank:
            return self.head_size // 2
        return self.head_size * 2 // 5 if self.arch == "phi2" else self.head_size

    @property
    def scanned(self) -> int:
        """Numbers of a token that Mamba scans."""
        return 2 * self.width

    @property
    def query(self) -> int:
        """Width of all queries of a token."""
        return self.heads * self.head_size

    @property
    def key(self) -> int:
        """Width of all keys of a token, and of all values."""
        return self.kv_heads * self.head_size


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
_MISTRAL = replace(_llama_2("llama", 8, 14_336), context=32_768, rope_base=1e6)
_MIXTRAL = replace(_MISTRAL, arch="mixtral", experts=8, used=2)
_QWEN3MOE = replace(_qwen("qwen3moe", 48, 2048, (32, 4), 768), experts=128, used=8)


def _tiny(shape: Shape) -> Shape:
    """Two layers of an architecture, in which every row is one or two blocks of 256 long."""
    heads, scanned = min(shape.heads, 4), 512
    return replace(
        shape,
        layers=6 if shape.arch == "gemma3" else 2,  # a period of its windows
        width=256,
        heads=heads,
        head_size=scanned // heads if shape.state else 64,
        feed_forward=0 if shape.state else 512,
        kv_heads={shape.heads: 4, 1: 1}.get(shape.kv_heads, 2),
        vocabulary=512,
        context=512,
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
}
CENTRED: Final = ("gpt2", "phi2")  # architectures of layer_norm, with biases everywhere
RWKV: Final = ("rwkv6", "rwkv7")
STATE_SIZES: Final = (16, 32, 64, 128, 256)  # of RWKV's heads, as kernels have them
CONVOLVED: Final = 4  # tokens that Mamba's convolution looks at
_OF_EXPERTS: Final = ("mixtral", "qwen3moe", "gpt-oss", "deepseek2")
# The first model of each architecture, by which `--arch` alone goes.
_FIRST: Final[Mapping[str, str]] = {
    shape.arch: name for name, shape in reversed(list(_REAL.items()))
}
ARCHITECTURES: Final = tuple(dict.fromkeys(shape.arch for shape in _REAL.values()))
SHAPES: Final[Mapping[str, Shape]] = _REAL | {
    f"tiny-{arch}": _tiny(_REAL[_FIRST[arch]]) for arch in ARCHITECTURES
}
SIZES: Final = (
    *("layers", "width", "heads", "kv_heads", "head_size", "feed_forward", "experts", "used"),
    *("vocabulary", "context"),
)


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


def resize_shape(shape: Shape, sizes: Mapping[str, int]) -> Shape:
    """The shape with other sizes; UsageError where no model can have them."""
    known: dict[str, Any] = {names.pick(name, SIZES, "size"): sizes[name] for name in sizes}
    changed = replace(shape, **known)
    complaints = _complaints(changed)
    if complaints:
        raise UsageError(complaints[0])
    return changed


def _complaints(shape: Shape) -> list[str]:
    """What is wrong with the sizes of a shape."""
    complaints: list[str] = []
    gaps = [name for name in SIZES if getattr(shape, name) < 1]
    if not shape.experts and not shape.used:
        gaps = [name for name in gaps if name not in ("experts", "used")]
    if shape.state:
        gaps = [name for name in gaps if name != "feed_forward"]
        if shape.query != shape.scanned:
            complaints.append(
                f"heads * head_size is {shape.query} and not {shape.scanned}, twice the width"
            )
    complaints += [f"{name} is {getattr(shape, name)}: it has to be 1 or more" for name in gaps]
    if not gaps and shape.heads % shape.kv_heads:
        complaints.append(f"{shape.heads} heads are no multiple of {shape.kv_heads} kv_heads")
    if shape.head_size % 2:
        complaints.append(f"head_size is {shape.head_size}: it has to be even")
    if shape.used > shape.experts:
        complaints.append(f"a token cannot use {shape.used} of {shape.experts} experts")
    if bool(shape.experts) != (shape.arch in _OF_EXPERTS):
        has = "has" if shape.arch in _OF_EXPERTS else "has no"
        complaints.append(f"{shape.arch} {has} experts")
    if shape.arch in (*RWKV, "gpt2", "phi2", "phi3") and shape.query != shape.width:
        complaints.append(
            f"heads * head_size is {shape.query} and not width, as {shape.arch} needs it"
        )
    if shape.arch in (*CENTRED, *RWKV) and shape.heads != shape.kv_heads:
        complaints.append(f"{shape.arch} has as many kv_heads as heads")
    if shape.step_rank and (shape.heads, shape.kv_heads) != (1, 1):
        complaints.append(f"{shape.arch} has 1 for heads and 1 for kv_heads")
    if shape.state and shape.head_size % 4:
        complaints.append(f"head_size is {shape.head_size}: it has to be a multiple of 4")
    if shape.ranks and shape.head_size not in STATE_SIZES:
        known = ", ".join(map(str, STATE_SIZES))
        complaints.append(f"head_size is {shape.head_size}; {shape.arch} has one of {known}")
    return complaints
