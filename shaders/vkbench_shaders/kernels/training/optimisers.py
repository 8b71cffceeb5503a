"""Steps of optimisers: parameters, and what is remembered of their gradients, one step later.

What a step changes comes out in arrays of its own (`next_x`, ...), not in place: a launch leaves
its input alone, so that it can be repeated and judged again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Case, Value
from vkbench.device import DeviceFacts
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Check,
    Forms,
    Kernel,
    Launch,
    Param,
    Problem,
    Work,
    grid,
)
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants

THREADS = 128
_EACH = 8  # parameters a thread

_FORMATS = ("f32", "bf16")  # of parameters and gradients; the state is f32
_RANGES = {"x": (-1.0, 1.0), "g": (-1.0, 1.0), "m": (-0.1, 0.1), "v": (0.0, 0.01)}
_SIZES = (0, 1, 3, 4, 5, 511, 1023, 1024, 1025, 3001, 65537)
_TIMED = (600, 1 << 20, 1 << 24)


def number(problem: Problem, name: str) -> float:
    """A parameter's value; 0 where the kernel has none of that name."""
    return float(problem.params.get(name, 0.0))


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    """Constants are worked out here in float64, as ggml's host does."""
    n, rate, decay = problem.shape["n"], number(problem, "rate"), number(problem, "decay")
    beta1, beta2 = number(problem, "beta1"), number(problem, "beta2")
    apart = problem.kernel.name != "adam"
    step = int(problem.params.get("step", 1))
    groups = grid(-(-n // (THREADS * _EACH)))
    push = {
        "count": n,
        "groups_x": groups[0],
        "rate": rate,
        "kept": 1 - rate * decay if apart else 1.0,
        "decay": 0.0 if apart else decay,
        "beta1": beta1,
        "beta2": beta2,
        "epsilon": number(problem, "epsilon"),
        "rest1": 1 - beta1,
        "rest2": 1 - beta2,
        "raise1": 1 / (1 - beta1**step),
        "raise2": 1 / (1 - beta2**step),
    }
    return Launch(groups=groups if n else (0, 1, 1), push=push, constants={"THREADS": THREADS})


def inputs(problem: Problem) -> dict[str, Array]:
    made: dict[str, Array] = {}
    for name in (b.name for b in problem.kernel.bindings if b.is_input):
        if problem.params["values"] == "special" and name in "xg":
            made[name] = data.values(problem, name)
        else:
            made[name] = data.uniform(problem, name, *_RANGES[name])
    return made


def read_numbers(problem: Problem, inputs: Arrays, name: str) -> NDArray[np.float64]:
    """An input's numbers, whatever its format."""
    return np.asarray(quants.dequantise(problem.types[name], inputs[name]))


def sgd_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x, g = (read_numbers(problem, inputs, name) for name in "xg")
    rate, decay = number(problem, "rate"), number(problem, "decay")
    with np.errstate(invalid="ignore"):
        return {"next_x": x * (1 - rate * decay) - rate * g}


def adam_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    """Decay as a part of the gradient (adam), or of the parameter by itself (adamw)."""
    x, g, m, v = (read_numbers(problem, inputs, name) for name in "xgmv")
    rate, decay, epsilon = (number(problem, name) for name in ("rate", "decay", "epsilon"))
    with np.errstate(invalid="ignore"):
        if problem.kernel.name == "adam":
            g = g + decay * x if decay else g
        else:
            x = x * (1 - rate * decay)
        m, raised_m = _mean(problem, "beta1", m, g)
        v, raised_v = _mean(problem, "beta2", v, g * g)
        x = x - rate * raised_m / (np.sqrt(raised_v) + epsilon)
    return {"next_x": x, "next_m": m, "next_v": v}


def _mean(
    problem: Problem, beta: str, old: NDArray[np.float64], new: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A running mean that began with 0, and what it would be had it not."""
    part = number(problem, beta)
    mean = part * old + (1 - part) * new
    return mean, mean / (1 - part ** int(problem.params["step"]))


_CONTENTS = {
    "x": "parameters",
    "g": "their gradients",
    "m": "running mean of gradients",
    "v": "running mean of squared gradients",
}


def bindings(state: str, dims: tuple[str, ...] = ("n",)) -> tuple[Binding, ...]:
    """Inputs: x, g and the state; outputs: the next x and state."""
    return (
        *(declare_input(name, _FORMATS, dims, _CONTENTS[name]) for name in "xg"),
        *(declare_input(name, ("f32",), dims, _CONTENTS[name]) for name in state),
        declare_output("next_x", _FORMATS, dims, f"{_CONTENTS['x']}, a step later", same_as="x"),
        *(
            declare_output(f"next_{name}", ("f32",), dims, f"{_CONTENTS[name]}, a step later")
            for name in state
        ),
    )


def accepts(types: Mapping[str, str]) -> bool:
    """Whether gradients have the parameters' format, or f32."""
    return types["g"] in ("f32", types["x"])


RATE = Param(default=0.001, description="learning rate")
DECAY = Param(default=0.0, description="part of x that goes besides, a step and rate")

_ADAM = {
    "rate": RATE,
    "beta1": Param(default=0.9, description="part of m that stays"),
    "beta2": Param(default=0.999, description="part of v that stays"),
    "epsilon": Param(default=1e-8, description="what is added to the root of v"),
    "decay": DECAY,
    "step": Param(default=1, least=1, description="number of this step, for the moments' bias"),
    "values": data.VALUES,
}


def _cases(name: str, changed: Mapping[str, Value]) -> tuple[Case, ...]:
    def case(n: int, params: Mapping[str, Value], fmt: str = "f32", **types: str) -> Case:
        return Case(kernel=name, format=fmt, shape={"n": n}, types=types, params=params)

    return (
        *(case(n, {}) for n in _SIZES),
        *(case(n, changed) for n in (600, 2049)),
        case(1000, {"values": "special"}),
        case(1000, {**changed, "values": "special"}),
        case(1027, changed, "bf16"),  # of such steps something is left in 8 bits
        case(2049, changed, "bf16", g="bf16"),
        case(1000, {**changed, "values": "special"}, "bf16", g="bf16"),
    )


def _kernel(
    name: str, description: str, params: Mapping[str, Param], changed: Mapping[str, Value]
) -> Kernel:
    is_sgd = name == "sgd"
    return Kernel(
        name=name,
        description=description,
        group="optimiser",
        dims=("n",),
        bindings=bindings("" if is_sgd else "mv"),
        params=params,
        forms=Forms(accepts=accepts, empty=("n",)),
        variants=(
            portable(
                "optimisers",
                launch,
                "f32",
                entry="sgd" if is_sgd else "adam",
                arguments=lambda types: (types["x"], types["g"]),
            ),
        ),
        inputs=inputs,
        check=Check(reference=sgd_reference if is_sgd else adam_reference),
        work=Work(flops=lambda problem: problem.shape["n"] * (3 if is_sgd else 16)),
        cases=CaseList(lambda: _cases(name, changed)),
        timed=CaseList(lambda: (Case(kernel=name, format="f32", shape={"n": n}) for n in _TIMED)),
    )


OPTIMISERS = (
    _kernel(
        "sgd",
        "A step of gradient descent with decay: x' = x (1 - rate decay) - rate g.",
        {"rate": RATE, "decay": DECAY, "values": data.VALUES},
        {"rate": 0.1, "decay": 0.5},
    ),
    _kernel(
        "adam",
        "A step of Adam; decay, if any, is added to the gradient.",
        _ADAM,
        {"rate": 0.1, "beta1": 0.8, "beta2": 0.99, "epsilon": 0.01, "decay": 0.1, "step": 7},
    ),
    _kernel(
        "adamw",
        "A step of AdamW: Adam whose decay takes from x itself.",
        {**_ADAM, "decay": Param(default=0.01, description=DECAY.description)},
        {"rate": 0.1, "beta1": 0.8, "beta2": 0.99, "epsilon": 0.01, "decay": 0.1, "step": 7},
    ),
)
