"""What results of one level differ by is found for all series at once, as series by series."""

from math import sqrt

import numpy as np
import pytest

from vkbench_detection.compare.device_histories import find_differences


@pytest.mark.parametrize("seed", range(5))
def test_differences_are_those_of_each_level_of_each_series(seed: int) -> None:
    random = np.random.default_rng(seed)
    logs = random.normal(size=(17, 6))
    logs[random.random(logs.shape) < 0.3] = np.nan
    levels = random.integers(0, 4, logs.shape)
    sigmas = random.uniform(0.01, 0.1, 6).tolist()
    expected: list[float] = []
    for column, sigma in enumerate(sigmas):
        for level in range(4):
            alike = [
                value
                for value, own in zip(logs[:, column], levels[:, column], strict=True)
                if own == level and np.isfinite(value)
            ]
            apart = max(1, len(alike) // 2)
            pairs = zip(alike, alike[apart:], strict=False)
            expected += [(later - earlier) / (sigma * sqrt(2)) for earlier, later in pairs]
    assert len(expected) > 20
    assert find_differences(logs, levels, sigmas).tolist() == expected


def test_nothing_differs_where_nothing_was_measured() -> None:
    logs = np.full((3, 2), np.nan)
    assert not len(find_differences(logs, np.zeros((3, 2), dtype=np.int64), [0.1, 0.1]))
