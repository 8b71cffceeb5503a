"""Perplexity, by numbers that are known."""

from __future__ import annotations

from math import exp, log, sqrt

import numpy as np
import pytest

from vkbench.errors import UsageError
from vkbench_shaders.models.perplexity import losses, perplexity, ratio, windows


def test_a_text_is_cut_into_windows() -> None:
    tokens = np.arange(11)
    assert [w.tolist() for w in windows(tokens, 4, None)] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert [w.tolist() for w in windows(tokens, 4, 99)] == [[99, 1, 2, 3], [99, 5, 6, 7]]
    assert len([*windows(tokens, 4, None, most=1)]) == 1
    assert tokens.tolist() == [*range(11)]
    with pytest.raises(UsageError, match="11 tokens are fewer than one window of 12"):
        [*windows(tokens, 12, None)]
    with pytest.raises(UsageError, match="an even number from 4 on; got 5"):
        [*windows(tokens, 5, None)]


def test_who_knows_nothing_is_as_perplexed_as_there_are_words() -> None:
    found = perplexity(losses(np.full((6, 50), 3e4, np.float32), np.arange(6)))
    assert found.value == pytest.approx(50)
    assert found.error == pytest.approx(0, abs=1e-9)


def test_losses_are_logs_of_shares() -> None:
    """Two tokens: one was given 3/4, the other 1/4 of all, however large the logits."""
    logits = np.log(np.array([[3, 1], [3, 1]])) + 700
    found = losses(logits.astype(np.float32), np.array([0, 1]))
    assert found == pytest.approx([log(4 / 3), log(4)], rel=1e-4)
    estimate = perplexity(found)
    mean = (log(4 / 3) + log(4)) / 2
    assert estimate.value == pytest.approx(exp(mean), rel=1e-4)
    deviation = sqrt(((found - mean) ** 2).mean() / (2 - 1))  # as llama-perplexity has it
    assert estimate.error == pytest.approx(exp(mean) * deviation, rel=1e-4)


def test_the_error_of_a_ratio_leaves_out_what_both_share() -> None:
    base = np.random.default_rng(0).exponential(3, 1000)
    risen = ratio(base + 0.02 + np.random.default_rng(1).normal(0, 0.01, 1000), base)
    assert abs(risen.value - exp(0.02)) < 4 * risen.error
    assert risen.error < perplexity(base).error / perplexity(base).value / 100
