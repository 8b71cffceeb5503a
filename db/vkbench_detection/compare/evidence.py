"""How sure a difference between two sides is.

Samples of one result know nothing of other runs: twice the same kernels on an H200 differ by up to
0.5 %, with intervals of 0.1 %. So where a side has few results, its intervals are widened by what
results of its series differ by; before a series has a profile, by what its device's others do. And
what is rare then is as rare as the device's history says: noise has longer tails than a normal one.

Of many results the order decides, but the order of eight and eight is never rarer than one in
6,435: among hundreds of timings that is chance, however far apart both sides are. So there how far
apart they are counts as well. Results that resemble the ones before them are worth fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, hypot, inf, log, sqrt
from statistics import NormalDist

from vkbench_detection.compare.sides import Side
from vkbench_detection.series.profiles import GPU_SIGMA
from vkbench_detection.statistics import ratios
from vkbench_detection.statistics.ratios import CONFIDENCE, LEAST_P, Estimate, Ratio
from vkbench_detection.statistics.tails import Tails

LEAST_SAMPLES = 6  # fewer have no interval that holds the median with 95 %
RANKED = 8  # results a side from which their order counts
MOST_MEMORY = 0.9  # correlation of a result with the next: of more, none says anything
_WIDTH = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # of an interval, in sigmas


def ratio_of(old: Side, new: Side, tails: Sequence[Tails] = ()) -> Ratio:
    """New over old: by their order too where both sides have many results, else by their noise.

    `tails` are those of the sides' devices; without any, noise is taken to be normal.
    """
    by_noise = _by_noise(old, new)
    if min(len(old.values), len(new.values)) < RANKED:
        return _in_tails(by_noise, tails)
    by_order = ratios.of_values(old.values, new.values).stretch(max(map(_stretch, (old, new))))
    # of two tests the clearer one counts, and chance has two tries
    return replace(by_order, p=min(1.0, 2 * min(by_order.p, by_noise.p)))


def is_vague(side: Side) -> bool:
    """Whether nothing says how its time scatters: few samples, of a series without a profile."""
    return side.samples < LEAST_SAMPLES and side.sigma is None


def _in_tails(ratio: Ratio, tails: Sequence[Tails]) -> Ratio:
    """A ratio whose p is as large as the tails of its devices' noise make it."""
    if ratio.p >= 1 or not tails:
        return ratio
    sigmas = -NormalDist().inv_cdf(max(ratio.p, LEAST_P) / 2)
    return replace(ratio, p=max(ratio.p, *(min(1.0, tail.p(sigmas)) for tail in tails)))


def _by_noise(old: Side, new: Side) -> Ratio:
    if is_vague(old) or is_vague(new):
        return Ratio(ratio=new.value / old.value, low=0.0, high=inf, p=1.0)
    return ratios.of_estimates(_estimate(old), _estimate(new))


def _estimate(side: Side) -> Estimate:
    """The median, and an interval for what another run would find."""
    sigma = next(known for known in (side.sigma, side.device_sigma, GPU_SIGMA) if known is not None)
    noise = _WIDTH * sigma / sqrt(len(side.values)) * _stretch(side)
    own = Estimate(value=side.value, low=side.low, high=side.high)
    below = hypot(ratios.below(own), noise)
    above = hypot(log(side.high / side.value), noise)
    return replace(own, low=side.value * exp(-below), high=side.value * exp(above))


def _stretch(side: Side) -> float:
    """How much wider results scatter together that resemble the ones before them."""
    count, memory = len(side.values), min(MOST_MEMORY, max(0.0, side.autocorrelation or 0.0))
    return sqrt(min(count, (1 + memory) / (1 - memory))) if count > 1 else 1.0
