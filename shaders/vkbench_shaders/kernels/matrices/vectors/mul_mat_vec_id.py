"""mul_mat_vec_id: chosen experts' matrices times the vectors of a few tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.kernel import (
    MOST_GROUPS,
    Check,
    Forms,
    Kernel,
    Launch,
    Problem,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.matrices import experts, products
from vkbench_shaders.kernels.matrices.vectors import paths
from vkbench_shaders.kernels.matrices.vectors.via_q8_1 import Vectors


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
        constants=paths.constants(problem, device, columns=1),
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


_SHAPES = (
    "e4_u2_m5_n1_k256",
    "e8_u3_m67_n4_k512",
    "e4_u4_m129_n2_k256",
    "e5_u2_m31_n5_k1024/x=expert",
    "e4_u1_m3_n1_k4096",
    "e4_u2_m13_n3_k512/layout=strided",
    "e6_u2_m7_n7_k256/layout=strided,routing=skewed,x=expert",
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


MUL_MAT_VEC_ID = Kernel(
    name="mul_mat_vec_id",
    description="Multiplies the vectors of a few tokens with the experts that each one uses.",
    group="matmul",
    dims=experts.DIMS,
    bindings=experts.bindings(_VECTORS),
    params={**experts.PARAMS, "threads": paths.THREADS},
    tuning=paths.tuning(lambda problem: 1),
    forms=Forms(layout=experts.layout, infer=experts.infer, accepts=products.accepts),
    variants=paths.variants("mul_mat_vec_id", 4, vectors, launch, refuses),
    inputs=experts.inputs,
    check=Check(reference=experts.reference, deviations=experts.deviations, rows="m"),
    work=Work(flops=experts.flops, bytes_moved=experts.bytes_moved),
    cases=CaseList(lambda: (*_cases(_SHAPES), *_cases(_SIZED, _FEW))),
    timed=CaseList(_timed_cases),
)
