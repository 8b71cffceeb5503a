"""Which kernels of the catalogue ggml has, and a case as a test of its test-backend-ops.

The program reads tests from a file, a line each: the operation's number, the result's format and
dimensions, the operation's parameters as integers of 32 bits, and its inputs. Numbers change with
llama.cpp's versions: those here are where a search for an operation of that name begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Final

import numpy as np

from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Problem
from vkbench_shaders.layout import Layout
from vkbench_worker.peers.library import CannotDo

PEER: Final = "ggml"

Dims = tuple[int, ...]  # the outermost first, as ours
Number = float | int

_UNARY, _GLU = 91, 100  # numbers of two operations that stand for many, which a code tells apart
_UNARY_OPS: Final = (
    *("abs", "sgn", "neg", "step", "tanh", "elu", "relu", "sigmoid", "gelu", "gelu_quick"),
    *("silu", "hardswish", "hardsigmoid", "exp", "expm1", "softplus", "gelu_erf", "xielu"),
    *("floor", "ceil", "round", "trunc"),
)
_GLU_OPS: Final = ("reglu", "geglu", "swiglu", "swiglu_oai", "geglu_erf", "geglu_quick")
_OTHERWISE: Final = ("sgn", "xielu", "swiglu_oai")  # called or parametrised otherwise here
_F32_PRECISION: Final = 10  # of attention, as llama.cpp asks for it
_AXES: Final = "whcb"  # ggml's, the innermost first


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A case as ggml does it."""

    op: str  # ggml's name
    number: int
    code: int | None  # which of its kind it is; the first parameter
    params: tuple[int, ...]  # behind the code, as bits
    result: str  # format and dimensions, as the file of tests has them
    sources: tuple[str, ...]

    def numbered(self, number: int, code: int | None) -> Operation:
        """The same under the numbers of another version."""
        return replace(self, number=number, code=code)

    def line(self, name: str, *, bare: bool = False) -> str:
        """The test of that name; a bare one has no parameters beside its code."""
        params = [*([] if self.code is None else [self.code]), *([] if bare else self.params)]
        parts = (self.number, self.result, len(params), *params, len(self.sources), *self.sources)
        return " ".join(map(str, (*parts, name)))


def _nothing(problem: Problem) -> tuple[Number, ...]:
    return ()


@dataclass(frozen=True, kw_only=True)
class _Row:
    """How an operation of ggml is a kernel of ours."""

    op: str
    number: int
    code: int | None = None
    sources: tuple[str, ...] = ("x",)
    blocks: tuple[str, ...] = ()  # sources that may be of a format of blocks
    alike: bool = False  # the result has the format of the first source, and not f32 or i32
    named: frozenset[str] = frozenset()  # parameters that `params` tells ggml of
    params: Callable[[Problem], Sequence[Number]] = _nothing
    fits: Callable[[Problem], str] = lambda problem: ""  # what of a case ggml cannot do, or ""
    # dimensions of sources and of the result `y`, where they are not ours
    dims: Mapping[str, Callable[[Problem], Dims]] = field(default_factory=dict)


def operation_of(problem: Problem) -> Operation:
    """A case as ggml does it; CannotDo says why it does not."""
    kernel = problem.kernel
    row = None if kernel.content else ROWS.get(kernel.name)
    if row is None:
        raise CannotDo(f"{PEER} has no {kernel.name}")
    if unlike := sorted(_unlike(problem, row)):
        raise CannotDo(f"{PEER} has no {kernel.name} with {', '.join(unlike)}")
    if reason := row.fits(problem):
        raise CannotDo(f"{PEER} has no {kernel.name} {reason}")
    return Operation(
        op=row.op,
        number=row.number,
        code=row.code,
        params=tuple(map(_bits, row.params(problem))),
        result=_result(problem, row),
        sources=tuple(_source(problem, row, name) for name in row.sources),
    )


def _unlike(problem: Problem, row: _Row) -> Iterable[str]:
    """Parameters that a case has otherwise than ggml, which has them as they are by default."""
    tuned = problem.kernel.tuning.params if problem.kernel.tuning else ()
    for name, param in problem.kernel.params.items():
        usual = name in row.named or name in tuned or problem.params[name] == param.default
        if not usual:
            yield f"{name}={problem.params[name]}"


def _bits(value: Number) -> int:
    return value if isinstance(value, int) else int(np.float32(value).view(np.int32))


def _result(problem: Problem, row: _Row) -> str:
    fmt = problem.format("y")
    wanted = (problem.types[row.sources[0]],) if row.alike else ("f32", "i32")
    if fmt.name not in wanted:
        raise CannotDo(f"{PEER} has no {problem.kernel.name} to {fmt.name}")
    return f"{fmt.ggml} {_four(_dims(problem, row, 'y', fmt))}"


def _source(problem: Problem, row: _Row, name: str) -> str:
    fmt = problem.format(name)
    if fmt.ggml is None or (fmt.quantised and name not in row.blocks):
        raise CannotDo(f"{PEER} has no {problem.kernel.name} of {fmt.name}")
    if problem.layout(name) != Layout.contiguous(problem.layout(name).shape):
        raise CannotDo(f"{PEER} is asked for whole arrays, and {name} has gaps")
    return f"{fmt.ggml} {_four(_dims(problem, row, name, fmt))} 0 0 0 0"  # no strides of their own


def _dims(problem: Problem, row: _Row, name: str, fmt: Format) -> Dims:
    if name in row.dims:
        return row.dims[name](problem)
    *outer, inner = problem.layout(name).shape
    return (*outer, fmt.numbers(inner))


def _four(dims: Dims) -> str:
    """Four dimensions as ggml has them, the innermost first."""
    return " ".join(map(str, [*reversed(dims), 1, 1, 1, 1][:4]))


def _floats(*names: str) -> Callable[[Problem], Sequence[Number]]:
    return lambda problem: [float(problem.params[name]) for name in names]


def _of_positive(problem: Problem) -> str:
    return "that its test can judge: half of its numbers are negative"


def _one_matrix(problem: Problem) -> str:
    return "of several matrices" if problem.shape["b"] * problem.shape["c"] > 1 else ""


def _group_norm(problem: Problem) -> Sequence[Number]:
    return int(problem.params["groups"]), float(problem.params["eps"])


def _attention(problem: Problem) -> Sequence[Number]:
    scale = float(problem.params["scale"]) or 1 / sqrt(problem.shape["d"])
    return scale, 0.0, 0.0, _F32_PRECISION  # without a bias, without a cap


def _heads_of_queries(problem: Problem) -> Dims:
    """Of attention's result: ggml has the heads of a query beside each other."""
    s, h, q, e = problem.layout("y").shape
    return s, q, h, e


def _convolution(problem: Problem) -> Sequence[Number]:
    found: list[Number] = []
    for name in ("stride", "padding", "dilation"):
        across, down = int(problem.params[name]), int(problem.params[f"{name}_h"])
        found += [across, across if down < 0 else down]
    return found


def _rope(problem: Problem) -> Sequence[Number]:
    mode = 2 if problem.params["mode"] == "neox" else 0
    dims = int(problem.params["n_dims"]) or problem.shape["k"]
    return (
        *(0, dims, mode, 0, int(problem.params["n_ctx_orig"])),
        *_floats("freq_base", "freq_scale", "ext_factor")(problem),
        *_floats("attn_factor", "beta_fast", "beta_slow")(problem),
    )


def _rope_fits(problem: Problem) -> str:
    if problem.params["mode"] not in ("norm", "neox"):
        return f"with mode={problem.params['mode']}"  # its positions are several for each token
    return "of several sequences" if problem.shape["b"] > 1 else ""


def _swapped(problem: Problem) -> Sequence[Number]:
    return [int(problem.params["gate"] != "first")]


_PAIRS: Final = ("weights", "x")
_EPS: Final = frozenset({"eps"})
_CONVOLUTION: Final = frozenset(
    f"{name}{end}" for name in ("stride", "padding", "dilation") for end in ("", "_h")
)
_MUL_MAT: Final = _Row(op="MUL_MAT", number=29, sources=_PAIRS, blocks=("weights",))
_MUL_MAT_ID: Final = _Row(
    op="MUL_MAT_ID",
    number=30,
    sources=("weights", "x", "ids"),
    blocks=("weights",),
    # all experts of a token read the same row
    dims={"x": lambda problem: (problem.shape["n"], 1, problem.shape["k"])},
)
_FLASH_ATTN: Final = _Row(
    op="FLASH_ATTN_EXT",
    number=74,
    sources=("q", "k", "v"),
    blocks=("k", "v"),
    named=frozenset({"scale"}),
    params=_attention,
    dims={"y": _heads_of_queries},
)

ROWS: Final[Mapping[str, _Row]] = {
    **{
        name: _Row(op=name.upper(), number=_UNARY, code=code, alike=True)
        for code, name in enumerate(_UNARY_OPS)
        if name not in _OTHERWISE
    },
    **{
        name: _Row(
            op=name.upper(),
            number=_GLU,
            code=code,
            alike=True,
            named=frozenset({"gate"}),
            params=_swapped,
        )
        for code, name in enumerate(_GLU_OPS)
        if name not in _OTHERWISE
    },
    **{
        f"{name}_split": _Row(
            op=name.upper(), number=_GLU, code=code, alike=True, sources=("a", "b")
        )
        for code, name in enumerate(_GLU_OPS)
        if name not in _OTHERWISE
    },
    **{
        name: _Row(op=name.upper(), number=number, alike=True)
        for name, number in (("sqr", 9), ("sin", 12), ("cos", 13))
    },
    **{
        name: _Row(op=name.upper(), number=number, alike=True, fits=_of_positive)
        for name, number in (("sqrt", 10), ("log", 11))
    },
    **{
        name: _Row(op=name.upper(), number=number, alike=True, sources=("a", "b"))
        for name, number in (("add", 2), ("sub", 6), ("mul", 7), ("div", 8))
    },
    "scale": _Row(
        op="SCALE",
        number=32,
        alike=True,
        named=frozenset({"factor", "bias"}),
        params=_floats("factor", "bias"),
    ),
    "clamp": _Row(
        op="CLAMP",
        number=50,
        alike=True,
        named=frozenset({"low", "high"}),
        params=_floats("low", "high"),
    ),
    "leaky_relu": _Row(
        op="LEAKY_RELU",
        number=71,
        alike=True,
        named=frozenset({"slope"}),
        params=_floats("slope"),
    ),
    "sum": _Row(op="SUM_ROWS", number=15),
    "mean": _Row(op="MEAN", number=17),
    "argmax": _Row(
        op="ARGMAX",
        number=18,
        fits=_one_matrix,
        dims={"y": lambda problem: (problem.shape["h"],)},
    ),
    "cumsum": _Row(op="CUMSUM", number=16),
    "argsort": _Row(
        op="ARGSORT",
        number=69,
        named=frozenset({"order"}),
        params=lambda problem: [int(problem.params["order"] == "descending")],
    ),
    "softmax": _Row(
        op="SOFT_MAX",
        number=46,
        named=frozenset({"scale"}),
        params=lambda problem: [float(problem.params["scale"]), 0.0],  # without a bias
    ),
    "rms_norm": _Row(op="RMS_NORM", number=25, named=_EPS, params=_floats("eps")),
    "layer_norm": _Row(op="NORM", number=24, named=_EPS, params=_floats("eps")),
    "l2_norm": _Row(op="L2_NORM", number=28, named=_EPS, params=_floats("eps")),
    "group_norm": _Row(op="GROUP_NORM", number=27, named=_EPS | {"groups"}, params=_group_norm),
    "rope": _Row(
        op="ROPE",
        number=48,
        sources=("x", "positions"),
        alike=True,
        named=frozenset({"mode", "n_dims", "freq_base", "freq_scale", "ext_factor"})
        | {"attn_factor", "beta_fast", "beta_slow", "n_ctx_orig"},
        params=_rope,
        fits=_rope_fits,
    ),
    "get_rows": _Row(op="GET_ROWS", number=40, sources=("table", "ids"), blocks=("table",)),
    "concat": _Row(
        op="CONCAT",
        number=22,
        sources=("a", "b"),
        alike=True,
        named=frozenset({"axis"}),
        params=lambda problem: [_AXES.index(str(problem.params["axis"]))],
    ),
    "mul_mat": _MUL_MAT,
    "mul_mat_vec": _MUL_MAT,
    "mul_mat_id": _MUL_MAT_ID,
    "mul_mat_vec_id": _MUL_MAT_ID,
    "conv2d": _Row(
        op="CONV_2D", number=56, sources=_PAIRS, named=_CONVOLUTION, params=_convolution
    ),
    "flash_attn": _FLASH_ATTN,
    "sdpa": _FLASH_ATTN,
}
