"""bf16 and f8_e4m3: every code, and one rounding to nearest even from float64."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench_shaders.quantisers import narrow
from vkbench_shaders.quantisers.narrow import Stored

CODES: dict[str, Stored] = {
    "bf16": np.arange(1 << 16).astype(np.uint16),
    "f8_e4m3": np.arange(256).astype(np.uint8),
}
LARGEST = {"bf16": 0x7F7F, "f8_e4m3": 0x7E}

each_format = pytest.mark.parametrize("name", CODES)


@each_format
def test_every_number_comes_back(name: str) -> None:
    values = narrow.DECODERS[name](CODES[name])
    back = narrow.ENCODERS[name](values)
    numbers = ~np.isnan(values)
    assert np.array_equal(back[numbers], CODES[name][numbers])
    assert np.all(np.isnan(narrow.DECODERS[name](back[~numbers])))


@each_format
def test_what_lies_between_goes_to_the_nearest_and_ties_to_even(name: str) -> None:
    low = np.arange(LARGEST[name]).astype(CODES[name].dtype)
    below, above = narrow.DECODERS[name](low), narrow.DECODERS[name](low + 1)
    middle = (below + above) / 2
    even = np.where(low % 2, low + 1, low)
    encode = narrow.ENCODERS[name]
    assert np.array_equal(encode(middle), even)
    assert np.array_equal(encode(np.nextafter(middle, 0)), low)
    assert np.array_equal(encode(np.nextafter(middle, np.inf)), low + 1)
    sign = narrow.ENCODERS[name](np.array([-0.0]))
    assert np.array_equal(encode(-middle), even | sign)


def test_what_is_too_large() -> None:
    huge = np.array([1e300, np.inf, 3.4e38])
    assert narrow.ENCODERS["bf16"](huge).tolist() == [0x7F80] * 3
    values = np.array([464.0, np.nextafter(464.0, 500.0), 1e300, -np.inf])
    assert narrow.ENCODERS["f8_e4m3"](values).tolist() == [0x7E, 0x7F, 0x7F, 0xFF]


def test_codes_of_f8_are_ocp_s() -> None:
    values = narrow.DECODERS["f8_e4m3"](np.array([0x01, 0x08, 0x38, 0xBC, 0x7E], np.uint8))
    assert values.tolist() == [2.0**-9, 2.0**-6, 1.0, -1.5, 448.0]


@each_format
def test_neighbours_are_one_apart_in_order(name: str) -> None:
    values = narrow.DECODERS[name](CODES[name])
    finite = CODES[name][np.isfinite(values)]
    places = narrow.order(finite)
    by_place = np.unique(places)
    assert np.array_equal(np.diff(by_place), np.ones(by_place.size - 1))
    order = np.argsort(places, kind="stable")
    assert np.all(np.diff(narrow.DECODERS[name](finite[order])) >= 0)
