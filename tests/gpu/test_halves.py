"""Functions of every half on both CPU drivers: the nearest half, or seldom its neighbour."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from planted_probe import compiled, probed
from vkbench.case import Value
from vkbench_shaders.kernels.elementwise.unary_operations import OPERATIONS, UnaryOperation
from vkbench_worker.runtime.vulkan.device import VulkanDevice

Halves = NDArray[np.float16]
Tried = tuple[UnaryOperation, Mapping[str, Value]]  # an operation and its parameters

COUNT = 1 << 16
ALL = np.arange(COUNT, dtype=np.uint16).view(np.float16)
ONE_IN = 50  # results of which one may be a neighbour
NOTHING = 1e-6  # what differences of numbers near 1 may be off by: xielu's

# What exponents of powf may be like: small, large, special.
EXPONENTS = (-700.25, -17, -0.001, 1, 0.3, 2, 11.5, 3000, 1e12, np.inf, -np.inf, np.nan)
TRIED: tuple[Tried, ...] = tuple(
    (operation, {**{name: param.default for name, param in operation.params.items()}, **others})
    for operation in OPERATIONS
    for others in (
        {},
        *operation.others,
        *({"exponent": y} for y in EXPONENTS if operation.name == "powf"),
    )
)


def name_of(tried: Tried) -> str:
    operation, params = tried
    told = (value if isinstance(value, str) else f"{value:g}" for value in params.values())
    return " ".join((operation.name, *told))


def call_of(tried: Tried) -> str:
    """An operation's call in Slang: its parameters are given by their bits, so that NaN can be."""
    operation, params = tried
    pushed = np.zeros(4, np.float32)
    values = operation.pushed(*operation.numbers(params))
    pushed[: len(values)] = values
    words = ", ".join(hex(word) for word in pushed.view(np.uint32))
    return f"{operation.struct('f16')}::of(a, asfloat(uint4({words})))"


SOURCE = f"""
import elementwise.unary_operations;
[[vk::binding(0)]] StructuredBuffer<uint> x;
[[vk::binding(1)]] RWStructuredBuffer<uint> y;

float one_of(uint place, float a)
{{
    switch (place)
    {{
    {" ".join(f"case {n}: return {call_of(tried)};" for n, tried in enumerate(TRIED))}
    }}
    return 0;
}}

[shader("compute")]
[numthreads(64, 1, 1)]
void probe(uint3 thread : SV_DispatchThreadID)
{{
    y[thread.x + thread.y * {COUNT}] = asuint(one_of(thread.y, asfloat(x[thread.x])));
}}
"""


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return compiled(SOURCE, tmp_path_factory.mktemp("slang"))


def computed(device: VulkanDevice, code: bytes) -> Halves:
    """The results of every operation, as the nearest halves."""
    given = ALL.astype(np.float32).view(np.uint32)
    groups = (COUNT // 64, len(TRIED), 1)
    found = probed(device, code, given, COUNT * len(TRIED), groups).view(np.float32)
    with np.errstate(all="ignore"):
        return found.reshape(len(TRIED), COUNT).astype(np.float16)


def order(halves: Halves) -> NDArray[np.int32]:
    """Integers in the order of the numbers; zeros are the same."""
    bits = halves.view(np.uint16).astype(np.int32)
    return np.where(bits < 0x8000, bits, 0x8000 - bits)


def wanted_of(tried: Tried) -> Halves:
    operation, params = tried
    with np.errstate(all="ignore"):
        values = [np.float64(np.float32(value)) for value in operation.numbers(params)]
        return np.asarray(operation.function(ALL.astype(np.float64), *values)).astype(np.float16)


def steps(found: Halves, wanted: Halves, path: str) -> NDArray[np.int32]:
    """How many halves lie between; where one is NaN alone, or exact ones are not, far too many."""
    away = np.abs(order(found) - order(wanted))
    with np.errstate(invalid="ignore"):
        if path == "exact":
            away = np.where(found.view(np.uint16) != wanted.view(np.uint16), COUNT, 0)
        elif path == "f32":  # judged by their sum
            near = np.abs(found.astype(np.float64) - wanted) < NOTHING
            away = np.where(near, np.minimum(away, 1), away)
    away = np.where(np.isnan(found) != np.isnan(wanted), COUNT, away)
    return np.where(np.isnan(found) & np.isnan(wanted), 0, away)


def check(found: Halves, tried: Tried) -> None:
    wanted = wanted_of(tried)
    away = steps(found, wanted, tried[0].path)
    at = int(np.argmax(away))
    assert away[at] <= 1, f"{ALL[at]}: {found[at]} for {wanted[at]}"
    assert np.count_nonzero(away) <= COUNT // ONE_IN, "too many neighbours"


@pytest.fixture(scope="module")
def on_lavapipe(lavapipe: VulkanDevice, code: bytes) -> Halves:
    return computed(lavapipe, code)


@pytest.fixture(scope="module")
def on_swiftshader(swiftshader: VulkanDevice, code: bytes) -> Halves:
    return computed(swiftshader, code)


@pytest.mark.parametrize("place", range(len(TRIED)), ids=[name_of(tried) for tried in TRIED])
def test_lavapipe_is_near(on_lavapipe: Halves, place: int) -> None:
    check(on_lavapipe[place], TRIED[place])


@pytest.mark.parametrize("place", range(len(TRIED)), ids=[name_of(tried) for tried in TRIED])
def test_swiftshader_is_near(on_swiftshader: Halves, place: int) -> None:
    check(on_swiftshader[place], TRIED[place])
