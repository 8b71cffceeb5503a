"""How dimensions become as few as will do, which copies are turned by tiles, and gradients."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array, Launch, Problem
from vkbench_shaders.kernels.moves.mapping import Axis, merge_axes

ANY = DeviceFacts(
    key="0" * 12, host="h", index=0, name="any", uuid="00", vendor_id=0, device_id=0, type="cpu",
    memory_bytes=1 << 30, subgroup_size=4, features=(), limits={},
)  # fmt: skip
NOWHERE = Axis(size=1, source=1)


def reference(posed: Problem, **inputs: Array) -> Array:
    return posed.kernel.check.reference(posed, inputs, None)["y"]


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


def test_gradients_are_the_transposes_of_moves() -> None:
    """What a move does to x has the same product with z as x with what its gradient does to z."""
    rng = np.random.default_rng(1)
    x, z = rng.standard_normal((2, 3, 5, 7)), rng.standard_normal((4, 9, 5, 14))
    spread = problem("repeat/f32/b2_c3_h5_w7/times_b=2,times_c=3,times_w=2")
    gathered = problem("repeat_back/f32/b4_c9_h5_w14/times_b=2,times_c=3,times_w=2")
    ours = np.vdot(reference(spread, x=x.astype(np.float32)), z)
    assert np.isclose(ours, np.vdot(x, reference(gathered, x=z.astype(np.float32))), rtol=1e-5)
    table, taken = rng.standard_normal((6, 8)), rng.standard_normal((5, 8))
    ids = np.array([5, 0, 5, 3, 1], np.int32)
    back = reference(problem("get_rows_back/f32/m6_n5_k8"), x=taken.astype(np.float32), ids=ids)
    assert np.isclose(np.vdot(table[ids], taken), np.vdot(table, back), rtol=1e-5)
    assert not back[[2, 4]].any()


def test_copies_have_to_be_whole() -> None:
    with pytest.raises(UsageError, match="w=5 is no multiple of 2, its number of repeats"):
        problem("repeat_back/f32/b1_c1_h1_w5/times_w=2").array_shape("y")


def test_what_reflects_is_longer_than_what_is_added() -> None:
    posed = problem("pad/f32/b1_c1_h1_w4/after_w=4,mode=reflect")
    with pytest.raises(UsageError, match="less than w items"):
        posed.layout("y")
