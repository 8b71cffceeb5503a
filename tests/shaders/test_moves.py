"""How dimensions become as few as will do, and which copies are turned tile by tile."""

from __future__ import annotations

import pytest

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Launch
from vkbench_shaders.kernels.moves.mapping import Axis, merge_axes

ANY = DeviceFacts(
    key="0" * 12, host="h", index=0, name="any", uuid="00", vendor_id=0, device_id=0, type="cpu",
    memory_bytes=1 << 30, subgroup_size=4, features=(), limits={},
)  # fmt: skip
NOWHERE = Axis(size=1, source=1)


def launch(name: str) -> Launch:
    posed = problem(name)
    (found,) = posed.kernel.variants[0].launches(posed, ANY)
    return found


def test_a_roll_of_rows_is_one_long_roll() -> None:
    axes = [
        Axis(size=2, source=2, stride=105),
        Axis(size=3, source=3, stride=35),
        Axis(size=5, source=5, added=2, stride=7),
        Axis(size=7, source=7, stride=1),
    ]
    rolled = Axis(size=35, source=35, added=14, stride=1)
    assert merge_axes(axes) == [NOWHERE, NOWHERE, Axis(size=6, source=6, stride=35), rolled]


def test_rows_with_gaps_stay_apart() -> None:
    rows = [Axis(size=5, source=5, stride=8), Axis(size=7, source=7, stride=1)]
    assert merge_axes([NOWHERE, NOWHERE, *rows]) == [NOWHERE, NOWHERE, *rows]


@pytest.mark.parametrize(
    ("order", "entry"), [("bchw", ""), ("cbhw", ""), ("bcwh", "transpose"), ("bwhc", "transpose")]
)
def test_copies_go_by_rows_or_by_tiles(order: str, entry: str) -> None:
    how = "" if order == "bchw" else f"/order={order}"
    assert launch(f"cont/f32/b2_c3_h5_w7{how}").entry == entry


def test_what_reflects_is_longer_than_what_is_added() -> None:
    posed = problem("pad/f32/b1_c1_h1_w4/after_w=4,mode=reflect")
    with pytest.raises(UsageError, match="less than w items"):
        posed.layout("y")
