"""Element-wise launches: divisions by multiplication, dimensions put in order and together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from vkbench_shaders.kernel import Layout
from vkbench_shaders.kernels.elementwise import strided

FLAT, WIDE, LINES, WORDS = range(4)  # the ways of strided.slang


def way(layouts: list[Layout], output_bytes: int = 4) -> tuple[int, int]:
    """How a launch goes, and of which bindings a row is one number."""
    constants = strided.over(layouts, output_bytes).constants
    return constants["WAY"], constants["REPEATED"]


def pushed(layouts: list[Layout], output_bytes: int = 4) -> dict[str, Any]:
    """What a launch pushes."""
    return dict(strided.over(layouts, output_bytes).push)


def sizes(push: Mapping[str, Any]) -> tuple[int, ...]:
    """Slots, channels, height, width."""
    return tuple(push[name] for name in ("slots", "channels", "height", "width"))


def tile_power(push: Mapping[str, Any]) -> int:
    """The power of two of a tile's columns."""
    return int(push["packed"] >> 5 & 31)


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7, 641, 4096, 65537, 2**30 + 1, 2**31 - 1])
def test_multiplying_divides(divisor: int) -> None:
    multiplier, shift = strided.division(divisor)
    assert multiplier < 2**32
    assert shift < 32
    random = np.random.Generator(np.random.Philox(key=divisor))
    numbers = [*random.integers(0, 2**31, 1000), 0, 1, 2**31 - 1]
    edges = [
        n for times in (1, 2, 2**31 // divisor) for n in (times * divisor - 1, times * divisor)
    ]
    for n in (int(n) for n in (*numbers, *edges) if n < 2**31):
        assert ((n * multiplier >> 32) + n) >> shift == n // divisor


def test_arrays_without_gaps_are_one_row() -> None:
    layout = Layout.contiguous((3, 5, 7, 9))
    push = pushed([layout, layout])
    assert sizes(push) == (-(-945 // 4), 1, 1, 945)
    assert way([layout, layout]) == (FLAT, 0)


def test_rows_with_gaps_stay_apart() -> None:
    tight = Layout.contiguous((3, 5, 7, 9))
    gaps = Layout(shape=(3, 5, 7, 9), strides=(385, 77, 11, 1), offset=5, storage=1200)
    push = pushed([gaps, tight])
    assert sizes(push) == (1, 1, 105, 9)  # a tile of 16 columns takes each row
    assert tile_power(push) == 4
    assert way([gaps, tight]) == (LINES, 0)


@pytest.mark.parametrize("columns", [1, 2, 7, 17, 61, 129, 512, 1999])
def test_tiles_cover_all_lines(columns: int) -> None:
    rows = 1000
    padded = Layout(
        shape=(1, 1, rows, columns),
        strides=((columns + 3) * rows, (columns + 3) * rows, columns + 3, 1),
        offset=1,
        storage=(columns + 3) * rows + 1,
    )
    launch = strided.over([padded, padded], 4)
    push = pushed([padded, padded])
    wide, power = push["slots"], tile_power(push)
    assert wide << power >= columns > (wide - 1) << power
    down = launch.groups[0] * launch.groups[1] // wide
    assert down * 16 * (strided.THREADS >> power) >= rows


def test_a_few_long_lines_are_no_tiles() -> None:
    padded = Layout(shape=(1, 1, 3, 5000), strides=(15009, 15009, 5003, 1), offset=1, storage=15010)
    assert way([padded, padded]) == (WORDS, 0)


def test_rows_on_multiples_of_8_are_wide() -> None:
    tight = Layout.contiguous((1, 1, 7, 16))
    gaps = Layout(shape=(1, 1, 7, 16), strides=(168, 168, 24, 1), offset=8, storage=176)
    assert way([gaps, tight]) == (WIDE, 0)


def test_a_repeated_row_has_no_stride() -> None:
    row, full = Layout.contiguous((1, 1, 1, 16)), Layout.contiguous((2, 3, 4, 16))
    push = pushed([full, row, full])
    assert push["strides1"] == (0, 0, 0, 1)
    assert sizes(push) == (24 * 4, 1, 24, 16)
    assert way([full, row, full]) == (WIDE, 0)


def test_a_repeated_number_is_told_to_the_shader() -> None:
    one, full = Layout.contiguous((1, 1, 1, 1)), Layout.contiguous((2, 3, 4, 16))
    assert way([full, one, full]) == (FLAT, 0b010)


def test_the_output_orders_the_dimensions() -> None:
    x = Layout.contiguous((2, 3, 4, 5))
    y = Layout(shape=(2, 3, 4, 5), strides=(1, 2, 6, 24), storage=120)
    push = pushed([x, y])
    assert push["strides1"] == (24, 6, 2, 1)
    assert push["strides0"] == (1, 5, 20, 60)
    assert way([x, y]) == (WORDS, 0)


def test_nothing_is_no_workgroup() -> None:
    layout = Layout.contiguous((2, 0, 3, 4))
    assert strided.over([layout, layout], 4).groups == (0, 1, 1)


def test_a_narrow_output_needs_a_dimension_without_gaps() -> None:
    layout = Layout(shape=(2, 2, 2, 2), strides=(120, 50, 20, 4), storage=256)
    with pytest.raises(ValueError, match="without gaps"):
        strided.over([layout, layout], 2)


@pytest.mark.parametrize("output_bytes", [2, 4])
@pytest.mark.parametrize("above", [-1, 0, 1, 2])
def test_threads_make_one_slot_of_a_small_array(above: int, output_bytes: int) -> None:
    slot = 16 // output_bytes
    layout = Layout.contiguous(((strided.SMALL + above) * slot,))
    launch = strided.over([layout, layout], output_bytes)
    single = above <= 0
    assert launch.constants["SINGLE"] == single
    assert launch.push["slots"] == strided.SMALL + above
    covered = launch.groups[0] * strided.THREADS * (1 if single else 16 // slot)
    assert 0 <= covered - (strided.SMALL + above) < strided.THREADS * (1 if single else 16 // slot)


def test_what_goes_by_words_has_no_single_slots() -> None:
    gaps = Layout(shape=(3, 5), strides=(7, 1), offset=1, storage=22)
    assert strided.over([gaps, gaps], 4).constants["SINGLE"] == 0
