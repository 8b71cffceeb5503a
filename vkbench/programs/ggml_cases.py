"""The own cases of ggml-vulkan: operations that its backend has and the catalogue lacks.

Names are kernel, format and sizes, as those of the catalogue are. The worker's
`operations/own.py` says what each is.
"""

from __future__ import annotations

from typing import Final

CASES: Final = (
    "round/f32/h512_w4096",
    "sum/f32/h512_w4096_o1",
    "repeat_back/f32/h512_w4096_r128",
    "get_rows_back/f32/n64_k4096_m128",
    "top_k/f32/h64_w2048_k40",
    "timestep_embedding/f32/n512_d320",
    "im2col_3d/f32/c16_t8_h32_w32_j432",
    "dsv4_hc_comb/f32/t512_j24_o3_s4_d4",
    "dsv4_hc_pre/f32/t512_s4_m4096",
    "dsv4_hc_post/f32/t512_m4096_s4_d4",
    "lightning_indexer/f32/t8_h64_k128_n512_o1",
)
