"""How far an output is from its reference, worked out without waiting for other processes."""

from __future__ import annotations

import time

import numpy as np
import pytest

from vkbench_shaders.formats import format_named
from vkbench_worker.judging.distance import distance

F32 = format_named("f32")
COUNT = 1 << 20


def test_it_is_the_same_in_pieces_as_at_once() -> None:
    expected = np.linspace(-1, 1, 100_001, dtype=np.float32)
    made = expected + np.float32(0.25)
    off = distance(made, expected, F32)
    errors = made.astype(np.float64) - expected
    powers = np.square(expected.astype(np.float64))
    assert off.nmse == pytest.approx(np.square(errors).sum() / powers.sum(), rel=1e-12)
    assert off.rms == pytest.approx(np.sqrt(powers.mean()), rel=1e-12)
    assert off.worst == np.abs(errors).max()


@pytest.mark.parametrize("size", [1.0, 1e170, 1.7e308])
def test_squares_of_large_numbers_do_not_overflow(size: float) -> None:
    """Errors of f64 are the same shares of the reference, whatever its magnitude."""
    expected = size * np.array([1.0, -0.5, 0.25, 0.0, -np.inf])
    made = np.where(expected == size / 4, -expected, expected)
    off = distance(made, expected, format_named("f64"))
    assert off.nmse == pytest.approx(0.25 / 1.3125, rel=1e-12)
    assert off.rms == pytest.approx(size * (1.3125 / 5) ** 0.5, rel=1e-12)
    assert off.worst == size / 2


def test_a_large_number_where_a_small_one_belongs_is_an_error() -> None:
    off = distance(np.array([-1.7e308, 1.0]), np.array([1.0, 1.0]), format_named("f64"))
    assert off.nmse > 1e100
    assert off.worst == pytest.approx(1.7e308)


def test_no_other_thread_helps() -> None:
    expected = np.ones(COUNT, np.float32)
    own, all_threads = time.thread_time(), time.process_time()
    for _ in range(5):
        distance(expected, expected, F32)
    own, all_threads = time.thread_time() - own, time.process_time() - all_threads
    assert all_threads < 1.3 * own, (own, all_threads)
