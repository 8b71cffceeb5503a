"""What the shaders of the pack compute, in numpy: written from what the operations are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Arrays = Mapping[str, Numbers]
Given = Mapping[str, float]  # sizes and parameters


def matmul(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The product of two matrices."""
    return {"y": inputs["a"] @ inputs["b"]}


def mmt(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The product of a matrix and the transpose of another."""
    a, b = (inputs[name].astype(np.int64) for name in "ab")
    return {"y": (a @ b.T).astype(np.float64)}


def mad(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """What a c + b makes of 1 when it is done ten times a turn."""
    c = np.ones_like(inputs["a"])
    for _ in range(10 * int(given["turns"])):
        c = inputs["a"] * c + inputs["b"]
    return {"y": c}


def depthwise(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Each channel's windows times its own filter."""
    windows = np.lib.stride_tricks.sliding_window_view(inputs["image"], (3, 3), (0, 1))
    return {"y": np.einsum("hwcij,ijc->hwc", windows, inputs["filters"])}


def tree(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Sums of columns in the first row, and the other rows as they were."""
    x = inputs["x"].copy()
    x[0] = x.sum(axis=0)
    return {"x": x}


def argmax(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The place of the largest number."""
    return {"y": np.array([np.argmax(inputs["x"])], dtype=np.float64)}
