"""How far a result may be from its float64 reference, by the arithmetic path that made it.

NMSE is sum (y - ref)^2 / sum ref^2; the largest absolute error counts in RMS of the reference.
Worst of all cases, checked and timed, on lavapipe and an H200: f32 1.9e-11 (one product of 32
weights that nearly cancel) and 6.4e-5 (experts of 512 tokens); exact 0. The f32 limits are 5 and 8
times that. Vectors of q8_1 take path f32 as well: integer products are exact, and their reference
is what the blocks stand for. Operations on single elements take path f32_each: there a small result
is not hidden behind large ones. Sums that carry what rounding takes from them take path f32_once:
that tells whether a driver's compiler lost it. Path f64 is for what is added up in f64; its limits
are far below what a sum in singles would reach. The limits of f16_accumulation are the design's.

Paths int8, f16_inputs and bf16_inputs round factors of products, and are f32 otherwise. An element
may be off by six standard deviations of what rounding does to its own products, which
rounded_factors.py derives. A limit in the RMS of all elements is no use there: one row of large
weights, such as a block of iq2_xs with the largest scale, carries that RMS, and its own honest
errors pass 1 % of it (in 8 of 487 cases), while a small row may be wrong altogether. Honest
products are off by up to 3.6 deviations: 1,100,000 elements, all cases of mul_mat and mul_mat_id.

Path int8 rounds an input x to bytes, each 32 numbers in steps of their largest / 127. What that is
of x differs from case to case, and so does the limit of NMSE. Rounding to f16 puts a number off by
2^-12.2 of itself (RMS), and products of two by 8.6e-8 as NMSE; rounding to bf16, by 2^-9.2 and
5.5e-6. Their limits are 12 and 2 times that: no case rounds both factors to bf16.

Path f16_attention rounds queries, keys, values and weights to f16, each number by up to 2^-12 of
itself. What that does to a result depends on the scores: where these are large and the weights of
several compete, 1.2e-5 as NMSE, elsewhere a hundredth of it. So an element may be off by six
standard deviations of what rounding does to it, which caches.deviations of attention derives, and
by f32's limit. Honest ones are off by up to 2.9: all cases on lavapipe. A position of a hundredth
of a row's weight that is left out is seen. Path library_attention judges other libraries on GPUs by
limits for all cases: 3 times the worst that was seen of ours.

Path library_sums judges products of other libraries on GPUs. On an H200 cuBLAS's sums of 4096
products of 16 bits were off by up to 2.4e-3 of the RMS, and by 3e-10 as NMSE, where ours are off
by 2e-11. The limits are 2 and 30 times that: factors rounded to TF32, 8.6e-8, do not pass.

Where one factor is narrower than the other, these libraries round both to its format, and the
result too. So f16_library and bf16_library are f16_inputs and bf16_inputs with half a step of the
result besides. Rounding a result to bf16 adds as much to NMSE as rounding a factor.

Paths of ggml are of what its shaders do on any device. It may sum products of halves in halves
(f16_accumulation), and round x to bytes where weights have blocks (ggml_blocks: the limits of both;
ggml_vectors: of up to eight vectors, whose sums are in singles, and whose steps are halves). Angles
of rope are products of singles: positions of 2^20 put them off by up to 0.25, four times the last
place (ggml_angles). Seen on lavapipe: 3e-6 as NMSE and 6 % of the RMS in products of 256, 1.3e-5
and 15 % in rope; in rope on an H100, whose sines of large angles are rougher, 1.6e-4.

A kernel that a user declares may have limits of its own, which are the name of its path:
nmse=1e-06,max_abs=0.01.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf

from vkbench.errors import UsageError
from vkbench.words import names
from vkbench_shaders.rounded_factors import TO_BF16, TO_F16, X_TO_BYTES, Rounding


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The largest errors that pass."""

    nmse: float
    max_abs: float  # in RMS of the reference
    each: float = inf  # of an element, in its own reference; 2^-126 besides, for flushed denormals
    rounding: Rounding | None = None  # of factors
    result: float = 0.0  # share of an element that rounding the result may take, where factors are
    deviations: float = 6.0  # that an element may be off by, besides, where factors are rounded
    nmse_follows: bool = False  # its limit is raised by what such errors make, if all are so large


LIMITS: Mapping[str, Limits] = {
    "exact": Limits(nmse=0.0, max_abs=0.0),
    "f32": Limits(nmse=1e-10, max_abs=5e-4),
    "f32_true": Limits(nmse=1e-10, max_abs=1e-5),
    "f32_each": Limits(nmse=1e-10, max_abs=5e-4, each=2e-6),
    "f32_once": Limits(nmse=1e-10, max_abs=5e-4, each=2.4e-7),
    "library_sums": Limits(nmse=1e-8, max_abs=5e-3),
    "f64": Limits(nmse=1e-27, max_abs=1e-12),
    "f16_attention": Limits(nmse=1e-10, max_abs=5e-4, rounding=TO_F16, nmse_follows=True),
    "library_attention": Limits(nmse=1e-5, max_abs=1e-1),
    "f16_inputs": Limits(nmse=1e-6, max_abs=0.0, rounding=TO_F16),
    "bf16_inputs": Limits(nmse=1e-5, max_abs=0.0, rounding=TO_BF16),
    "f16_library": Limits(nmse=1e-6, max_abs=0.0, rounding=TO_F16, result=2**-11),
    "bf16_library": Limits(nmse=2e-5, max_abs=0.0, rounding=TO_BF16, result=2**-8),
    "f16_accumulation": Limits(nmse=1e-4, max_abs=1e-1),
    "int8": Limits(nmse=1e-10, max_abs=5e-4, rounding=X_TO_BYTES, nmse_follows=True),
    "ggml_angles": Limits(nmse=1e-3, max_abs=5e-1),
    "ggml_vectors": Limits(nmse=1e-6, max_abs=5e-3, rounding=X_TO_BYTES, nmse_follows=True),
    "ggml_blocks": Limits(nmse=1e-4, max_abs=1e-1, rounding=X_TO_BYTES, nmse_follows=True),
}

OWN_LIMITS = ("nmse", "max_abs", "each")  # that a user's kernel may name


@lru_cache(maxsize=1024)
def limits_of(path: str) -> Limits:
    """The limits of an arithmetic path, or those that it names; UsageError if it is none."""
    if "=" not in path:
        return LIMITS[names.pick(path, LIMITS, "tolerance")]
    limits: dict[str, float] = {}
    for item in path.split(","):
        name, _, text = item.partition("=")
        if name not in OWN_LIMITS or name in limits:
            raise UsageError(f"a tolerance is {', '.join(OWN_LIMITS)}, each once; got '{item}'")
        try:
            limits[name] = float(text)
        except ValueError as error:
            raise UsageError(f"the tolerance {name} is no number: '{text}'") from error
        if not 0 <= limits[name] < inf:
            raise UsageError(f"the tolerance {name} is a number of at least 0, not {text}")
    if not {"nmse", "max_abs"} <= limits.keys():
        raise UsageError("a tolerance needs both nmse and max_abs")
    return Limits(nmse=limits["nmse"], max_abs=limits["max_abs"], each=limits.get("each", inf))


def path_of(limits: Mapping[str, float]) -> str:
    """The path that names limits of its own."""
    return ",".join(f"{name}={value!r}" for name, value in limits.items())
