"""random: numbers from a counter-based generator whose state stays on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vkbench.case import Case, Value
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import noise, philox
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Shapes,
    Work,
    grid,
)
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.quantisers import quants

THREADS = 128
WORKGROUP_BYTES = THREADS * 64
_CARRY = 100  # numbers before the counter's two lower words begin anew: in the middle of cases


def layout(problem: Problem, binding: str) -> Layout:
    """A state has so many words, however many numbers are made."""
    return Layout.contiguous((problem.shape["n"] if binding == "y" else philox.STATE,))


def span(problem: Problem) -> tuple[float, float, float]:
    """Least, scale and most, as singles: y = min(least + scale * number, most)."""
    fmt, first, second = problem.types["y"], *(float(v) for v in problem.params.values())
    if problem.kernel.name == "rand_normal":
        return first, second, float("inf")
    low, high = (quants.quantise(fmt, np.array([bound]))[0] for bound in (first, second))
    most = np.nextafter(high, np.array(-np.inf, high.dtype))
    return float(low), float(np.float32(high) - np.float32(low)), float(most)


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    least, scale, most = span(problem)
    if not 2.0**-64 <= scale <= 2.0**64:
        what = ", ".join(f"{name} {value}" for name, value in problem.params.items())
        raise UsageError(f"{problem.kernel.name} spreads numbers over 2^-64 to 2^64; got {what}")
    count = problem.shape["n"]
    groups = grid(max(1, -(-count * problem.item_bytes("y") // WORKGROUP_BYTES)))
    push = {
        "count": count,
        "groups_x": groups[0],
        "least": least,
        "scale": scale,
        "most": most,
    }
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def inputs(problem: Problem) -> dict[str, Array]:
    """A key of any bits, and a counter that carries over two words."""
    words = noise.raw(problem.seed("state"), 4 * philox.STATE).view("<u4").copy()
    words[2:4] = 2**32 - 1 - min(_CARRY, problem.shape["n"]) // 8, 2**32 - 1
    return {"state": words}


def reference(
    distribution: Callable[[philox.Words], philox.Floats],
) -> Callable[[Problem, Arrays, Array | None], dict[str, Array]]:
    """The random numbers as numpy makes them, which are compared bit for bit."""

    def make_numbers(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        count, state = -(-problem.shape["n"] // 4), inputs["state"]
        least, scale, most = (np.float32(value) for value in span(problem))
        numbers = distribution(philox.blocks(state, count)).reshape(-1)[: problem.shape["n"]]
        numbers = np.minimum(numbers * scale + least, most)
        return {
            "y": quants.quantise(problem.types["y"], numbers),
            "advanced": philox.advance_counter(state, count),
        }

    return make_numbers


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    raise UsageError("a state does not say how many numbers are wanted: give the shape, n=..")


_SIZES = (0, 1, 2, 3, 4, 5, 7, 127, 511, 2048, 2049, 4096, 4099, 65537)


def _cases(name: str, first: tuple[str, float], second: tuple[str, float]) -> tuple[Case, ...]:
    changed: Mapping[str, Value] = dict((first, second))
    return (
        *(Case(kernel=name, format=fmt, shape={"n": n}) for fmt in ("f32", "f16") for n in _SIZES),
        *(
            Case(kernel=name, format=fmt, shape={"n": 1001}, params=changed)
            for fmt in ("f32", "f16")
        ),
    )


def _kernel(
    name: str,
    description: str,
    distribution: Callable[[philox.Words], philox.Floats],
    params: Mapping[str, Param],
    changed: tuple[tuple[str, float], tuple[str, float]],
) -> Kernel:
    return Kernel(
        name=name,
        description=description,
        group="random",
        dims=("n",),
        bindings=(
            declare_output("y", ("f32", "f16"), ("n",), "the numbers"),
            declare_input(
                "state",
                ("u32",),
                ("n",),
                "Philox's key in 2 words and its counter in 4, the lowest first",
            ),
            declare_output(
                "advanced",
                ("u32",),
                ("n",),
                "the state for the numbers behind these: the counter goes on by n/4",
            ),
        ),
        params=params,
        forms=Forms(layout=layout, empty=("n",), infer=infer),
        variants=(
            portable(
                "random",
                launch,
                "exact",
                arguments=lambda types: (name.removeprefix("rand_"), types["y"]),
            ),
        ),
        inputs=inputs,
        check=Check(reference=reference(distribution)),
        work=Work(flops=lambda problem: 0),
        cases=CaseList(lambda: _cases(name, *changed)),
        timed=CaseList(
            lambda: (
                Case(kernel=name, format=fmt, shape={"n": n})
                for fmt in ("f32", "f16")
                for n in (1 << 20, 1 << 24)
            )
        ),
    )


RANDOM = (
    _kernel(
        "rand_uniform",
        "Random numbers that are evenly spread from low to high, high left out; 24 bits of each.",
        philox.uniform,
        {
            "low": Param(default=0.0, description="least number, as a number of y's format"),
            "high": Param(default=1.0, description="bound that all numbers stay below, likewise"),
        },
        (("low", -2.5), ("high", 3.25)),
    ),
    _kernel(
        "rand_normal",
        "Normally distributed random numbers, by Box and Muller's method.",
        philox.normal,
        {
            "mean": Param(default=0.0, description="mean"),
            "deviation": Param(default=1.0, description="standard deviation"),
        },
        (("mean", -3.0), ("deviation", 0.7)),
    ),
)
