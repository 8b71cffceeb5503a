"""The functions of singles against longer arithmetic, on both CPU drivers: errors in units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import erf, erfc, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray

from planted_probe import compiled, probed
from vkbench_worker.runtime.vulkan.device import VulkanDevice

Long = NDArray[np.longdouble]
Singles = NDArray[np.float32]
Make = Callable[[np.random.Generator, int], Singles]

PI = np.arccos(np.longdouble(-1))
CUBIC = np.longdouble("0.044715")
COUNT = 3 << 14  # numbers a function is tried with
SPECIAL = np.array(
    (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1.0, -1.0, 2.0, -2.0, 0.5, 3e38, -3e38),
    np.float32,
)


def spread(low: float, high: float) -> Make:
    return lambda random, size: random.uniform(low, high, size).astype(np.float32)


def any_single(random: np.random.Generator, size: int) -> Singles:
    return random.integers(0, 1 << 32, size, np.uint32).view(np.float32)


def around(point: float) -> Make:
    """Numbers beside a point, as near to it as singles are."""

    def made(random: np.random.Generator, size: int) -> Singles:
        distance = random.standard_normal(size) * np.exp(random.uniform(-16, 0, size))
        return (point + distance).astype(np.float32)

    return made


def near_quarters(random: np.random.Generator, size: int) -> Singles:
    """The singles nearest to multiples of pi / 2, up to 10^5."""
    return (random.integers(-63000, 63000, size) * (np.pi / 2)).astype(np.float32)


def halves(random: np.random.Generator, size: int) -> Singles:
    """Multiples of 1 / 2."""
    return (random.integers(-9, 9, size) / 2).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Function:
    """One function: what it is in longer arithmetic, where it is tried, and how far it may be."""

    call: str  # of a and b
    wanted: Callable[..., Long]
    inputs: tuple[Make, ...]
    others: tuple[Make, ...] = ()  # the same of b, if it is a function of two numbers
    units: float = 4.0


def each(function: Callable[[float], float]) -> Callable[[Long], Long]:
    return lambda x: np.array([function(float(value)) for value in x], np.longdouble)


FUNCTIONS = (
    Function(call="exp_of(a)", wanted=np.exp, inputs=(spread(-110, 95), any_single)),
    Function(call="exp2_of(a)", wanted=np.exp2, inputs=(spread(-155, 132), any_single)),
    Function(call="expm1_of(a)", wanted=np.expm1, inputs=(spread(-20, 95), around(0), any_single)),
    Function(call="log_of(a)", wanted=np.log, inputs=(around(1), any_single)),
    Function(call="log2_of(a)", wanted=np.log2, inputs=(around(1), any_single)),
    Function(call="log1p_of(a)", wanted=np.log1p, inputs=(around(0), spread(-1, 2), any_single)),
    Function(call="sqrt_of(a)", wanted=np.sqrt, inputs=(spread(0, 4), any_single), units=0.501),
    Function(
        call="rsqrt_of(a)",
        wanted=lambda x: 1 / np.sqrt(x),
        inputs=(spread(0, 4), any_single),
        units=1,
    ),
    Function(
        call="sigmoid_of(a)",
        wanted=lambda x: 1 / (1 + np.exp(-x)),
        inputs=(spread(-110, 95), around(0)),
    ),
    Function(call="tanh_of(a)", wanted=np.tanh, inputs=(spread(-11, 11), around(0), any_single)),
    Function(
        call="softplus_of(a)",
        wanted=lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
        inputs=(spread(-110, 95), around(0)),
    ),
    Function(
        call="sin_of(a)",
        wanted=np.sin,
        inputs=(spread(-1e5, 1e5), near_quarters, spread(-1e9, 1e9)),
    ),
    Function(call="cos_of(a)", wanted=np.cos, inputs=(spread(-1e5, 1e5), near_quarters, around(0))),
    Function(call="erf_of(a)", wanted=each(erf), inputs=(spread(-5, 5), around(0))),
    Function(
        call="gated_by_erf(passable(a), a)",
        wanted=lambda x: np.maximum(x, -99) / 2 * each(lambda value: erfc(-value / sqrt(2)))(x),
        inputs=(spread(-13, 9), around(0)),
        units=10,
    ),
    Function(
        call="gated_by_cubic(passable(a), a)",
        wanted=lambda x: (
            np.maximum(x, -99) / (1 + np.exp(-2 * np.sqrt(2 / PI) * (x + CUBIC * x**3)))
        ),
        inputs=(spread(-13, 9), around(0)),
        units=10,
    ),
    Function(
        call="ratio_of(a, b)",
        wanted=np.divide,
        inputs=(any_single, spread(-9, 9)),
        others=(any_single, spread(-9, 9)),
        units=0.501,
    ),
    Function(
        call="pow_of(a, b)",
        wanted=np.power,
        inputs=(spread(0, 9), around(1), any_single),
        others=(spread(-40, 40), spread(-400, 400), halves),
        units=10,
    ),
)
SOURCE = f"""
import lib.functions;
[[vk::binding(0)]] StructuredBuffer<uint> x;
[[vk::binding(1)]] RWStructuredBuffer<uint> y;

float one_of(uint place, float a, float b)
{{
    switch (place)
    {{
    {" ".join(f"case {n}: return {function.call};" for n, function in enumerate(FUNCTIONS))}
    }}
    return 0;
}}

[shader("compute")]
[numthreads(64, 1, 1)]
void probe(uint3 thread : SV_DispatchThreadID)
{{
    uint i = thread.x + thread.y * {COUNT};
    y[i] = asuint(one_of(thread.y, asfloat(x[2 * i]), asfloat(x[2 * i + 1])));
}}
"""


def made(makes: tuple[Make, ...], special: Singles, random: np.random.Generator) -> Singles:
    numbers = np.concatenate([make(random, COUNT // len(makes)) for make in makes])
    numbers[: special.size] = special
    return numbers


def arguments() -> Singles:
    """Of each function numbers of all kinds, every special one with every other among them."""
    random = np.random.Generator(np.random.Philox(key=11))
    first, second = np.repeat(SPECIAL, SPECIAL.size), np.tile(SPECIAL, SPECIAL.size)
    pairs = [
        np.stack(
            (
                made(function.inputs, first, random),
                made(function.others or (halves,), second, random),
            ),
            axis=-1,
        )
        for function in FUNCTIONS
    ]
    return np.stack(pairs)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled(SOURCE, tmp_path_factory.mktemp("slang"))


def computed(device: VulkanDevice, code: bytes) -> Singles:
    given = arguments().view(np.uint32).reshape(-1)
    groups = (COUNT // 64, len(FUNCTIONS), 1)
    found = probed(device, code, given, given.size // 2, groups)
    return found.view(np.float32).reshape(len(FUNCTIONS), COUNT)


def worst(function: Function, given: Singles, found: Singles) -> tuple[float, str]:
    """The largest error in units of the last place, and where it is; 2^-126 may be 0 anywhere."""
    with np.errstate(all="ignore"):
        numbers = given.astype(np.longdouble).T[: 2 if function.others else 1]
        wanted = np.asarray(function.wanted(*numbers))
        too_large = np.abs(wanted) >= np.longdouble(2) ** 128 * (1 - np.longdouble(2) ** -25)
        wanted = np.where(too_large, np.sign(wanted) * np.inf, wanted)
        unit = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(wanted), 2.0**-126))) - 23)
        off = np.abs(found - wanted) - 2.0**-126
        alike = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        units = np.where(alike, 0, np.where(np.isfinite(off), off / unit, np.inf))
    at = int(np.argmax(units))
    return float(units[at]), f"{function.call} of {given[at]}: {found[at]} for {wanted[at]}"


@pytest.fixture(scope="module")
def on_lavapipe(lavapipe: VulkanDevice, code: bytes) -> Mapping[str, Singles]:
    return dict(zip((f.call for f in FUNCTIONS), computed(lavapipe, code), strict=True))


@pytest.fixture(scope="module")
def on_swiftshader(swiftshader: VulkanDevice, code: bytes) -> Mapping[str, Singles]:
    return dict(zip((f.call for f in FUNCTIONS), computed(swiftshader, code), strict=True))


def check(found: Mapping[str, Singles], function: Function) -> None:
    given = arguments()[FUNCTIONS.index(function)]
    units, where = worst(function, given, found[function.call])
    assert units <= function.units, f"{where}, {units} units off"


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.call)
def test_lavapipe_is_near(on_lavapipe: Mapping[str, Singles], function: Function) -> None:
    check(on_lavapipe, function)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.call)
def test_swiftshader_is_near(on_swiftshader: Mapping[str, Singles], function: Function) -> None:
    check(on_swiftshader, function)
