"""Sizes of layers with states, from a file's keys, and the tensors that those layers have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench.errors import UsageError
from vkbench_shaders.kernels.recurrent.recurrence import KEYS
from vkbench_shaders.models.keys import Keys

StoredShapes = Mapping[str, tuple[int, ...]]  # of a layer's tensors, by name
States = dict[str, NDArray[np.float64]]  # what tokens leave in a layer to the next ones
_FOUR: Final = 4  # values of a head are multiples of
_RWKV: Final = (
    *(f"{norm}.{part}" for norm in ("attn_norm", "attn_norm_2") for part in ("weight", "bias")),
    *(f"time_mix_{name}.weight" for name in ("key", "value", "receptance", "output", "lerp_fused")),
    *("time_mix_ln.weight", "time_mix_ln.bias", "channel_mix_lerp_k.weight"),
    *("channel_mix_key.weight", "channel_mix_value.weight"),
)
_DELTA: Final = (
    *("attn_qkv.weight", "attn_gate.weight", "ssm_conv1d.weight", "ssm_dt.bias", "ssm_a"),
    *("ssm_norm.weight", "ssm_out.weight"),
)
TENSORS: Final[Mapping[str, tuple[str, ...]]] = {  # of a layer, by recurrence
    "mamba": (
        *("attn_norm.weight", "ssm_in.weight", "ssm_conv1d.weight", "ssm_conv1d.bias"),
        *("ssm_x.weight", "ssm_dt.weight", "ssm_dt.bias", "ssm_a", "ssm_d", "ssm_out.weight"),
    ),
    "mamba2": (
        *("attn_norm.weight", "ssm_in.weight", "ssm_conv1d.weight", "ssm_conv1d.bias"),
        *("ssm_dt.bias", "ssm_a", "ssm_d", "ssm_norm.weight", "ssm_out.weight"),
    ),
    "delta": (*_DELTA, "ssm_beta.weight", "ssm_alpha.weight"),
    "delta_next": (*_DELTA, "ssm_ba.weight"),
    "rwkv6": (
        *_RWKV,
        *(f"time_mix_{name}.weight" for name in ("w1", "w2", "lerp_x", "first", "decay", "gate")),
        *("time_mix_decay_w1.weight", "time_mix_decay_w2.weight"),
        *("channel_mix_lerp_r.weight", "channel_mix_receptance.weight"),
    ),
    "rwkv7": (
        *_RWKV,
        *(f"time_mix_{name}{number}.weight" for name in "wav" for number in range(3)),
        *(f"time_mix_{name}.weight" for name in ("g1", "g2", "k_k", "k_a", "r_k")),
    ),
}
# What a model has besides outside of layers.
OUTER: Final[Mapping[str, tuple[str, ...]]] = dict.fromkeys(
    ("rwkv6", "rwkv7"), ("token_embd_norm.weight", "token_embd_norm.bias")
)


@dataclass(frozen=True, kw_only=True)
class Recurrent(ABC):
    """Sizes of layers in which each token leaves states to the next one."""

    @property
    @abstractmethod
    def states(self) -> Mapping[str, tuple[int, ...]]:
        """What a sequence's tokens leave in a layer: names, and sizes."""

    @abstractmethod
    def shapes(self, stored: StoredShapes) -> StoredShapes:
        """Shapes that a layer's tensors have to have, of vectors how many numbers.

        No key tells ranks of products of two matrices: they follow from the tensors that are there.
        """


@dataclass(frozen=True, kw_only=True)
class Rwkv(Recurrent):
    """Sizes of RWKV's layers."""

    is_sixth: bool  # RWKV 6, and not 7
    width: int
    head: int  # numbers of a head
    rescaled: int  # behind each so many layers vectors are halved; 0: never

    @property
    def heads(self) -> int:
        """Parts of a token's vector that have a state each."""
        return self.width // self.head

    @property
    def states(self) -> Mapping[str, tuple[int, ...]]:
        """What a sequence leaves: the last token before either part, and what heads remember."""
        return {
            "time": (1, self.width),
            "channels": (1, self.width),
            "wkv": (self.heads, self.head, self.head),
        }

    def shapes(self, stored: StoredShapes) -> StoredShapes:
        """Matrices of the width and of the ranks of products; all else has a number for each."""
        width, inner = self.width, stored["channel_mix_key.weight"][0]
        shapes: dict[str, tuple[int, ...]] = dict.fromkeys(stored, (width,))
        for name in ("key", "value", "receptance", "output", "gate"):
            shapes[f"time_mix_{name}.weight"] = (width, width)
        shapes["channel_mix_receptance.weight"] = (width, width)
        shapes["channel_mix_key.weight"] = (inner, width)
        shapes["channel_mix_value.weight"] = (width, inner)
        if self.is_sixth:
            rank, pairs = stored["time_mix_w2.weight"][-1], [("decay_w1", "decay_w2")]
            shapes["time_mix_lerp_fused.weight"] = (5, width)
            shapes["time_mix_w1.weight"] = (5 * rank, width)
            shapes["time_mix_w2.weight"] = (5, width, rank)
            shapes["time_mix_first.weight"] = (self.heads, self.head)
        else:
            pairs = [(f"{name}1", f"{name}2") for name in "wavg"]
            shapes["time_mix_lerp_fused.weight"] = (6, width)
        for first, second in pairs:
            rank = stored[f"time_mix_{first}.weight"][0]
            shapes[f"time_mix_{first}.weight"] = (rank, width)
            shapes[f"time_mix_{second}.weight"] = (width, rank)
        return shapes


@dataclass(frozen=True, kw_only=True)
class Mamba(Recurrent):
    """Sizes of Mamba's layers."""

    width: int
    taps: int  # tokens that the convolution before the scan looks at
    inner: int  # numbers of a token that are scanned
    heads: int  # that they are parts of; in Mamba-1 each number is one
    groups: int  # of heads that share what goes into the state, and what comes out
    keys: int  # numbers of the state for each of a token's
    rank: int  # of the vector that step sizes are made of; 0: they are made at once

    @property
    def head(self) -> int:
        """Numbers of a head."""
        return self.inner // self.heads

    @property
    def states(self) -> Mapping[str, tuple[int, ...]]:
        """What a sequence's tokens leave in a layer: the last ones, and what was scanned."""
        return {
            "conv": (self.taps - 1, self.channels),
            "scan": (self.heads, self.head, self.keys),
        }

    def shapes(self, stored: StoredShapes) -> StoredShapes:
        """All follow from the keys."""
        width, inner, rank = self.width, self.inner, self.rank
        mixed = inner + self.channels + (0 if rank else self.heads)
        return {
            "attn_norm.weight": (width,),
            "ssm_in.weight": (mixed, width),
            "ssm_conv1d.weight": (self.channels, self.taps),
            "ssm_conv1d.bias": (self.channels,),
            "ssm_x.weight": (rank + 2 * self.keys, inner),
            "ssm_dt.weight": (inner, rank),
            "ssm_dt.bias": (self.heads,),
            "ssm_a": (inner * self.keys if rank else self.heads,),
            "ssm_d": (self.heads,),
            "ssm_norm.weight": (inner,),
            "ssm_out.weight": (width, inner),
        }

    @property
    def shared(self) -> int:
        """Numbers of a token that go into the state, and as many that come out."""
        return self.groups * self.keys

    @property
    def channels(self) -> int:
        """Numbers of a token that the convolution is of."""
        return self.inner + (0 if self.rank else 2 * self.shared)


@dataclass(frozen=True, kw_only=True)
class Delta(Recurrent):
    """Sizes of layers of gated delta nets."""

    width: int
    taps: int  # tokens that the convolution before the net looks at
    heads: int  # of values
    groups: int  # heads of keys, and of queries
    head: int  # numbers of any of them
    is_next: bool  # Qwen3-Next: heads that share one of keys are neighbours, and a matrix is joined

    @property
    def shared(self) -> NDArray[np.integer]:
        """The head of keys that each head of values reads."""
        heads = np.arange(self.heads)
        return heads // (self.heads // self.groups) if self.is_next else heads % self.groups

    @property
    def keys(self) -> int:
        """Numbers of a token's keys, and of its queries."""
        return self.groups * self.head

    @property
    def values(self) -> int:
        """Numbers of a token's values."""
        return self.heads * self.head

    @property
    def channels(self) -> int:
        """Numbers of a token that the convolution is of."""
        return 2 * self.keys + self.values

    @property
    def states(self) -> Mapping[str, tuple[int, ...]]:
        """What a sequence's tokens leave in a layer: the last ones, and what heads learnt."""
        return {
            "conv": (self.taps - 1, self.channels),
            "delta": (self.heads, self.head, self.head),
        }

    def shapes(self, stored: StoredShapes) -> StoredShapes:
        """All follow from the keys."""
        each = (self.heads, self.width)
        return {
            "attn_qkv.weight": (self.channels, self.width),
            "attn_gate.weight": (self.values, self.width),
            "ssm_conv1d.weight": (self.channels, self.taps),
            "ssm_dt.bias": (self.heads,),
            "ssm_a": (self.heads,),
            "ssm_beta.weight": each,
            "ssm_alpha.weight": each,
            "ssm_ba.weight": (2 * self.heads, self.width),
            "ssm_norm.weight": (self.head,),
            "ssm_out.weight": (self.width, self.values),
        }


@dataclass(kw_only=True)
class Memory:
    """What tokens left in each layer of a reference, and what its first layer tells the others."""

    states: dict[int, States] = field(default_factory=dict)
    first_values: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def states_of(self, layer: int, sizes: Recurrent) -> States:
        """A layer's states: zeros where no token was read."""
        zeros = {name: np.zeros(shape) for name, shape in sizes.states.items()}
        return self.states.get(layer, zeros)


def recurrent_of(keys: Keys, recurrence: str) -> Recurrent:
    """The sizes that a file's keys tell; UsageError names one that no kernel has."""
    if recurrence.startswith("delta"):
        return _delta_of(keys, recurrence)
    return (_rwkv_of if recurrence.startswith("rwkv") else _mamba_of)(keys, recurrence)


def _size_of_state(keys: Keys, name: str) -> int:
    """How many numbers of a state each number of a token has; UsageError of other sizes."""
    if (size := keys.size(name)) not in KEYS:
        known = ", ".join(map(str, KEYS))
        raise keys.refusal_of(name, f"is {size}; supported are {known}")
    return size


def _rwkv_of(keys: Keys, recurrence: str) -> Rwkv:
    width, head = keys.size("embedding_length"), _size_of_state(keys, "wkv.head_size")
    if width % head:
        raise keys.refusal_of("wkv.head_size", f"is {head}, which does not divide {width}")
    if (shifted := keys.size("token_shift_count", 2)) != 2:
        raise keys.refusal_of("token_shift_count", f"is {shifted}; supported is 2")
    is_sixth = recurrence == "rwkv6"
    rescaled = keys.count("rescale_every_n_layers") if is_sixth else 0  # no other reads that key
    return Rwkv(is_sixth=is_sixth, width=width, head=head, rescaled=rescaled)


def _delta_of(keys: Keys, recurrence: str) -> Delta:
    head, heads = _size_of_state(keys, "ssm.state_size"), keys.size("ssm.time_step_rank")
    groups = keys.size("ssm.group_count")
    if heads % groups:
        raise keys.refusal_of(
            "ssm.group_count", f"is {groups}, which does not divide {heads} heads"
        )
    if (inner := keys.size("ssm.inner_size")) != heads * head:
        raise keys.refusal_of("ssm.inner_size", f"is {inner}, and not {heads} heads of {head}")
    return Delta(
        width=keys.size("embedding_length"),
        taps=_taps_of(keys),
        heads=heads,
        groups=groups,
        head=head,
        is_next=recurrence == "delta_next",
    )


def _taps_of(keys: Keys) -> int:
    """Tokens that a convolution looks at; UsageError unless it looks back."""
    if (taps := keys.size("ssm.conv_kernel")) < 2:
        raise keys.refusal_of("ssm.conv_kernel", f"is {taps}; it has to be 2 or more")
    return taps


def _mamba_of(keys: Keys, recurrence: str) -> Mamba:
    inner = keys.size("ssm.inner_size")
    rank = keys.size("ssm.time_step_rank")
    if keys.value("ssm.dt_b_c_rms"):
        raise keys.refusal_of("ssm.dt_b_c_rms", "is true: norms within the scan are not supported")
    state = _size_of_state(keys, "ssm.state_size")
    if recurrence == "mamba":
        sizes = {"heads": inner, "groups": 1, "rank": rank}
        whole = inner % _FOUR == 0
    else:
        sizes = {"heads": rank, "groups": keys.size("ssm.group_count"), "rank": 0}
        whole = inner % rank == 0 and inner // rank % _FOUR == 0
    if not whole:
        raise keys.refusal_of("ssm.inner_size", f"is {inner}: heads have a multiple of 4 numbers")
    if sizes["heads"] % sizes["groups"]:
        raise keys.refusal_of(
            "ssm.group_count", f"is {sizes['groups']}, which does not divide {rank} heads"
        )
    taps, width = _taps_of(keys), keys.size("embedding_length")
    return Mamba(width=width, taps=taps, inner=inner, keys=state, **sizes)


def check_shapes(path: Path, prefix: str, shapes: StoredShapes, stored: StoredShapes) -> None:
    """UsageError that names the first tensor of a layer whose shape is not the one it has to be."""
    for name, shape in stored.items():
        needed = shapes[name]
        if len(needed) == 1:
            fits = prod(shape) == needed[0]
        else:
            fits = shape == needed or [n for n in shape if n > 1] == [n for n in needed if n > 1]
        if not fits:
            has, by_keys = (" x ".join(map(str, sides)) for sides in (shape, needed))
            raise UsageError(
                f"{path}: tensor {prefix}{name} has the shape {has}; the keys ask for {by_keys}"
            )
