"""Gated linear units: what each makes of gates and of the numbers that they let pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vkbench.case import Value
from vkbench_shaders.kernel import Array, Param, Problem
from vkbench_shaders.kernels.shared import activations


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A gated linear unit."""

    name: str
    description: str
    function: Callable[..., Array]  # of float64 gates, what passes them, parameters in order
    params: Mapping[str, Param] = field(default_factory=dict)
    others: tuple[Mapping[str, Value], ...] = ()  # parameters that cases have beside the defaults

    def struct(self, fmt: str) -> str:
        """Its struct in glu.slang: GegluErf of geglu_erf, and what suffices for halves."""
        name = self.name.title().replace("_", "")
        return f"OfHalves<{name}>" if fmt == "f16" else name


def swiglu_oai(a: Array, b: Array, alpha: float, limit: float) -> Array:
    a, b = np.minimum(a, limit), np.clip(b, -limit, limit)
    gated = np.where(np.isneginf(a), 0.0, a) * activations.sigmoid(alpha * a)
    return np.asarray(gated * (b + 1))


GATES = (
    Gate(
        name="reglu",
        description="y = relu(a) * b",
        function=lambda a, b: activations.relu(a) * b,
    ),
    Gate(
        name="geglu",
        description="y = gelu(a) * b, gelu by tanh",
        function=lambda a, b: activations.gelu(a) * b,
    ),
    Gate(
        name="swiglu",
        description="y = silu(a) * b",
        function=lambda a, b: activations.silu(a) * b,
    ),
    Gate(
        name="geglu_erf",
        description="y = gelu(a) * b, gelu by erf",
        function=lambda a, b: activations.gelu_erf(a) * b,
    ),
    Gate(
        name="geglu_quick",
        description="y = gelu_quick(a) * b",
        function=lambda a, b: activations.gelu_quick(a) * b,
    ),
    Gate(
        name="swiglu_oai",
        description=(
            "y = g * sigmoid(alpha g) * (p + 1), g = a up to limit, p = b within limit of 0"
        ),
        function=swiglu_oai,
        params={
            "alpha": Param(default=1.702, description="steepness of the gate"),
            "limit": Param(default=7.0, description="largest magnitude of b, and largest a"),
        },
        others=({"alpha": 1.0, "limit": 5.5},),
    ),
)

# What is one launch in models and no unit of theirs: two arrays alone have these.
PRODUCTS = (
    Gate(
        name="sigmoid_mul",
        description="y = sigmoid(a) * b",
        function=lambda a, b: activations.sigmoid(a) * b,
    ),
    Gate(
        name="softplus_mul",
        description="y = log(1 + e^a) * b",
        function=lambda a, b: activations.softplus(a) * b,
    ),
)


def values(gate: Gate, problem: Problem) -> list[float]:
    """A gate's parameters as singles, or as they are where the numbers are f64."""
    given = [float(problem.params[name]) for name in gate.params]
    return given if problem.types["y"] == "f64" else [float(np.float32(one)) for one in given]
