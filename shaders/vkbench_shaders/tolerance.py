"""How far a result may be from its float64 reference, by the arithmetic path that made it.

NMSE is sum (y - ref)^2 / sum ref^2; the largest absolute error counts in RMS of the reference.
Worst of all cases, checked and timed, on lavapipe and an H200: f32 1.9e-11 (one product of 32
weights that nearly cancel) and 6.4e-5 (experts of 512 tokens); exact 0. The f32 limits are 5 and 8
times that. Vectors of q8_1 take path f32 as well: integer products are exact, and their reference
is what the blocks stand for. Operations on single elements take path f32_each: there a small result
is not hidden behind large ones. Sums that carry what rounding takes from them take path f32_once:
that tells whether a driver's compiler lost it. No kernel takes the f16 paths yet: their limits are
the design's.

Path int8 rounds an input x to bytes, each 32 numbers in steps of their largest / 127, and is f32
otherwise. An error of rounding is at most half a step, and as likely everywhere between:
its variance is step^2 / 12. The errors of a sum's terms w * x are independent, so that the sum's
variance is the sum of w^2 * step^2 / 12, and the sum is about normal, for it has many terms, or, if
one term outweighs all others, bounded by 1.8 standard deviations. Beyond six lies one of 5e8 sums.

Path f16_attention rounds queries, keys and weights to f16. That puts each number off by up to 2^-12
of itself, so scores of about 10 off by some 2e-3, and with them weights and results by that share:
4e-6 as NMSE. Worst seen is 2.9e-6 (blocks of 5 bits), and 0.035 where two scores compete; the
limits are 3 times that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The largest errors that pass."""

    nmse: float
    max_abs: float  # in RMS of the reference
    each: float = inf  # of an element, in its own reference; 2^-126 besides, for flushed denormals
    deviations: float = 0.0  # besides: standard deviations of what rounding an input to bytes does


LIMITS: Mapping[str, Limits] = {
    "exact": Limits(nmse=0.0, max_abs=0.0),
    "f32": Limits(nmse=1e-10, max_abs=5e-4),
    "f32_true": Limits(nmse=1e-10, max_abs=1e-5),
    "f32_each": Limits(nmse=1e-10, max_abs=5e-4, each=2e-6),
    "f32_once": Limits(nmse=1e-10, max_abs=5e-4, each=2.4e-7),
    "f16_attention": Limits(nmse=1e-5, max_abs=1e-1),
    "f16_inputs": Limits(nmse=1e-6, max_abs=1e-2),
    "bf16_inputs": Limits(nmse=1e-5, max_abs=3e-2),
    "f16_accumulation": Limits(nmse=1e-4, max_abs=1e-1),
    "int8": Limits(nmse=1e-10, max_abs=5e-4, deviations=6.0),
}
