"""What the shaders of the pack compute, in numpy: written from what the operations are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Arrays = Mapping[str, Numbers]
Given = Mapping[str, float]  # sizes and parameters


def multiply(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The products of two tensors, number by number."""
    return {"y": inputs["a"] * inputs["b"]}


def logistic_regression(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Each example's share of the gradients, and its loss."""
    x0, x1, y, (w0, w1) = (inputs[name] for name in ("xi", "xj", "y", "win"))
    guess = 1 / (1 + np.exp(-(w0 * x0 + w1 * x1 + inputs["bin"])))
    off = (guess - y) / given["n"]
    loss = -(y * np.log(guess) + (1 - y) * np.log(1 - guess))
    return {"wouti": off * x0, "woutj": off * x1, "bout": off, "lout": loss}
