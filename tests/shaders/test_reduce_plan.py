"""Plans of reductions: every number has its workgroup, and what lies side by side is one."""

from __future__ import annotations

import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernels.reductions.reduce_plan import (
    ANY,
    ENOUGH_GROUPS,
    ONE_STRIDE,
    THREADS,
    WITHOUT_GAPS,
    plan,
)
from vkbench_shaders.tuning.rates import busy

ANY_DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="a device", uuid="00", vendor_id=0, device_id=0,
    type="discrete", memory_bytes=1 << 40, subgroup_size=32, features=(), limits={},
    compute_units=132,
)  # fmt: skip
LARGE = "b1_c1_h8192_w8192"


@pytest.mark.parametrize(
    ("rest", "form", "along"),
    [
        ("b2_c3_h4_w5", WITHOUT_GAPS, True),
        ("b2_c3_h4_w5/axes=chw", WITHOUT_GAPS, True),
        ("b2_c3_h4_w1/axes=w", ONE_STRIDE, False),
        ("b2_c3_h4_w5/axes=h", ONE_STRIDE, False),
        ("b2_c3_h4_w5/axes=bc", ONE_STRIDE, False),
        ("b2_c3_h4_w5/axes=bh", ANY, False),
        ("b2_c3_h4_w5/axes=cw", ANY, True),
        ("b2_c3_h4_w5/axes=hw,layout=strided", ANY, True),
        ("b2_c3_h4_w5/axes=c,layout=permuted", WITHOUT_GAPS, True),
    ],
)
def test_what_lies_side_by_side_is_found(rest: str, form: int, along: bool) -> None:
    made = plan(problem(f"sum/f32/{rest}"), ANY_DEVICE, in_order=True)
    assert (made.form, made.along) == (form, along)


@pytest.mark.parametrize("axes", ["w", "h", "hw"])
@pytest.mark.parametrize("shape", [LARGE, "b1_c1_h1_w10000000", "b3_c4_h5_w10", "b1_c1_h40_w20000"])
def test_parts_hold_every_number_once(shape: str, axes: str) -> None:
    made = plan(problem(f"sum/f32/{shape}/axes={axes}"), ANY_DEVICE, in_order=False)
    assert made.part * (made.parts - 1) < made.length <= made.part * made.parts
    assert THREADS % made.down == 0


@pytest.mark.parametrize("rest", [LARGE, f"{LARGE}/axes=h", f"{LARGE}/axes=hw"])
def test_large_arrays_keep_a_device_busy(rest: str) -> None:
    assert plan(problem(f"sum/f32/{rest}"), ANY_DEVICE, in_order=False).groups >= busy(
        ANY_DEVICE, ENOUGH_GROUPS
    )


def test_order_counts_only_where_it_is_asked_for() -> None:
    posed = problem("argmax/f32/b2_c3_h4_w5/axes=bchw,layout=permuted")
    assert plan(posed, ANY_DEVICE, in_order=False).form == WITHOUT_GAPS
    assert plan(posed, ANY_DEVICE, in_order=True).form == ANY
