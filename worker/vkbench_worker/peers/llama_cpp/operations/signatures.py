"""Functions of ggml's C API that make nodes: what each takes, and of which formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# What each function takes behind the context: tensors, floats, integers, longs, truth values, and
# several integers (s). A build calls what it has no argument for none: those that were added at the
# end of a function later are passed to all builds.
FUNCTIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("abs", "neg", "step", "sgn", "tanh", "elu", "relu", "sigmoid", "gelu", "gelu_quick"),
            *("silu", "hardswish", "hardsigmoid", "exp", "expm1", "softplus", "gelu_erf", "floor"),
            *("ceil", "trunc", "sqr", "sqrt", "sin", "cos", "log", "sum_rows", "mean", "argmax"),
            *("cumsum", "reglu", "geglu", "swiglu", "geglu_erf", "geglu_quick", "reglu_swapped"),
            *("geglu_swapped", "swiglu_swapped", "geglu_erf_swapped", "geglu_quick_swapped"),
            "cont",
        ),
        "t",
    ),
    **dict.fromkeys(
        (
            *("add", "sub", "mul", "div", "get_rows", "mul_mat", "reglu_split", "geglu_split"),
            *("swiglu_split", "geglu_erf_split", "geglu_quick_split", "silu_back", "out_prod"),
            *("ssm_conv", "repeat", "count_equal"),
        ),
        "tt",
    ),
    **dict.fromkeys(("set_rows", "mul_mat_id", "opt_step_sgd"), "ttt"),
    **dict.fromkeys(("rms_norm", "norm", "l2_norm", "scale", "fill"), "tf"),
    **dict.fromkeys(("argsort", "cast"), "ti"),
    **dict.fromkeys(("scale_bias", "clamp"), "tff"),
    **dict.fromkeys(("rope_ext", "rope_ext_back"), "tttiiiffffff"),
    **dict.fromkeys(("rope_multi", "rope_multi_back"), "tttisiiffffff"),
    **dict.fromkeys(("conv_2d_direct", "conv_2d_dw_direct"), "ttiiiiii"),
    **dict.fromkeys(("pad_ext", "pad_ext_circular"), "tiiiiiiii"),
    **dict.fromkeys(("pad", "roll"), "tiiii"),
    "diag": "t",
    "add1": "tt",
    "add_id": "ttt",
    **dict.fromkeys(("acc", "set"), "ttllll"),
    **dict.fromkeys(("diag_mask_inf", "tri"), "ti"),
    "solve_tri": "ttbbb",
    "reshape_2d": "tll",
    "reshape_3d": "tlll",
    "view_2d": "tllll",
    **dict.fromkeys(("repeat_back", "dsv4_hc_pre"), "tt"),
    "get_rows_back": "ttt",
    **dict.fromkeys(("dsv4_hc_post", "lightning_indexer"), "tttt"),
    "timestep_embedding": "tii",
    "im2col_3d": "ttliiiiiiiiii",
    "dsv4_hc_comb": "tttfi",
    "dsv4_hc_pre_gated": "ttf",
    # operations that the catalogue lacks
    **dict.fromkeys(("round", "sum"), "t"),
    "top_k": "ti",
    "leaky_relu": "tfb",
    "xielu": "tffff",
    "swiglu_oai": "ttff",
    "soft_max_ext": "ttff",
    "soft_max_ext_back": "ttff",
    "group_norm": "tif",
    "rms_norm_back": "ttf",
    "concat": "tti",
    "conv_3d_direct": "ttiiiiiiiiiiii",
    "conv_transpose_1d": "ttiii",
    "conv_transpose_2d_p0": "tti",
    "im2col": "ttiiiiiibi",
    "col2im_1d": "tiii",
    "pool_1d": "tiiii",
    "pool_2d": "tiiiiiff",
    "upscale_ext": "tiiiii",
    "interpolate": "tlllli",
    "pad_reflect_1d": "tii",
    "arange": "fff",
    "flash_attn_ext": "ttttfff",
    "ssm_scan": "tttttttl",
    "rwkv_wkv6": "tttttt",
    "rwkv_wkv7": "ttttttt",
    "gated_linear_attn": "tttttf",
    "gated_delta_net": "ttttttl",
    "opt_step_adamw": "ttttt",
}
# Functions that abort or compute nonsense for other formats, though the backend supports them.
OF_SINGLES: Final = (
    *("sum_rows", "mean", "argmax", "cumsum", "argsort", "norm_and", "rms_norm_and"),
    *("group_norm_and", "add_rms_norm", "l2_norm", "rms_norm_back", "soft_max_back", "upsample"),
    *("im2col", "pool_1d", "pool_2d", "pad_all", "roll", "arange", "tri", "diag"),
    *("diag_mask_inf", "set", "acc", "add_id", "solve_tri", "route_tokens"),
)
# Functions that take blocks.
OF_BLOCKS: Final = (
    "mul_mat",
    "multiply_experts",
    "mul_mat_id",
    "get_rows",
    "attention",
    "cast",
    "concat",
    "set_rows",
    "lightning_indexer",
)
# Formats for which functions abort though the backend says that it supports them.
ABORTS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("cast", "cont"), ("i64",)),
    "fill_with": ("bf16", "i32", "i64"),
}
# Functions that take arrays whose rows or dimensions lie otherwise than side by side.
OF_VIEWS: Final = ("cast", "cont", "flash_attn_ext")
# Functions that are told their precision behind, as llama.cpp tells them: sums in singles.
PRECISE: Final[Mapping[str, str]] = {"flash_attn_ext": "flash_attn_ext_set_prec"}

# Functions with another one, `_swapped`, for gates that are the second half of a row.
GATED: Final = ("reglu", "geglu", "swiglu", "geglu_erf", "geglu_quick")
