"""What the shaders of the pack compute, in numpy: written from what the operations are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Arrays = Mapping[str, Numbers]
Given = Mapping[str, float]  # sizes and parameters

OPERATIONS = {2: np.floor, 7: np.exp, 14: np.arctan, 16: np.tanh, 18: np.rint}  # by ncnn's number


def relu(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Leaky ReLU: negative numbers are multiplied by a slope, others stay."""
    x = inputs["x"]
    return {"x": np.where(x < 0, x * given["slope"], x)}


def softmax(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Softmax of each row."""
    raised = np.exp(inputs["x"] - inputs["x"].max(axis=1, keepdims=True))
    return {"x": raised / raised.sum(axis=1, keepdims=True)}


def innerproduct(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The products of a vector with rows, plus biases; 0 for those below it."""
    return {"y": np.maximum(inputs["weights"] @ inputs["x"] + inputs["biases"], 0)}


def pack(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The numbers of four channels beside each other."""
    return {"y": inputs["x"].transpose(0, 2, 1)}


def unaryop(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Each number by the operation that a parameter chooses."""
    return {"x": OPERATIONS[int(given["op"])](inputs["x"])}
