"""Functions of one or two f64, element by element: paths of unary_64.slang and pairs_64.slang.

What compares, selects or rounds to integers works on bits and runs everywhere; what multiplies,
adds or takes a root needs a device with fp64. Exponentials, logarithms and angles, of which Vulkan
has none of f64, are the shader library's, within two units of the last place; the error of a power
grows with its exponent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np

from vkbench.case import Value
from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Layout, Problem, Push, Variant, grid
from vkbench_shaders.kernels.elementwise import broadcast
from vkbench_shaders.kernels.shared import places

BY_BITS = {"abs", "neg", "sign", "step", "relu", "floor", "ceil", "round", "trunc", "clamp"}
ROUNDED_ONCE = {"sqr", "leaky_relu"}  # one product, as every device rounds it
CURVES = {
    *("exp", "exp2", "expm1", "log", "log2", "sin", "cos", "tanh", "sigmoid", "softplus"),
    *("silu", "gelu", "gelu_quick", "gelu_erf", "elu"),
}
ROUNDED_OFTEN = {"sqrt", "hardsigmoid", "hardswish", "powf", "xielu"} | CURVES
ALL = BY_BITS | ROUNDED_ONCE | ROUNDED_OFTEN
_THREADS = 128
_STEPS = 4  # numbers a thread
# by the number of arrays, the names of what parameters a shader has room for
_PARAMETERS = {2: ("first", "second", "third", "fourth"), 3: ("first", "second")}


def bits_of(numbers: Mapping[str, float]) -> dict[str, tuple[int, ...]]:
    """Numbers as two words each, the lower one first."""
    return {
        name: tuple(int(word) for word in np.array([value], "<f8").view("<u4"))
        for name, value in numbers.items()
    }


def is_wide(types: Mapping[str, str]) -> bool:
    """Whether the arrays are of f64."""
    return "f64" in types.values()


def variant(
    struct: str, parameters: Callable[[Mapping[str, Value]], Sequence[float]], name: str = ""
) -> Variant:
    """The code path of an operation for f64; parameters are four at most."""

    def launch(problem: Problem, device: DeviceFacts) -> Launch:
        return over({name: problem.layout(name) for name in "xy"}, parameters(problem.params))

    return Variant(
        name="bits" if name in BY_BITS else "fp64",
        module="unary_64",
        launch=launch,
        arithmetic="f64" if name in ROUNDED_OFTEN else "exact",
        arguments=lambda types: (f"Curve<{struct}>" if name in CURVES else struct,),
        requires=() if name in BY_BITS else ("fp64",),
        accepts=is_wide,
    )


def variant_of_pairs(
    struct: str, entry: str, launch: Callable[[Problem, DeviceFacts], Launch]
) -> Variant:
    """The code path of a function of two f64."""
    return Variant(
        name="fp64",
        module="pairs_64",
        entry=entry,
        launch=launch,
        arithmetic="f64",
        arguments=lambda types: (struct,),
        requires=("fp64",),
        accepts=is_wide,
    )


def over(layouts: Mapping[str, Layout], parameters: Sequence[float]) -> Launch:
    """A launch over the elements of the last of these arrays, by the names that a shader has."""
    shape = [*layouts.values()][-1].shape
    groups = grid(-(-prod(shape) // (_THREADS * _STEPS)))
    names = _PARAMETERS[len(layouts)]
    numbers = dict.fromkeys(names, 0.0) | dict(zip(names, parameters, strict=False))
    push: Push = {
        "sizes": places.sizes(shape),
        **{name: broadcast.place(layout) for name, layout in layouts.items()},
        **bits_of(numbers),
        "groups_x": groups[0],
    }
    return Launch(groups=groups, push=push, constants={"THREADS": _THREADS})
