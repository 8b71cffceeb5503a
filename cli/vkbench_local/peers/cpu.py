"""The same work by numpy on this host, now: the other side of a claim about CPUs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Operation = Callable[[], np.ndarray]

SECONDS = 1.0  # spent on one operation, beside the first time
LEAST, MOST = 3, 50  # times


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How long numpy takes."""

    seconds: float  # median
    best: float
    count: int


def measure(operation: Operation) -> Measured:
    """Time an operation over and over; the first time warms up."""
    operation()
    taken: list[float] = []
    end = time.perf_counter() + SECONDS
    while len(taken) < LEAST or (len(taken) < MOST and time.perf_counter() < end):
        began = time.perf_counter()
        operation()
        taken.append(time.perf_counter() - began)
    return Measured(seconds=median(taken), best=min(taken), count=len(taken))


def product(m: int, n: int, k: int) -> Operation:
    """A product of float32 matrices, by the BLAS that numpy has."""
    a, b = _random(m, k), _random(k, n)
    out = np.empty((m, n), np.float32)
    return lambda: np.matmul(a, b, out=out)


def add(elements: int) -> Operation:
    """A sum of two arrays."""
    a, b = _random(elements), _random(elements)
    out = np.empty_like(a)
    return lambda: np.add(a, b, out=out)


def multiply(elements: int) -> Operation:
    """A product of two arrays, element by element."""
    a, b = _random(elements), _random(elements)
    out = np.empty_like(a)
    return lambda: np.multiply(a, b, out=out)


def silu(elements: int) -> Operation:
    """x / (1 + exp(-x)), with no more temporaries than one."""
    x = _random(elements)
    out = np.empty_like(x)

    def run() -> Floats:
        np.negative(x, out=out)
        np.exp(out, out=out)
        np.add(out, 1, out=out)
        return np.divide(x, out, out=out)

    return run


def reduction(name: str, rows: int, width: int) -> Operation:
    """A reduction of each row."""
    x = _random(rows, width)
    reduce = _REDUCTIONS[name]
    return lambda: reduce(x)


ELEMENTWISE: Mapping[str, Callable[[int], Operation]] = {
    "add": add,
    "mul": multiply,
    "silu": silu,
}
_REDUCTIONS: Mapping[str, Callable[[Floats], np.ndarray]] = {
    "sum": lambda x: x.sum(axis=1),
    "mean": lambda x: x.mean(axis=1),
    "max": lambda x: x.max(axis=1),
    "argmax": lambda x: x.argmax(axis=1),
}


def _random(*shape: int) -> Floats:
    return np.random.default_rng(0).standard_normal(shape, np.float32)
