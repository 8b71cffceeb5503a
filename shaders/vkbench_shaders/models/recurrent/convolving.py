"""The convolution over the last tokens before a scan, and parts of what it makes."""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Value
from vkbench_shaders.models.building import Builder


class Convolving(Builder):
    """Builds what layers with a convolution over tokens share."""

    def convolve(self, x: str) -> str:
        """Each channel's numbers of a token and of those before it, weighed and added, by silu."""
        phase, name = self.phase, f"blk.{self.layer}.ssm_conv1d"
        channels, taps = self.file.tensor(f"{name}.weight").shape
        kept = taps - 1
        before = self.read_state("conv")
        rows = kept + phase.tokens
        shape = (phase.batch, 1, kept, channels, phase.tokens)
        joined = self.step("ssm_joined", "concat", shape, {"axis": "h"}, a=before, b=x)["y"]
        last = np.arange(phase.batch)[:, None] * rows + np.arange(phase.tokens, rows)
        left = self.pick_rows("ssm_last", joined, phase.batch * rows, channels, last)
        self.leave_state("conv", left)
        turned = self.step("ssm_turned", "transpose", (phase.batch, rows, channels), x=joined)["y"]
        biased = self.has("ssm_conv1d.bias")
        params: dict[str, Value] = {"bias": "yes"} if biased else {}
        return self.step(
            "ssm_conv1d",
            "ssm_conv",
            (phase.batch, channels, phase.tokens, taps),
            {**params, "activation": "silu"},
            x=turned,
            weights=self.weight(f"{name}.weight", "f32"),
            bias=self.weight(f"{name}.bias", "f32") if biased else self.unread_input(),
        )["y"]

    def pick_columns(self, label: str, x: str, first: int, width: int) -> str:
        """Some numbers of each token: whole parts of its vector, as rows of a table of parts."""
        whole = self.sizes[x] // 4 // self.count
        part = gcd(whole, first, width)
        return self.pick_parts(label, x, part, np.arange(first, first + width, part) // part)

    def pick_parts(self, label: str, x: str, part: int, chosen: NDArray[np.integer]) -> str:
        """Some parts of each token's vector, all of one length, in an order that is given."""
        whole = self.sizes[x] // 4 // self.count // part
        ids = np.arange(self.count)[:, None] * whole + chosen
        return self.pick_rows(label, x, self.count * whole, part, ids)
