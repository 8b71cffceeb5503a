"""Functions of one f64 against numpy: any bits, ties and numbers beside integers."""

from __future__ import annotations

from math import erfc
from math import pow as power_of

import numpy as np
import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array
from vkbench_worker.runner.execute import compute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

SIDE = 200


def numbers() -> Array:
    """A third of any bits, a third of halves, and a third at most one step beside integers."""
    random = np.random.Generator(np.random.Philox(key=5))
    count = SIDE * SIDE // 3
    any_bits = random.integers(0, 1 << 64, SIDE * SIDE - 2 * count, np.uint64).view(np.float64)
    halves = random.integers(-9, 9, count) / 2
    powers = 2.0 ** random.integers(-2, 55, count)
    whole = np.rint(random.uniform(-1, 1, count) * powers)
    beside = np.nextafter(whole, random.choice([-np.inf, np.inf, 0.0], count))
    return np.concatenate([any_bits, halves, beside]).reshape(1, 1, SIDE, SIDE)


def found(device: VulkanDevice, bundle: Bundle, name: str, x: Array) -> Array:
    posed = problem(f"{name}/f64/b1_c1_h{SIDE}_w{SIDE}")
    return compute(device, bundle, posed, "auto", {"x": x})[0]["y"]


@pytest.mark.parametrize("driver", ["lavapipe", "swiftshader"])
@pytest.mark.parametrize(
    "name", ["abs", "neg", "sign", "step", "relu", "floor", "ceil", "round", "trunc", "clamp"]
)
def test_what_works_on_bits_is_numpy_s_to_the_bit(
    request: pytest.FixtureRequest, driver: str, bundle: Bundle, name: str
) -> None:
    x = numbers()
    y = found(request.getfixturevalue(driver), bundle, name, x)
    posed = problem(f"{name}/f64/b1_c1_h{SIDE}_w{SIDE}")
    wanted = posed.kernel.check.reference(posed, {"x": x}, None)["y"]
    nan = np.isnan(wanted)
    assert (np.isnan(y) == nan).all()
    np.testing.assert_array_equal(y.view(np.uint64)[~nan], wanted.view(np.uint64)[~nan])


def test_halves_go_away_from_zero(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    x = numbers()
    posed = problem(f"round/f64/b1_c1_h{SIDE}_w{SIDE}/ties=away")
    y = compute(lavapipe, bundle, posed, "auto", {"x": x})[0]["y"]
    size = np.abs(x)
    with np.errstate(invalid="ignore"):
        wanted = np.where(size < 2.0**52, np.floor(size) + (size - np.floor(size) >= 0.5), size)
    nan = np.isnan(x)
    assert np.isnan(y[nan]).all()
    np.testing.assert_array_equal(y[~nan], np.copysign(wanted, x)[~nan])
    assert (np.signbit(y) == np.signbit(x))[~nan].all()


def test_a_root_is_off_by_its_last_bits_at_most(lavapipe: VulkanDevice, bundle: Bundle) -> None:
    x = np.abs(numbers())
    x[~(x > 1e-290)] = 2.0
    y = found(lavapipe, bundle, "sqrt", x)
    wanted = np.sqrt(x)
    finite = np.isfinite(wanted)
    assert (np.abs(y - wanted)[finite] <= wanted[finite] * 2.0**-50).all()
    assert np.isinf(y[~finite]).all()


def spread_numbers() -> Array:
    """Magnitudes from 2^-60 to 2^20, numbers beside 1 and multiples of pi / 2, of both signs."""
    random = np.random.Generator(np.random.Philox(key=6))
    count = SIDE * SIDE // 4
    sizes = 2.0 ** random.uniform(-60, 20, count)
    near_one = 1 + random.uniform(-1, 1, count) * 2.0 ** random.integers(-52, 0, count)
    quarters = np.rint(random.uniform(0, 1 << 20, count)) * (np.pi / 2)
    moderate = random.uniform(0, 50, SIDE * SIDE - 3 * count)
    x = np.concatenate([sizes, near_one, quarters, moderate])
    return (x * random.choice([-1.0, 1.0], x.size)).reshape(1, 1, SIDE, SIDE)


EDGES = (0.0, -0.0, np.inf, -np.inf, np.nan, 5e-324, -5e-324, 2.3e-308, 1.7e308, -1.7e308, 1e22)
UNITS = {"exp": 1, "exp2": 1, "expm1": 2, "log": 1, "log2": 2, "sin": 1, "cos": 1, "tanh": 2}


@pytest.mark.parametrize("name", UNITS)
def test_a_curve_is_off_by_its_last_places_at_most(
    lavapipe: VulkanDevice, bundle: Bundle, name: str
) -> None:
    """Denormal results of exponentials, large angles and edges among them."""
    any_bits = numbers()
    x = np.concatenate([spread_numbers(), any_bits], axis=2)[:, :, ::2]
    x[0, 0, 0, : len(EDGES)] = EDGES
    x[0, 0, 1] = (
        np.linspace(-746, -700, SIDE) if name != "exp2" else np.linspace(-1076, -1000, SIDE)
    )
    with np.errstate(all="ignore"):  # of longer numbers: numpy's own of f64 may be off by 4 units
        wanted = getattr(np, name)(x.astype(np.longdouble)).astype(np.float64)
    y = found(lavapipe, bundle, name, x)
    nan = np.isnan(wanted)
    assert (np.isnan(y) == nan).all()
    is_finite = np.isfinite(wanted)
    np.testing.assert_array_equal(y[~is_finite & ~nan], wanted[~is_finite & ~nan])
    assert (np.signbit(y) == np.signbit(wanted))[~nan].all()
    spacing = np.spacing(np.abs(wanted[is_finite]))
    off = np.abs(y[is_finite] - wanted[is_finite]) / spacing
    at = off.argmax()
    assert off.max() <= UNITS[name], f"{off.max()} at {x[is_finite][at]!r}: {y[is_finite][at]!r}"


EXPONENTS = (2.5, -1.5, 0.0, 1.0, 2.0, 7.0, -3.0, 0.5, -0.0, 20.0, 100.5, 300.25, 3.3e5, 1e300)


@pytest.mark.parametrize("exponent", EXPONENTS)
def test_a_power_is_off_by_its_last_places_at_most(
    lavapipe: VulkanDevice, bundle: Bundle, exponent: float
) -> None:
    """Of any magnitude, of either sign, beside 1, and of edges; -Inf has C's power.

    An exponent multiplies what the logarithm rounds: beyond 12 a sixth of it is allowed.
    """
    random = np.random.Generator(np.random.Philox(key=7))
    x = 2.0 ** random.uniform(-1000, 1000, (1, 1, SIDE, SIDE))
    x[0, 0, 50:100] *= -1
    x[0, 0, 100:150] = 1 + random.uniform(-1, 1, (50, SIDE)) * 2.0**-18
    x[0, 0, 150:] = random.uniform(-40, 40, (50, SIDE))
    x[0, 0, 40:50] = random.uniform(1.1, 9, (10, SIDE))
    x[0, 0, 0, : len(EDGES)] = EDGES
    posed = problem(f"powf/f64/b1_c1_h{SIDE}_w{SIDE}/exponent={exponent}")
    y = compute(lavapipe, bundle, posed, "auto", {"x": x})[0]["y"]
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.longdouble), np.longdouble(exponent)).astype(np.float64)
    wanted[x == -np.inf] = power_of(-np.inf, exponent)
    nan = np.isnan(wanted)
    assert (np.isnan(y) == nan).all()
    is_finite = np.isfinite(wanted)
    np.testing.assert_array_equal(y[~is_finite & ~nan], wanted[~is_finite & ~nan])
    off = np.abs(y[is_finite] - wanted[is_finite]) / np.spacing(np.abs(wanted[is_finite]))
    most = max(2, abs(exponent) / 6)
    assert off.max() <= most, f"{off.max()} at {x[is_finite][off.argmax()]!r}"


@pytest.mark.parametrize("name", ["sigmoid", "softplus", "silu", "gelu_quick", "elu"])
def test_a_gate_loses_no_digits_of_small_results(
    lavapipe: VulkanDevice, bundle: Bundle, name: str
) -> None:
    x = np.clip(spread_numbers(), -700, 700)
    y = found(lavapipe, bundle, name, x)
    posed = problem(f"{name}/f64/b1_c1_h{SIDE}_w{SIDE}")
    wanted = posed.kernel.check.reference(posed, {"x": x}, None)["y"]
    counts = np.abs(wanted) > 1e-290
    assert counts.mean() > 0.8
    off = np.abs(y - wanted)[counts] / (np.abs(wanted)[counts] * 2**-52)
    assert off.max() <= 8, f"{off.max()} at {x[counts][off.argmax()]!r}"


def test_gelu_by_erf_loses_no_digits_of_small_results(
    lavapipe: VulkanDevice, bundle: Bundle
) -> None:
    """Of negative numbers, by C's erfc and its slope times what x / sqrt(2) loses by rounding."""
    x = np.linspace(-37, -1e-3, SIDE * SIDE).reshape(1, 1, SIDE, SIDE)
    y = found(lavapipe, bundle, "gelu_erf", x)
    exact = -x.astype(np.longdouble) / np.sqrt(np.longdouble(2))
    rounded = exact.astype(np.float64)
    rest = (exact - rounded).astype(np.float64)
    near = np.vectorize(erfc)(rounded)
    complement = near - 2 / np.sqrt(np.pi) * np.exp(-(rounded**2)) * rest
    expected = 0.5 * x * complement
    off = np.abs(y - expected) / np.spacing(np.abs(expected))
    assert off.max() <= 16, f"{off.max()} at {x.reshape(-1)[off.argmax()]!r}"


FACTORS = (-0.0, 5e-324, -1e-310, 2.3e-308, 1e-300, -1.0, 300.0, 1e290, -1e300, np.inf, np.nan)


@pytest.mark.parametrize(
    ("name", "given", "passed", "made"),
    [
        *((f"{name}_split", "a", "b", "y") for name in ("reglu", "swiglu", "geglu", "geglu_erf")),
        *((f"{name}_mul", "a", "b", "y") for name in ("sigmoid", "softplus")),
        ("silu_back", "x", "dy", "dx"),
    ],
)
def test_products_with_denormals_lose_no_digits(
    lavapipe: VulkanDevice, bundle: Bundle, name: str, given: str, passed: str, made: str
) -> None:
    """Each edge meets each one; results that are denormals themselves do not count.

    Half of a denormal of 2^44 units is off by half a unit, the reference's too.
    """
    gates, factors = (pair.reshape(1, 1, 1, -1) for pair in np.meshgrid(FACTORS, FACTORS))
    posed = problem(f"{name}/f64/b1_c1_h1_w{gates.size}")
    inputs = {given: gates.copy(), passed: factors.copy()}
    y = compute(lavapipe, bundle, posed, "auto", inputs)[0][made]
    wanted = posed.kernel.check.reference(posed, inputs, None)[made]
    assert (np.isnan(y) == np.isnan(wanted)).all()
    counts = np.abs(wanted) > 1e-290
    np.testing.assert_allclose(y[counts], wanted[counts], rtol=2**-43, atol=0)
    assert (np.abs(y[~counts & ~np.isnan(wanted)]) <= 1e-290).all()
