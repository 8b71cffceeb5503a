"""random: numbers from a counter-based generator whose state stays on the device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
    Variant,
    Work,
    grid,
)
from vkbench_shaders.kernels.elementwise import doubles
from vkbench_shaders.quantisers import quants

THREADS = 128
WORKGROUP_BYTES = THREADS * 64
_CARRY = 100  # numbers before the counter's two lower words begin anew: in the middle of cases


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """How random words become numbers, as the shaders call it and as numpy does it."""

    name: str
    of_singles: Callable[[philox.Words], philox.Floats]
    of_f64: Callable[[philox.Words], NDArray[np.float64]]


def layout(problem: Problem, binding: str) -> Layout:
    """A state has so many words, however many numbers are made."""
    return Layout.contiguous((problem.shape["n"] if binding == "y" else philox.STATE,))


def span(problem: Problem) -> tuple[float, float, float]:
    """Least, scale and most, as singles but for f64: y = min(least + scale * number, most)."""
    fmt, first, second = problem.types["y"], *(float(v) for v in problem.params.values())
    if problem.kernel.name == "rand_normal":
        return first, second, float("inf")
    stored = quants.quantise(fmt, np.array([first, second]))
    low, high = quants.dequantise(fmt, stored)
    (most,) = quants.dequantise(fmt, number_below(fmt, stored[1:]))
    scale = high - low if fmt == "f64" else np.float32(high) - np.float32(low)
    return float(low), float(scale), float(most)


def number_below(fmt: str, stored: Array) -> Array:
    """The next number below one of a format, as it is stored."""
    if fmt != "bf16":
        return np.asarray(np.nextafter(stored, np.array(-np.inf, stored.dtype)))
    (bits,) = (int(word) for word in stored)
    magnitude = bits & 0x7FFF
    below = 0x8001 if magnitude == 0 else bits - 1 if bits == magnitude else bits + 1
    return np.array([below], np.uint16)


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    least, scale, most = span(problem)
    if not 2.0**-64 <= scale <= 2.0**64:
        what = ", ".join(f"{name} {value}" for name, value in problem.params.items())
        raise UsageError(f"{problem.kernel.name} spreads numbers over 2^-64 to 2^64; got {what}")
    count = problem.shape["n"]
    groups = grid(max(1, -(-count * problem.item_bytes("y") // WORKGROUP_BYTES)))
    bounds = {"least": least, "scale": scale, "most": most}
    if problem.types["y"] == "f64":
        return Launch(
            groups=groups,
            push={"count": count, "groups_x": groups[0], **doubles.bits_of(bounds)},
            constants={"THREADS": THREADS},
        )
    push = {"count": count, "groups_x": groups[0], **bounds}
    return Launch(groups=groups, push=push, constants={"THREADS": THREADS})


def inputs(problem: Problem) -> dict[str, Array]:
    """A key of any bits, and a counter that carries over two words."""
    words = noise.raw(problem.seed("state"), 4 * philox.STATE).view("<u4").copy()
    words[2:4] = 2**32 - 1 - min(_CARRY, problem.shape["n"]) // 8, 2**32 - 1
    return {"state": words}


def reference(
    distribution: Distribution,
) -> Callable[[Problem, Arrays, Array | None], dict[str, Array]]:
    """The random numbers as numpy makes them."""

    def make_numbers(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
        n, state, is_wide = problem.shape["n"], inputs["state"], problem.types["y"] == "f64"
        count = -(-n // (2 if is_wide else 4))
        make = distribution.of_f64 if is_wide else distribution.of_singles
        numbers: Array = make(philox.blocks(state, count)).reshape(-1)[:n]
        least, scale, most = (numbers.dtype.type(value) for value in span(problem))
        numbers = np.minimum(numbers * scale + least, most)
        return {
            "y": quants.quantise(problem.types["y"], numbers),
            "advanced": philox.advance_counter(state, count),
        }

    return make_numbers


def infer(shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    raise UsageError("a state does not say how many numbers are wanted: give the shape, n=..")


_SIZES = (0, 1, 2, 3, 4, 5, 7, 127, 511, 2048, 2049, 4096, 4099, 65537)
_FEW_SIZES = (5, 2049)


def _cases(name: str, formats: tuple[str, ...], changed: Mapping[str, Value]) -> tuple[Case, ...]:
    """All sizes of f32 and f16, few of other formats."""
    return (
        *(Case(kernel=name, format=fmt, shape={"n": n}) for fmt in ("f32", "f16") for n in _SIZES),
        *(Case(kernel=name, format=fmt, shape={"n": n}) for fmt in formats[2:] for n in _FEW_SIZES),
        *(Case(kernel=name, format=fmt, shape={"n": 1001}, params=changed) for fmt in formats),
    )


def _variant_of_f64(distribution: Distribution) -> Variant:
    """The code path that makes f64: uniform numbers to the bit, others within last places."""
    return Variant(
        name="fp64",
        module="random_f64",
        launch=launch,
        arithmetic="exact" if distribution.name == "uniform" else "f64",
        arguments=lambda types: (distribution.name,),
        requires=("fp64",),
        accepts=lambda types: types["y"] == "f64",
    )


def _kernel(
    name: str,
    description: str,
    distribution: Distribution,
    params: Mapping[str, Param],
    changed: Mapping[str, Value],
) -> Kernel:
    formats = ("f32", "f16", "bf16", "f64")
    return Kernel(
        name=name,
        description=description,
        group="random",
        dims=("n",),
        bindings=(
            declare_output("y", formats, ("n",), "the numbers"),
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
                "the state for the numbers behind these: the counter goes on by n/4, or n/2 of f64",
                exact=True,
            ),
        ),
        params=params,
        forms=Forms(layout=layout, empty=("n",), infer=infer),
        variants=(
            Variant(
                name="portable",
                module="random",
                launch=launch,
                arithmetic="exact",
                arguments=lambda types: (distribution.name, types["y"]),
                accepts=lambda types: types["y"] != "f64",
            ),
            _variant_of_f64(distribution),
        ),
        inputs=inputs,
        check=Check(reference=reference(distribution)),
        work=Work(flops=lambda problem: 0),
        cases=CaseList(lambda: _cases(name, formats, changed)),
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
        "Random numbers that are evenly spread from low to high, high left out; 24 bits of each, of"
        " f64 53.",
        Distribution(name="uniform", of_singles=philox.uniform, of_f64=philox.uniform_f64),
        {
            "low": Param(default=0.0, description="least number, as a number of y's format"),
            "high": Param(default=1.0, description="bound that all numbers stay below, likewise"),
        },
        {"low": -2.5, "high": 3.25},
    ),
    _kernel(
        "rand_normal",
        "Normally distributed random numbers, by Box and Muller's method, whose"
        " functions are of singles, or of f64.",
        Distribution(name="normal", of_singles=philox.normal, of_f64=philox.normal_f64),
        {
            "mean": Param(default=0.0, description="mean"),
            "deviation": Param(default=1.0, description="standard deviation"),
        },
        {"mean": -3.0, "deviation": 0.7},
    ),
)
