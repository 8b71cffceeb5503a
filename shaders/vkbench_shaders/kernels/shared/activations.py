"""References of activations and gates, in float64: formulas that lose nothing at either end."""

from __future__ import annotations

from math import erfc, pi, sqrt

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_LEAST = -1000.0  # a gate's value at -Inf is that here: 0

_erfc = np.vectorize(erfc, otypes=[np.float64])


def sigmoid(x: Values) -> Values:
    return 1 / (1 + np.exp(-x))


def silu(x: Values) -> Values:
    x = np.maximum(x, _LEAST)
    return x * sigmoid(x)


def silu_slope(x: Values) -> Values:
    """The derivative of silu."""
    x = np.clip(x, _LEAST, -_LEAST)
    return sigmoid(x) * (1 + x * sigmoid(-x))


def gelu(x: Values) -> Values:
    """gelu by tanh: x / 2 * (1 + tanh(z / 2)) is x * sigmoid(z)."""
    x = np.maximum(x, _LEAST)
    return x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x**3))


def gelu_quick(x: Values) -> Values:
    x = np.maximum(x, _LEAST)
    return x * sigmoid(1.702 * x)


def gelu_erf(x: Values) -> Values:
    x = np.maximum(x, _LEAST)
    return x / 2 * _erfc(-x / sqrt(2)) if x.size else x


def relu(x: Values) -> Values:
    return np.where(x < 0, 0.0, x) + 0.0


def softplus(x: Values) -> Values:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def hardsigmoid(x: Values) -> Values:
    return np.clip((x + 3) / 6, 0, 1)


def hardswish(x: Values) -> Values:
    return np.where(x <= -3, 0.0, np.where(x >= 3, x, x * (x + 3) / 6))


def elu(x: Values, alpha: float) -> Values:
    return np.where(x > 0, x, alpha * np.expm1(x))


def xielu(x: Values, alpha_n: float, alpha_p: float, beta: float, eps: float) -> Values:
    """xIELU, whose alphas go through softplus, the negative one on top of beta."""
    below = (np.expm1(np.minimum(x, eps)) - x) * (beta + np.log1p(np.exp(alpha_n)))
    above = np.log1p(np.exp(alpha_p)) * x * x
    return np.asarray(np.where(x > 0, above, below) + beta * x)


def round_halves(x: Values, away: float) -> Values:
    """The nearest integers: halves go to even ones, or away from 0."""
    whole = np.trunc(x)
    with np.errstate(invalid="ignore"):
        is_half = np.abs(x - whole) == 0.5
    return np.where(is_half & (away != 0), whole + np.copysign(1.0, x), np.rint(x))


def clamp(x: Values, low: float, high: float) -> Values:
    """NaN stays; -0 lies below +0."""
    x = np.where((x < low) | ((x == low) & np.signbit(x)), low, x)
    return np.where((x > high) | ((x == high) & ~np.signbit(x)), high, x)
