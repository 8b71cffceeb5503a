"""Which kernels of the catalogue ggml has, and why it lacks the others that it seems to have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from vkbench_worker.peers.library import Row
from vkbench_worker.peers.llama_cpp.operations import (
    elementwise,
    images,
    moves,
    products,
    recurrent,
    rowwise,
)

ROWS: Final[Mapping[str, Row]] = {
    **elementwise.ROWS,
    **rowwise.ROWS,
    **products.ROWS,
    **images.ROWS,
    **moves.ROWS,
    **recurrent.ROWS,
}

_ROUNDED: Final = "it rounds x to bytes within a product alone"
_SEVERAL: Final = "a product of one vector and what follows are several nodes"

# What is near to a kernel that ggml has no row for, and how it differs.
LACKS: Final[Mapping[str, str]] = {
    "swiglu_oai": "its own takes gates and values as two arrays: swiglu_oai_split",
    **dict.fromkeys(
        ("geglu_q8_1", "swiglu_q8_1", "swiglu_oai_q8_1", "rms_norm_q8_1", "add_rms_norm_q8_1"),
        _ROUNDED,
    ),
    **dict.fromkeys(
        (
            *("mul_mat_vec_rms", "mul_mat_vec_geglu_q8_1", "mul_mat_vec_swiglu_q8_1"),
            *("mul_mat_vec_geglu", "mul_mat_vec_swiglu", "mul_mat_vec_add_q8_1"),
            "mul_mat_vec_add",
        ),
        _SEVERAL,
    ),
    "top_k": "its own gives places alone, in any order",
    "cross_entropy": "its own is one number, the mean of all rows",
    "cross_entropy_back": "its own is of the mean of all rows",
    "matmul": "its products are of rows by rows: mul_mat",
    "conv1d": "it is im2col and a product",
    "flash_attn_token": "a token's keys are turned, stored and seen by three nodes",
    "gated_delta_net_token": "a token's convolution, net, norm and gates are nodes of their own",
    "ssm_scan_token": "a token's convolution, scan, gates and norm are nodes of their own",
    "ssm_conv_token": "a token is joined to others, convolved and stored by nodes of their own",
    "selective_scan_token": "a token's step, scan and gates are nodes of their own",
    "adam": "its own takes decay from x itself: adamw",
}
