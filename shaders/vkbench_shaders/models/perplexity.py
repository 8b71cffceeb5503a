"""Perplexity of a model over a text: how well it foresees each token, as llama-perplexity says.

The text is cut into windows of one context, each read alone. Only tokens of a window's second half
count, so that each is foreseen from half a context at the least.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench.errors import UsageError

LEAST_CONTEXT: Final = 4  # so that a token of the second half counts

Losses = NDArray[np.float64]  # of each token that counts: minus the log of what it was given


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number with its standard error."""

    value: float
    error: float


@dataclass(frozen=True, kw_only=True)
class Foreseen:
    """How well a model foresaw a text."""

    losses: Losses  # of each token that counts
    tokens_per_second: float  # that are read, by the device's time for a window
    variant: str  # code path that ran
    device: str  # name of the device


def check_context(context: int) -> None:
    """UsageError if a context has no two halves."""
    if context < LEAST_CONTEXT or context % 2:
        raise UsageError(f"a context is an even number from {LEAST_CONTEXT} on; got {context}")


def windows(
    tokens: NDArray[np.integer], context: int, begin: int | None, most: int = 0
) -> Iterator[NDArray[np.integer]]:
    """The tokens of each window, at most so many; the first becomes `begin` if there is one.

    What is left behind the last whole window does not count.
    """
    check_context(context)
    count = len(tokens) // context
    if not count:
        raise UsageError(f"{len(tokens)} tokens are fewer than one window of {context}")
    for at in range(min(count, most) if most else count):
        window = tokens[at * context : (at + 1) * context].copy()
        if begin is not None:
            window[0] = begin
        yield window


def losses(logits: NDArray[np.floating], foreseen: NDArray[np.integer]) -> Losses:
    """The loss of each token, by the logits of the one before it: (tokens, vocabulary)."""
    highest = logits.max(axis=-1, keepdims=True)
    sums = np.exp(logits - highest).sum(axis=-1, dtype=np.float64)
    given = logits[np.arange(len(logits)), foreseen].astype(np.float64)
    return np.asarray(np.log(sums) + highest[:, 0].astype(np.float64) - given)


def perplexity(losses: Losses) -> Estimate:
    """e to the mean loss; the error is that of the mean, if tokens were independent."""
    return _exponential(losses)


def ratio(losses: Losses, base: Losses) -> Estimate:
    """One perplexity by another of the same tokens: its error is far less than that of either."""
    return _exponential(losses - base)


def _exponential(numbers: Losses) -> Estimate:
    value = exp(numbers.mean())
    deviation = sqrt(numbers.var() / (len(numbers) - 1)) if len(numbers) > 1 else 0.0
    return Estimate(value=value, error=value * deviation)
