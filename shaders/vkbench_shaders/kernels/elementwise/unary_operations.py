"""The functions of one number: a row each, beside a struct of the shader's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log1p

import numpy as np

from vkbench.case import Value
from vkbench_shaders.kernel import Array, Param
from vkbench_shaders.kernels.shared import activations

Spans = Mapping[str, tuple[float, float]]

_WIDE: Spans = {"": (-150.0, 150.0)}
_MULTIPLIED = range(1, 9)  # exponents of which products are made
_POSITIVE: Spans = {"": (2.0**-10, 150.0)}


@dataclass(frozen=True, kw_only=True)
class UnaryOperation:
    """One function of each element of x."""

    name: str
    description: str
    function: Callable[..., Array]  # of float64 values, and of its parameters in order
    path: str = "f32_each"
    spans: Spans = field(default_factory=lambda: _WIDE)  # format ("": others) -> where inputs lie
    params: Mapping[str, Param] = field(default_factory=dict)
    pushed: Callable[..., Sequence[float]] = lambda *values: values  # what a shader gets of these
    # specialisation constants beside those of all element-wise launches
    constants: Callable[..., Mapping[str, int]] = lambda *values: {}
    others: tuple[Mapping[str, Value], ...] = ()  # parameters that cases have beside the defaults

    def struct(self, fmt: str) -> str:
        """Its struct in unary_operations.slang: leaky_relu's is LeakyRelu."""
        name = self.name.title().replace("_", "")
        return f"OfHalves<{name}>" if fmt == "f16" else name

    @property
    def measures(self) -> tuple[str, ...]:
        """Those of its parameters that are numbers, and no choices."""
        return tuple(name for name, param in self.params.items() if not param.choices)

    def numbers(self, params: Mapping[str, Value]) -> list[float]:
        """The values of its parameters; of one that is a choice, which choice it is."""
        return [
            float(param.choices.index(value) if param.choices else value)
            for name, param in self.params.items()
            for value in (params[name],)
        ]

    def range(self, fmt: str) -> tuple[float, float]:
        """Where the inputs of a format lie."""
        return self.spans.get(fmt) or self.spans[""]


def _param(default: float, description: str) -> Param:
    return Param(default=default, description=description)


def _exact(name: str, description: str, function: Callable[[Array], Array]) -> UnaryOperation:
    return UnaryOperation(name=name, description=description, function=function, path="exact")


OPERATIONS = (
    _exact("abs", "y = |x|.", np.abs),
    _exact("neg", "y = -x.", np.negative),
    _exact(
        "sign", "y = 1, -1, or x itself where it is 0 or NaN.", lambda x: np.where(x, np.sign(x), x)
    ),
    _exact("step", "y = 1 where x > 0, else 0.", lambda x: np.where(x > 0, 1.0, 0.0)),
    _exact("relu", "y = max(x, 0).", activations.relu),
    _exact("floor", "y = the integer at or below x.", np.floor),
    _exact("ceil", "y = the integer at or above x.", np.ceil),
    UnaryOperation(
        name="round",
        description="y = the integer nearest to x; of two, the even one or the one away from 0.",
        function=activations.round_halves,
        path="exact",
        params={
            "ties": Param(
                default="even", choices=("even", "away"), description="where halves are rounded to"
            )
        },
        others=({"ties": "away"},),
    ),
    _exact("trunc", "y = x without its fraction.", np.trunc),
    UnaryOperation(
        name="clamp",
        description="y = x, but at least low and at most high; NaN stays.",
        function=activations.clamp,
        path="exact",
        params={"low": _param(-0.5, "least result"), "high": _param(0.5, "largest result")},
        others=({"low": 0.0, "high": 6.0},),
    ),
    UnaryOperation(name="sqr", description="y = x^2.", function=np.square),
    UnaryOperation(
        name="sqrt", description="y = the square root of x.", function=np.sqrt, spans=_POSITIVE
    ),
    UnaryOperation(
        name="exp",
        description="y = e^x.",
        function=np.exp,
        spans={"f16": (-10.0, 10.0), "": (-80.0, 80.0)},
    ),
    UnaryOperation(
        name="exp2",
        description="y = 2^x.",
        function=np.exp2,
        spans={"f16": (-14.0, 14.0), "": (-120.0, 120.0)},
    ),
    UnaryOperation(
        name="expm1",
        description="y = e^x - 1, with all digits near 0.",
        function=np.expm1,
        spans={"f16": (-10.0, 10.0), "": (-20.0, 80.0)},
    ),
    UnaryOperation(
        name="log", description="y = the natural logarithm of x.", function=np.log, spans=_POSITIVE
    ),
    UnaryOperation(
        name="log2", description="y = the binary logarithm of x.", function=np.log2, spans=_POSITIVE
    ),
    UnaryOperation(name="sin", description="y = sin(x), x in radians.", function=np.sin),
    UnaryOperation(name="cos", description="y = cos(x), x in radians.", function=np.cos),
    UnaryOperation(
        name="tanh", description="y = tanh(x).", function=np.tanh, spans={"": (-10.0, 10.0)}
    ),
    UnaryOperation(name="sigmoid", description="y = 1 / (1 + e^-x).", function=activations.sigmoid),
    UnaryOperation(name="softplus", description="y = log(1 + e^x).", function=activations.softplus),
    UnaryOperation(
        name="powf",
        description="y = x^exponent.",
        function=np.power,
        spans={"f16": (-30.0, 30.0), "": (-150.0, 150.0)},
        params={"exponent": _param(3.0, "what x is raised to")},
        constants=lambda exponent: {"MULTIPLIED": int(exponent) if exponent in _MULTIPLIED else 0},
        others=tuple({"exponent": y} for y in (2.5, -1.5, 0.0, 1.0, 2.0, 7.0)),
    ),
    UnaryOperation(
        name="leaky_relu",
        description="y = x where x > 0, else slope * x.",
        function=lambda x, slope: np.where(x > 0, x, slope * x),
        params={"slope": _param(0.1, "factor of what is negative")},
    ),
    UnaryOperation(name="silu", description="y = x * sigmoid(x).", function=activations.silu),
    UnaryOperation(
        name="gelu",
        description="y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).",
        function=activations.gelu,
    ),
    UnaryOperation(
        name="gelu_quick",
        description="y = x * sigmoid(1.702 x).",
        function=activations.gelu_quick,
    ),
    UnaryOperation(
        name="gelu_erf",
        description="y = x / 2 * (1 + erf(x / sqrt(2))).",
        function=activations.gelu_erf,
    ),
    UnaryOperation(
        name="elu",
        description="y = x where x > 0, else alpha * (e^x - 1).",
        function=activations.elu,
        params={"alpha": _param(1.0, "what large negative numbers become, negated")},
        others=({"alpha": 0.5},),
    ),
    UnaryOperation(
        name="hardsigmoid",
        description="y = (x + 3) / 6, at least 0 and at most 1.",
        function=activations.hardsigmoid,
    ),
    UnaryOperation(
        name="hardswish",
        description="y = x * hardsigmoid(x).",
        function=activations.hardswish,
    ),
    UnaryOperation(
        name="xielu",
        description=(
            "y = softplus(alpha_p) x^2 + beta x where x > 0, else "
            "(beta + softplus(alpha_n)) * (e^min(x, eps) - 1 - x) + beta x."
        ),
        function=activations.xielu,
        path="f32",
        spans={"f16": (-50.0, 50.0), "": (-150.0, 150.0)},
        params={
            "alpha_n": _param(4.0, "of negative numbers, before softplus"),
            "alpha_p": _param(20.0, "of positive numbers, before softplus"),
            "beta": _param(0.5, "slope at 0"),
            "eps": _param(1e-6, "largest exponent"),
        },
        pushed=lambda alpha_n, alpha_p, beta, eps: (
            beta + log1p(exp(alpha_n)),
            log1p(exp(alpha_p)),
            beta,
            eps,
        ),
        others=({"alpha_n": 0.8, "alpha_p": 0.8, "eps": -0.001},),
    ),
)
