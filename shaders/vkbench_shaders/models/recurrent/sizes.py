"""Sizes of Mamba's layers, from a file's keys, and the tensors that those layers have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.kernels.recurrent.recurrence import KEYS
from vkbench_shaders.models.keys import Keys

States = dict[str, NDArray[np.float64]]  # what tokens leave in a layer to the next ones
_FOUR: Final = 4  # values of a head are multiples of
TENSORS: Final[Mapping[str, tuple[str, ...]]] = {  # of a layer, by recurrence
    "mamba": (
        *("attn_norm.weight", "ssm_in.weight", "ssm_conv1d.weight", "ssm_conv1d.bias"),
        *("ssm_x.weight", "ssm_dt.weight", "ssm_dt.bias", "ssm_a", "ssm_d", "ssm_out.weight"),
    ),
    "mamba2": (
        *("attn_norm.weight", "ssm_in.weight", "ssm_conv1d.weight", "ssm_conv1d.bias"),
        *("ssm_dt.bias", "ssm_a", "ssm_d", "ssm_norm.weight", "ssm_out.weight"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Recurrent:
    """Sizes of layers in which each token leaves a state to the next one."""

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

    @property
    def shared(self) -> int:
        """Numbers of a token that go into the state, and as many that come out."""
        return self.groups * self.keys

    @property
    def channels(self) -> int:
        """Numbers of a token that the convolution is of."""
        return self.inner + (0 if self.rank else 2 * self.shared)


def recurrent_of(keys: Keys, recurrence: str) -> Recurrent:
    """The sizes that a file's keys tell; UsageError names one that no kernel has."""
    inner, state = keys.size("ssm.inner_size"), keys.size("ssm.state_size")
    rank = keys.size("ssm.time_step_rank")
    if keys.value("ssm.dt_b_c_rms"):
        raise keys.refusal_of("ssm.dt_b_c_rms", "is true: norms within the scan are not supported")
    if state not in KEYS:
        known = ", ".join(map(str, KEYS))
        raise keys.refusal_of("ssm.state_size", f"is {state}; supported are {known}")
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
    return Recurrent(taps=keys.size("ssm.conv_kernel"), inner=inner, keys=state, **sizes)
