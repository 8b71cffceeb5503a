"""ggml's operations by name: the kernels of ours that compute each, or why none does.

Names are those that a build tells by `ggml_op_name`, `ggml_unary_op_name` and `ggml_glu_op_name`.
A newer build may have more: a test compares them with the build that tests run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

VERSION: Final = "0.25.1"  # of ggml
COMMIT: Final = "0ad4a86"
DATE: Final = "2026-09-28"  # when the build was published that the names are read from
MISSING: Final = "missing"

# The kernels that compute an operation: one of them by formats and sizes, or one after the other.
Kernels = tuple[str, ...]
# Or why there is none: MISSING where there should be one.
Known = Mapping[str, Kernels | str]

_MOVES_NOTHING: Final = "moves no data: another view of the same memory"
_OF_USERS: Final = "calls a function of the program that uses ggml"
_NOT_ON_GPUS: Final = "ggml's Vulkan backend does not have it"

OPERATIONS: Final[Known] = {
    "NONE": "computes nothing: a tensor that is given",
    "DUP": ("copy", "cont"),
    "ADD": ("add", "multi_add"),
    "ADD_ID": ("add_id",),
    "ADD1": ("add1",),
    "ACC": ("acc",),
    "SUB": ("sub",),
    "MUL": ("mul",),
    "DIV": ("div",),
    "SQR": ("sqr",),
    "SQRT": ("sqrt",),
    "LOG": ("log",),
    "SIN": ("sin",),
    "COS": ("cos",),
    "SUM": ("sum",),
    "SUM_ROWS": ("sum",),
    "CUMSUM": ("cumsum",),
    "MEAN": ("mean",),
    "ARGMAX": ("argmax",),
    "COUNT_EQUAL": ("count_equal",),
    "REPEAT": ("repeat",),
    "REPEAT_BACK": ("repeat_back",),
    "CONCAT": ("concat",),
    "SILU_BACK": ("silu_back",),
    "NORM": ("layer_norm",),
    "RMS_NORM": ("rms_norm",),
    "RMS_NORM_BACK": ("rms_norm_back",),
    "GROUP_NORM": ("group_norm",),
    "L2_NORM": ("l2_norm",),
    "MUL_MAT": ("mul_mat_vec", "mul_mat", "hadamard"),
    "MUL_MAT_ID": ("mul_mat_vec_id", "mul_mat_id"),
    "OUT_PROD": ("out_prod",),
    "SCALE": ("scale",),
    "SET": ("set",),
    "CPY": ("copy", "copy2d", "cont", "to_dtype", "quantize", "dequantize", "copy_from"),
    "CONT": ("cont", "transpose"),
    "RESHAPE": _MOVES_NOTHING,
    "VIEW": _MOVES_NOTHING,
    "PERMUTE": _MOVES_NOTHING,
    "TRANSPOSE": _MOVES_NOTHING,
    "GET_ROWS": ("get_rows", "index_select"),
    "GET_ROWS_BACK": ("get_rows_back",),
    "SET_ROWS": ("set_rows",),
    "DIAG": ("diag",),
    "DIAG_MASK_INF": ("diag_mask_inf",),
    "DIAG_MASK_ZERO": _NOT_ON_GPUS,
    "SOFT_MAX": ("softmax",),
    "SOFT_MAX_BACK": ("softmax_back",),
    "ROPE": ("rope",),
    "ROPE_BACK": ("rope_back",),
    "CLAMP": ("clamp",),
    "CONV_TRANSPOSE_1D": ("conv_transpose1d",),
    "IM2COL": ("im2col1d", "im2col"),
    "IM2COL_BACK": _NOT_ON_GPUS,
    "IM2COL_3D": ("im2col3d",),
    "COL2IM_1D": ("col2im1d",),
    "CONV_2D": ("conv2d",),
    "CONV_3D": ("conv3d",),
    "CONV_2D_DW": ("conv2d_dw",),
    "CONV_TRANSPOSE_2D": ("conv_transpose2d",),
    "POOL_1D": ("avg_pool1d", "max_pool1d"),
    "POOL_2D": ("avg_pool2d", "max_pool2d"),
    "POOL_2D_BACK": _NOT_ON_GPUS,
    "UPSCALE": (
        *("upsample_nearest1d", "upsample_nearest2d"),
        *("upsample_bilinear2d", "upsample_bicubic2d"),
    ),
    "PAD": ("pad",),
    "PAD_REFLECT_1D": ("pad",),
    "ROLL": ("roll",),
    "ARANGE": ("arange",),
    "TIMESTEP_EMBEDDING": ("timestep_embedding",),
    "ARGSORT": ("argsort",),
    "TOP_K": ("top_k",),
    "LEAKY_RELU": ("leaky_relu",),
    "TRI": ("tri",),
    "FILL": ("fill", "zeros"),
    "FLASH_ATTN_EXT": ("flash_attn", "sdpa"),
    "FLASH_ATTN_BACK": _NOT_ON_GPUS,
    "SSM_CONV": ("ssm_conv",),
    "SSM_SCAN": ("ssm_scan",),
    "WIN_PART": _NOT_ON_GPUS,
    "WIN_UNPART": _NOT_ON_GPUS,
    "GET_REL_POS": _NOT_ON_GPUS,
    "ADD_REL_POS": _NOT_ON_GPUS,
    "RWKV_WKV6": ("rwkv_wkv6",),
    "GATED_LINEAR_ATTN": ("gated_linear_attn",),
    "RWKV_WKV7": ("rwkv_wkv7",),
    "SOLVE_TRI": ("solve_tri",),
    "GATED_DELTA_NET": ("gated_delta_net",),
    "LIGHTNING_INDEXER": ("lightning_indexer",),
    "DSV4_HC_COMB": ("dsv4_hc_comb",),
    "DSV4_HC_PRE": ("dsv4_hc_pre", "dsv4_hc_pre_gated"),
    "DSV4_HC_POST": ("dsv4_hc_post",),
    "UNARY": "a family, whose functions of one number have rows of their own",
    "MAP_CUSTOM1": _OF_USERS,
    "MAP_CUSTOM2": _OF_USERS,
    "MAP_CUSTOM3": _OF_USERS,
    "CUSTOM": _OF_USERS,
    "CROSS_ENTROPY_LOSS": ("cross_entropy", "mean"),
    "CROSS_ENTROPY_LOSS_BACK": ("cross_entropy_back", "scale"),
    "OPT_STEP_ADAMW": ("adamw",),
    "OPT_STEP_SGD": ("sgd",),
    "GLU": "a family, whose gated units have rows of their own",
}
UNARY: Final[Known] = {
    "ABS": ("abs",),
    "SGN": ("sign",),
    "NEG": ("neg",),
    "STEP": ("step",),
    "TANH": ("tanh",),
    "ELU": ("elu",),
    "RELU": ("relu",),
    "SIGMOID": ("sigmoid",),
    "GELU": ("gelu",),
    "GELU_QUICK": ("gelu_quick",),
    "SILU": ("silu",),
    "HARDSWISH": ("hardswish",),
    "HARDSIGMOID": ("hardsigmoid",),
    "EXP": ("exp",),
    "EXPM1": ("expm1",),
    "SOFTPLUS": ("softplus",),
    "GELU_ERF": ("gelu_erf",),
    "XIELU": ("xielu",),
    "FLOOR": ("floor",),
    "CEIL": ("ceil",),
    "ROUND": ("round",),
    "TRUNC": ("trunc",),
}
GATED: Final[Known] = {
    "REGLU": ("reglu", "reglu_split"),
    "GEGLU": ("geglu", "geglu_split"),
    "SWIGLU": ("swiglu", "swiglu_split"),
    "SWIGLU_OAI": ("swiglu_oai", "swiglu_oai_split"),
    "GEGLU_ERF": ("geglu_erf", "geglu_erf_split"),
    "GEGLU_QUICK": ("geglu_quick", "geglu_quick_split"),
    "SWIGLU_CLAMP": ("clamp", "swiglu_split"),
}
ALL: Final[Known] = {**OPERATIONS, **UNARY, **GATED}
