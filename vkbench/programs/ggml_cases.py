"""The own cases of ggml-vulkan: operations that its backend has and the catalogue lacks.

Names are kernel, format and sizes, as those of the catalogue are. The worker's
`operations/own.py` says what each is.
"""

from __future__ import annotations

from typing import Final

CASES: Final = (
    "round/f32/h512_w4096",
    "sum/f32/h512_w4096_o1",
    "top_k/f32/h64_w2048_k40",
)
