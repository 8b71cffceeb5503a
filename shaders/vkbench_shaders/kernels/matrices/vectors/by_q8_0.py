"""Products of q4_0 with vectors in q8_0, as CPUs multiply them: blocks of bytes without sums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Arguments, Launch, Problem, Refuses, Variant
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.shared.portable import portable

_MODULE: Final = "mul_mat_vec_q8_0"
SHAPES: Final = (
    *("m5_n2_k512", "m13_n8_k512", "m31_n1_k4096", "m17_n9_k96"),
    "m67_n7_k256/layout=strided",
)
TIMED_N: Final = (1, 8)


def _arguments(dot: str, total: str) -> Arguments:
    return lambda types: (types["weights"], dot, total)


def variants(
    launch: Callable[[Problem, DeviceFacts], Launch], refuses: Refuses
) -> tuple[Variant, ...]:
    """Both code paths: by integer dot products, and the one that every device can run."""
    fast = portable(
        _MODULE, launch, "f32", arguments=_arguments("packed_dot", "subgroup_sum"), refuses=refuses
    )
    slow = portable(
        _MODULE, launch, "f32", arguments=_arguments("byte_dot", "tree_sum"), refuses=refuses
    )
    return (
        replace(
            fast,
            name="int_dot_q8_0",
            requires=("int_dot", "subgroup_arithmetic"),
            accepts=lambda types: types["x"] == products.BYTES_ALONE,
        ),
        replace(
            slow, name="portable_q8_0", accepts=lambda types: types["x"] == products.BYTES_ALONE
        ),
    )
