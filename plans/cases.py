"""The cases that the success metrics of the plans name, but for those of ROCm's grid."""

from __future__ import annotations

from typing import Final

SQUARES: Final = tuple(f"matmul/f32/b1_m{n}_n{n}_k{n}" for n in (4096, 2048, 1024, 512, 256))
SMALL_SQUARE: Final = "matmul/f32/b1_m128_n128_k128"
BLOCKS: Final = (
    "mul_mat/q4_0/m4096_n4096_k4096",
    "mul_mat/q4_0/m4096_n512_k14336",
    "mul_mat/q4_0/m1024_n1024_k1024",
    "mul_mat_vec/q4_0/m4096_n1_k14336",
    "mul_mat_vec/q4_0/m4096_n1_k4096",
)
ELEMENTS: Final = tuple(f"{name}/f32/b1_c1_h4096_w4096" for name in ("add", "mul", "silu"))
ROWS: Final = tuple(f"{name}/f32/b1_c1_h8192_w8192" for name in ("sum", "mean", "max", "argmax"))
