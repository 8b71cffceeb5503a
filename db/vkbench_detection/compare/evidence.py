"""How sure a difference between two sides is.

Samples of one result know nothing of other runs: twice the same kernels on an H200 differ by up to
0.5 %, with intervals of 0.1 %. So where a side has few results, its intervals are widened by what
results of its series differ by; before a series has a profile, by what its device's others do.

Of many results the order decides, but the order of eight and eight is never rarer than one in
6,435: among hundreds of timings that is chance, however far apart both sides are. So there how far
apart they are counts as well.
"""

from __future__ import annotations

from dataclasses import replace
from math import exp, hypot, inf, log, sqrt
from statistics import NormalDist

from vkbench_detection.compare.result_sets import Side
from vkbench_detection.series.profiles import GPU_SIGMA
from vkbench_detection.statistics import ratios
from vkbench_detection.statistics.ratios import CONFIDENCE, Estimate, Ratio

LEAST_SAMPLES = 6  # fewer have no interval that holds the median with 95 %
RANKED = 8  # results a side from which their order counts
_WIDTH = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # of an interval, in sigmas


def ratio_of(old: Side, new: Side) -> Ratio:
    """New over old: by their order too where both sides have many results, else by their noise."""
    by_noise = _by_noise(old, new)
    if min(len(old.values), len(new.values)) < RANKED:
        return by_noise
    by_order = ratios.of_values(old.values, new.values)
    # of two tests the clearer one counts, and chance has two tries
    return replace(by_order, p=min(1.0, 2 * min(by_order.p, by_noise.p)))


def _by_noise(old: Side, new: Side) -> Ratio:
    if _is_vague(old) or _is_vague(new):
        return Ratio(ratio=new.value / old.value, low=0.0, high=inf, p=1.0)
    return ratios.of_estimates(_estimate(old), _estimate(new))


def _is_vague(side: Side) -> bool:
    return side.samples < LEAST_SAMPLES and side.sigma is None


def _estimate(side: Side) -> Estimate:
    """The median, and an interval for what another run would find."""
    sigma = next(each for each in (side.sigma, side.device_sigma, GPU_SIGMA) if each is not None)
    noise = _WIDTH * sigma / sqrt(len(side.values))
    own = Estimate(value=side.value, low=side.low, high=side.high)
    below = hypot(ratios.below(own), noise)
    above = hypot(log(side.high / side.value), noise)
    return replace(own, low=side.value * exp(-below), high=side.value * exp(above))
