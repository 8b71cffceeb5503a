"""mul_mat_vec_id: chosen experts' matrices times the vectors of a few tokens.

What follows the product in a layer may be part of it: a bias of each expert, and the share that a
token gives each of its experts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.matrices import experts, products
from vkbench_shaders.kernels.matrices.vectors import paths
from vkbench_shaders.kernels.matrices.vectors.via_q8_1 import Vectors
from vkbench_shaders.rounded_factors import Rounding

_BIASED = ("add", "add_mul")  # values of `then`
_SHARED = ("mul", "add_mul")
_BUFFERS = 6


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    m, n, u, k = (problem.shape[dim] for dim in "mnuk")
    groups = grid(-(-m // products.ROWS), depth=n * u)
    return Launch(
        groups=groups,
        push={
            "m": m,
            "u": u,
            "k": k,
            "groups_x": groups[0],
            "x_expert": 0,  # where a token has one vector for all its experts
            **products.places(problem, "weights", "expert", "stride"),
            **products.places(problem, "x", "token", "expert"),
            **products.places(problem, "y", "token", "expert"),
        },
        constants={
            **paths.constants(problem, device, columns=1),
            "BIASED": problem.params["then"] in _BIASED,
            "SHARED": problem.params["then"] in _SHARED,
        },
    )


def vectors(problem: Problem) -> Vectors:
    """The vectors that path via_q8_1 rounds: one a token, or one for each expert that it uses."""
    n, u = problem.shape["n"], problem.shape["u"]
    strides = problem.layout("x").strides
    if experts.is_single(problem):
        numbered = {"x_offset": 0, "x_token": 1, "x_expert": 0}
        return Vectors(count=n, outer_stride=strides[0], numbered=numbered)
    return Vectors(
        count=n * u,
        inner=u,
        inner_stride=strides[1],
        outer_stride=strides[0],
        numbered={"x_offset": 0, "x_token": u, "x_expert": 1},
    )


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    pairs = problem.shape["n"] * problem.shape["u"]
    if pairs > MOST_GROUPS:
        return f"n * u is {pairs}, one launch makes {MOST_GROUPS} at most"
    return too_large(problem, device)


def layout(problem: Problem, binding: str) -> Layout:
    """Biases and shares have no gaps."""
    if binding in ("biases", "shares"):
        return Layout.contiguous(problem.full_shape(binding))
    return experts.layout(problem, binding)


def inputs(problem: Problem) -> dict[str, Array]:
    return {
        **experts.inputs(problem),
        "biases": data.uniform(problem, "biases", -2, 2),
        "shares": data.uniform(problem, "shares", 0, 1),
    }


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """Products, and what follows them."""
    y = experts.reference(problem, inputs, rows)["y"]
    if problem.params["then"] in _BIASED:
        biases = inputs["biases"].astype(np.float64)[inputs["ids"]]
        y = y + (biases if rows is None else biases[..., rows])
    return {"y": _share(problem, inputs, y)}


def deviations(
    problem: Problem, inputs: Arrays, rows: Array | None, rounding: Rounding
) -> dict[str, Array]:
    """RMS errors of products where factors are rounded, which shares make smaller."""
    return {"y": _share(problem, inputs, experts.deviations(problem, inputs, rows, rounding)["y"])}


def _share(problem: Problem, inputs: Arrays, y: Array) -> Array:
    if problem.params["then"] not in _SHARED:
        return y
    return y * inputs["shares"].astype(np.float64)[:, :, None]


def bytes_moved(problem: Problem) -> int:
    """Bytes of the product, and of those biases and shares that are read."""
    e, u, m, n = (problem.shape[dim] for dim in "eumn")
    biases = min(e, n * u) * m if problem.reads("biases") else 0
    shares = n * u if problem.reads("shares") else 0
    return experts.bytes_moved(problem) + 4 * (biases + shares)


_SHAPES = (
    "e4_u2_m5_n1_k256",
    "e8_u3_m67_n4_k512",
    "e4_u4_m129_n2_k256",
    "e5_u2_m31_n5_k1024/x=expert",
    "e4_u1_m3_n1_k4096",
    "e4_u2_m13_n3_k512/layout=strided",
    "e6_u2_m7_n7_k256/layout=strided,routing=skewed,x=expert",
)
_FOLLOWED = (
    "e4_u2_m13_n3_k512/then=add_mul",
    "e5_u3_m31_n2_k256/layout=strided,then=add,x=expert",
    "e4_u2_m8_n1_k256/then=mul",
)
_SIZED = tuple(f"e4_u2_m7_n2_k2048/threads={size}" for size in paths.SIZES)
_MODELS = ("e128_u8_m768_n{}_k2048", "e32_u4_m1792_n{}_k2048")
_FEW = ("f16", "q4_0", "q4_K")  # timed with more than one token as well
_VECTORS = ("f32", "q8_1")


def _cases(shapes: Sequence[str], only: Sequence[str] = products.WEIGHTS) -> Iterator[Case]:
    for fmt in only:
        for x in _VECTORS:
            if products.accepts({"weights": fmt, "x": x}):
                for shape in shapes:
                    yield parse(f"mul_mat_vec_id/{products.type_part(fmt, x)}/{shape}")


def _timed_cases() -> Iterator[Case]:
    yield from _cases([model.format(1) for model in _MODELS])
    yield from _cases([model.format(n) for model in _MODELS for n in (4, 8)], _FEW)
    yield parse(f"mul_mat_vec_id/q4_K/{_MODELS[1].format(1)}/then=add_mul,x=expert")


MUL_MAT_VEC_ID = Kernel(
    name="mul_mat_vec_id",
    description="Multiplies the vectors of a few tokens with the experts that each one uses; biases"
    " and shares may follow.",
    group="matmul",
    dims=experts.DIMS,
    bindings=(
        *experts.bindings(_VECTORS),
        declare_input("biases", ("f32",), ("e", "m"), "of experts, added", when={"then": _BIASED}),
        declare_input(
            "shares", ("f32",), ("n", "u"), "what sums are multiplied by", when={"then": _SHARED}
        ),
    ),
    params={
        **experts.PARAMS,
        "then": Param(
            default="none",
            choices=("none", "add", "mul", "add_mul"),
            description="what follows: nothing, plus biases, times shares, or both",
        ),
        "threads": paths.THREADS,
    },
    tuning=paths.tuning(lambda problem: 1),
    forms=Forms(layout=layout, infer=experts.infer, accepts=products.accepts),
    variants=paths.variants("mul_mat_vec_id", _BUFFERS, vectors, launch, refuses),
    inputs=inputs,
    check=Check(reference=reference, deviations=deviations, rows="m"),
    work=Work(flops=experts.flops, bytes_moved=bytes_moved),
    cases=CaseList(lambda: (*_cases(_SHAPES), *_cases((*_SIZED, *_FOLLOWED), _FEW))),
    timed=CaseList(_timed_cases),
)
