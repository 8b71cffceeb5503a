"""The own cases of ggml-vulkan: operations that its backend has and the catalogue lacks.

Names are kernel, format and sizes, as those of the catalogue are. The worker's
`operations/own.py` says what each is.
"""

from __future__ import annotations

from typing import Final

CASES: Final = (
    "add_id/f32/n512_u4_m2880_e32",
    "add1/f32/h512_w4096_o1",
    "acc/f32/h512_w4096_r256_v2048",
    "set/f32/h512_w4096_r256_v2048",
    "round/f32/h512_w4096",
    "sum/f32/h512_w4096_o1",
    "diag/f32/b16_o1_w256_v256",
    "diag_mask_inf/f32/c32_h512_w512",
    "tri/f32/c32_n256_w256",
    "solve_tri/f32/b32_n64_m64_k128",
    "top_k/f32/h64_w2048_k40",
)
