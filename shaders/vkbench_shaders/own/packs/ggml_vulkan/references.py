"""What the shaders of the pack compute, in numpy: written from what the operations are."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Arrays = Mapping[str, Numbers]
Given = Mapping[str, float]  # sizes and parameters


def add(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """A row added to each row."""
    return {"y": inputs["a"] + inputs["b"]}


def mul(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Each row times one row."""
    return {"y": inputs["a"] * inputs["b"]}


def turn_over(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """A matrix whose columns are the rows of another."""
    return {"y": inputs["x"].T}


def concat(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Rows of one matrix, then those of another."""
    return {"y": np.concatenate([inputs["a"], inputs["b"]])}


def norm(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Rows less their mean, over their standard deviation."""
    off = inputs["x"] - inputs["x"].mean(axis=1, keepdims=True)
    return {"y": off / np.sqrt((off * off).mean(axis=1, keepdims=True) + given["eps"])}


def l2_norm(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Rows over their length, which counts as eps if it is less."""
    lengths = np.linalg.norm(inputs["x"], axis=1, keepdims=True)
    return {"y": inputs["x"] / np.maximum(lengths, given["eps"])}


def rms_norm(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Rows over their root mean square."""
    x = inputs["x"]
    return {"y": x / np.sqrt((x * x).mean(axis=1, keepdims=True) + given["eps"])}


def rms_norm_mul(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Rows over their root mean square, times a weight for each column."""
    return {"y": rms_norm(inputs, given)["y"] * inputs["weights"]}


def soft_max(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Softmax of rows of h heads, with a mask that counts less for each next head (ALiBi)."""
    heads = np.arange(1, given["h"] + 1)
    slopes = 2.0 ** (-given["bias"] / given["h"] * heads)
    return {"y": _weigh(inputs["x"] * given["scale"] + slopes[:, None, None] * inputs["mask"])}


def soft_max_sinks(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Softmax with a mask, of rows that have a number more: that of their head, left out of y."""
    heads = np.arange(1, given["h"] + 1)
    slopes = 2.0 ** (-given["bias"] / given["h"] * heads)
    scores = inputs["x"] * given["scale"] + slopes[:, None, None] * inputs["mask"]
    sinks = np.zeros_like(scores[:, :, :1]) + inputs["sinks"][:, None, None]
    return {"y": _weigh(np.concatenate((scores, sinks), axis=2))[:, :, :-1]}


def sum_rows(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The sum of each row."""
    return {"y": inputs["x"].sum(axis=1)}


def argsort(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The places of each row's numbers, the smallest or the largest first."""
    sign = -1.0 if given["descending"] else 1.0
    return {"y": np.argsort(sign * inputs["x"], axis=1, kind="stable").astype(np.float64)}


def get_rows(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Rows of a table by their numbers."""
    return {"y": inputs["table"][inputs["ids"].astype(np.int64)]}


def dequantise(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The numbers that blocks stand for."""
    return {"y": inputs["weights"]}


def mul_mat_vec(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Each vector's products with all rows of the weights."""
    return {"y": inputs["x"] @ inputs["weights"].T}


def rope_norm(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Neighbours turned by an angle that their position and their place in the row give."""
    turned = int(given["turned"])
    return _turn(inputs, given, slice(0, turned, 2), slice(1, turned, 2))


def rope_neox(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The same of numbers that are half of what is turned apart."""
    turned = int(given["turned"])
    return _turn(inputs, given, slice(0, turned // 2), slice(turned // 2, turned))


def swiglu(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """a by its logistic function, times b."""
    return {"y": inputs["a"] / (1 + np.exp(-inputs["a"])) * inputs["b"]}


def diag_mask_inf(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Scores, and -inf for what comes after each row's own place."""
    _, m, k = inputs["x"].shape
    later = np.arange(k)[None, :] > given["past"] + np.arange(m)[:, None]
    return {"y": np.where(later[None], -np.inf, inputs["x"])}


def pool2d(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """The largest number, or the sum over six, of windows of 2 rows of 3, two apart."""
    mean = bool(given["pooling"])
    edge = 0.0 if mean else -np.inf
    padded = np.pad(inputs["x"], ((0, 0), (1, 1), (1, 1)), constant_values=edge)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (1, 2))[:, ::2, ::2]
    return {"y": windows.sum((3, 4)) / 6 if mean else windows.max((3, 4))}


def upscale(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Each number of an image twice downwards and three times to the right."""
    return {"y": inputs["x"].repeat(2, axis=1).repeat(3, axis=2)}


def im2col(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """What windows of 2 rows of 3 hold, at each place, with an edge of zeros."""
    padded = np.pad(inputs["x"], ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (2, 3))
    return {"y": windows.transpose(0, 2, 3, 1, 4, 5)}


def flash_attn(inputs: Arrays, given: Given) -> dict[str, Numbers]:
    """Attention of h heads, of which h / g share keys and values."""
    shared = int(given["h"] // given["g"])
    k, v = (inputs[name].repeat(shared, axis=0) for name in "kv")
    scores = np.einsum("hnd,hsd->hns", inputs["q"], k) / np.sqrt(given["d"])
    return {"y": np.einsum("hns,hsd->nhd", _weigh(scores + inputs["mask"]), v)}


def _weigh(scores: Numbers) -> Numbers:
    """Softmax of the last dimension."""
    raised: Numbers = np.exp(scores - scores.max(axis=-1, keepdims=True))
    sums: Numbers = raised.sum(axis=-1, keepdims=True)
    return raised / sums


def _turn(inputs: Arrays, given: Given, first: slice, second: slice) -> dict[str, Numbers]:
    pairs = np.arange(given["turned"] // 2)
    speeds = given["base"] ** (-2 * pairs / given["turned"])
    angles = (inputs["positions"][:, None] * speeds)[:, None, :]
    y = inputs["x"].copy()
    x0, x1 = inputs["x"][..., first], inputs["x"][..., second]
    y[..., first] = x0 * np.cos(angles) - x1 * np.sin(angles)
    y[..., second] = x0 * np.sin(angles) + x1 * np.cos(angles)
    return {"y": y}
