"""ggml's own timings of operations, as results of the same cases beside ours.

A row says which kernel an operation is, how its sizes are ours, and which of its parameters have
to be as they are where nothing unusual is asked for. A test with any other parameter has no case
here: it may do something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from vkbench.case import Value, value_of
from vkbench.errors import VkbenchError
from vkbench_local.peers.imported import NoCase, PeerTiming, posed_case
from vkbench_shaders.catalogue import kernel_named
from vkbench_shaders.kernel import Problem
from vkbench_worker.peers.llama_cpp.ggml_file import OpTest

PEER: Final = "ggml"  # code path of its results
SAID: Final = "timed by test-backend-ops, with the host's time, and not judged"

Sizes = Mapping[str, int]
Numbers = Callable[[str], tuple[int, ...]]  # of a parameter: 4096, or [4096,1,1,1]

_ORDERS: Final = ("ascending", "descending")
_MOST_VECTORS: Final = 8  # more of them are a matrix


@dataclass(frozen=True, kw_only=True)
class _Row:
    """How an operation of ggml is a kernel of ours."""

    kernel: str
    sizes: Callable[[Numbers], Sizes]
    types: Mapping[str, str] = field(default_factory=lambda: {"x": "type"})  # ours by ggml's name
    usual: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # values it has to have
    params: Callable[[Mapping[str, str]], Mapping[str, Value]] = lambda given: {}
    named: tuple[str, ...] = ()  # parameters that `sizes` and `params` read


def _bchw(name: str) -> Callable[[Numbers], Sizes]:
    """Four dimensions, of which ggml names the innermost first."""

    def sizes(of: Numbers) -> Sizes:
        w, h, c, b = of(name)
        return {"b": b, "c": c, "h": h, "w": w}

    return sizes


def _rows(of: Numbers) -> Sizes:
    w, h, c, b = of("ne")
    return {"h": h * c * b, "w": w}


def _product(of: Numbers) -> Sizes:
    return {name: of(name)[0] for name in "mnk"}


def _convolution(of: Numbers) -> Sizes:
    w, h, c, n = of("ne_input")
    s, r, inner, o = of("ne_kernel")
    if inner != c:
        raise NoCase("of groups of channels")
    return {"n": n, "c": c, "h": h, "w": w, "o": o, "r": r, "s": s}


def _strides(given: Mapping[str, str]) -> Mapping[str, Value]:
    """stride0 is along w, stride1 along h; of equal ones we name the first."""
    params: dict[str, Value] = {}
    for name in ("stride", "padding", "dilation"):
        across, down = (value_of(given[f"{name}{axis}"]) for axis in (0, 1))
        params |= {name: across} if across == down else {name: across, f"{name}_h": down}
    return params


def _attention(of: Numbers) -> Sizes:
    heads, batches = of("nr23")
    if batches != 1:
        raise NoCase("of several sequences")
    kv = of("nh")[0]
    sizes = {"s": 1, "h": kv * heads, "g": kv, "q": of("nb")[0], "n": of("kv")[0]}
    return {**sizes, "d": of("hsk")[0], "e": of("hsv")[0]}


def _in_rows(kernel: str, **more: tuple[str, ...]) -> _Row:
    return _Row(kernel=kernel, sizes=_bchw("ne"), named=("ne",), usual=more)


_STRIDES: Final = tuple(
    f"{name}{axis}" for name in ("stride", "padding", "dilation") for axis in (0, 1)
)
_ONES: Final = ("[1,1]", "[1,1,1,1]", "1")
_UNARY: Final = (
    *("abs", "neg", "step", "tanh", "elu", "relu", "sigmoid", "gelu", "gelu_quick", "silu"),
    *("hardswish", "hardsigmoid", "exp", "gelu_erf", "floor", "ceil", "trunc"),
)

ROWS: Final[Mapping[str, _Row]] = {
    **{
        name.upper(): _Row(kernel=name, sizes=_bchw("ne_a"), named=("ne_a",), usual={"v": ("0",)})
        for name in _UNARY
    },
    "ROUND": _Row(
        kernel="round",
        sizes=_bchw("ne_a"),
        named=("ne_a",),
        params=lambda given: {"ties": "away"},
        usual={"v": ("0",)},
    ),
    **{name.upper(): _in_rows(name) for name in ("sqr", "sqrt", "sin", "cos", "log")},
    **{
        name.upper(): _Row(
            kernel=name,
            sizes=_bchw("ne"),
            types={"a": "type", "b": "type"},
            named=("ne",),
            usual={"nr": _ONES, "nf": ("1",), "perm1": ("0",), "src_overlap": ("0",)},
        )
        for name in ("add", "sub", "mul", "div")
    },
    "MUL_MAT": _Row(
        kernel="mul_mat",
        sizes=_product,
        types={"weights": "type_a", "x": "type_b"},
        named=("m", "n", "k"),
        usual={"bs": _ONES, "nr": _ONES, "per": ("[0,1,2,3]",), "v": ("0",), "k_v": ("0",)}
        | {"o": ("1",)},
    ),
    "SOFT_MAX": _Row(
        kernel="softmax",
        sizes=_bchw("ne"),
        named=("ne", "scale"),
        params=lambda given: {"scale": value_of(given.get("scale", "1.0"))},
        usual={"mask": ("0",), "sinks": ("0",), "m_prec": ("f32", "f16"), "nr23": _ONES}
        | {"max_bias": ("0.000000", "0.0", "0"), "inplace": ("0",)},
    ),
    "RMS_NORM": _Row(
        kernel="rms_norm",
        sizes=_bchw("ne"),
        named=("ne", "eps"),
        params=lambda given: {"eps": value_of(given.get("eps", "1e-05"))},
        usual={"v": ("0",), "inplace": ("0",)},
    ),
    "ARGMAX": _in_rows("argmax"),
    "SUM_ROWS": _in_rows("sum", permute=("0",), slice=("0",)),
    "CUMSUM": _Row(kernel="cumsum", sizes=_rows, named=("ne",)),
    "ARGSORT": _Row(
        kernel="argsort",
        sizes=_rows,
        named=("ne", "order"),
        params=lambda given: {"order": _ORDERS[given.get("order", "0") == "1"]},
    ),
    "CONV_2D": _Row(
        kernel="conv2d",
        sizes=_convolution,
        types={"weights": "type_kernel"},
        named=("ne_input", "ne_kernel", *_STRIDES),
        params=_strides,
        usual={"cwhn": ("0",)},
    ),
    "FLASH_ATTN_EXT": _Row(
        kernel="flash_attn",
        sizes=_attention,
        types={"k": "type_K", "v": "type_V"},
        named=("hsk", "hsv", "nh", "nr23", "kv", "nb"),
        usual={"mask": ("0",), "sinks": ("0",), "max_bias": ("0.000000", "0")}
        | {"logit_softcap": ("0.000000", "0"), "prec": ("f32", "def"), "permute": ("[0,1,2,3]",)},
    ),
}


def ggml_timing(test: OpTest) -> PeerTiming:
    """What a test timed; NoCase if that is no case here."""
    try:
        posed = _pose_case(test)
    except NoCase as error:
        raise NoCase(f"of {test.op} {error}") from error
    return PeerTiming(
        case=posed.case.name,
        samples=[test.seconds],
        deviation=0.0,
        finished_at=test.finished_at,
        seconds=test.seconds * test.runs,
        origin=SAID,
        settings=test.settings,
        bytes_moved=posed.bytes_moved,
        flops=posed.flops,
    )


def _pose_case(test: OpTest) -> Problem:
    """The case that a test timed."""
    row = ROWS.get(test.op)
    if row is None:
        raise NoCase("at all")
    named = {*row.named, *row.types.values(), "type_KV"}
    for name, value in test.params.items():
        if name not in named and value not in row.usual.get(name, ()):
            raise NoCase(f"with {name}={value}")
    try:
        return _case(row, test.params)
    except (KeyError, ValueError, VkbenchError) as error:
        raise NoCase("of other sizes or formats") from error


def _case(row: _Row, given: Mapping[str, str]) -> Problem:
    def numbers(name: str) -> tuple[int, ...]:
        return tuple(int(number) for number in given[name].strip("[]").split(","))

    sizes = row.sizes(numbers)
    few = row.kernel == "mul_mat" and sizes["n"] <= _MOST_VECTORS
    kernel = kernel_named("mul_mat_vec" if few else row.kernel)
    types = {
        binding: given.get(name, given.get("type_KV", "f32")) for binding, name in row.types.items()
    }
    return posed_case(kernel.case(types, sizes, row.params(given)))
