"""The shape of a model: its sizes, and which of them no model can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from vkbench.errors import UsageError
from vkbench.words import names

ENCODERS: Final = ("bert", "nomic-bert")
CENTRED: Final = ("gpt2", "phi2")  # architectures of layer_norm, with biases everywhere
RWKV: Final = ("rwkv6", "rwkv7")
STATE_SIZES: Final = (16, 32, 64, 128, 256)  # of RWKV's heads, as kernels have them
TYPES: Final = 2  # of tokens, of which encoders read the first alone
CONVOLVED: Final = 4  # tokens that Mamba's convolution looks at
_OF_EXPERTS: Final = ("mixtral", "qwen3moe", "gpt-oss", "deepseek2", "qwen35moe", "qwen3next")
SIZES: Final = (
    *("layers", "width", "heads", "kv_heads", "head_size", "feed_forward", "experts", "used"),
    *("vocabulary", "context"),
)


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
    # heads of keys of gated delta nets, of values, and numbers of each; (): there are no nets
    nets: tuple[int, ...] = ()
    interval: int = 0  # of so many layers the last has attention, and all others have nets
    state: int = 0  # numbers that Mamba's tokens leave for each of theirs; 0: there is attention
    step_rank: int = 0  # of the vector that Mamba-1's step sizes are made of
    # numbers of the short vectors that RWKV 6's shares and decays are made of, or RWKV 7's decays,
    # rates, values and gates
    ranks: tuple[int, ...] = ()
    pooling: int = 0  # how an encoder makes one vector of a sequence's, as llama.cpp numbers it

    @property
    def architecture(self) -> str:
        """The architecture as the key general.architecture names it."""
        return "llama" if self.arch == "mixtral" else self.arch

    @property
    def turned(self) -> int:
        """Numbers of a head that follow from its position: of phi2's 80 only 32."""
        if self.rank:
            return self.head_size // 2
        if self.nets:
            return self.head_size // 4
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
    if shape.arch in (*RWKV, *ENCODERS, "gpt2", "phi2", "phi3") and shape.query != shape.width:
        complaints.append(
            f"heads * head_size is {shape.query} and not width, as {shape.arch} needs it"
        )
    if shape.arch in (*CENTRED, *RWKV, *ENCODERS) and shape.heads != shape.kv_heads:
        complaints.append(f"{shape.arch} has as many kv_heads as heads")
    if shape.interval and shape.layers < shape.interval:
        complaints.append(f"layers is {shape.layers}: {shape.arch} needs {shape.interval} or more")
    if shape.nets and shape.head_size % 8:
        complaints.append(f"head_size is {shape.head_size}: it has to be a multiple of 8")
    if shape.step_rank and (shape.heads, shape.kv_heads) != (1, 1):
        complaints.append(f"{shape.arch} has 1 for heads and 1 for kv_heads")
    if shape.state and shape.head_size % 4:
        complaints.append(f"head_size is {shape.head_size}: it has to be a multiple of 4")
    if shape.ranks and shape.head_size not in STATE_SIZES:
        known = ", ".join(map(str, STATE_SIZES))
        complaints.append(f"head_size is {shape.head_size}; {shape.arch} has one of {known}")
    return complaints
