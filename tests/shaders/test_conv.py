"""References of convolutions agree with each other: patches, transposes, and known pools."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Array, Problem
from vkbench_shaders.kernels.images.conv_transposed import Spread, phases

DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="a device", uuid="00", vendor_id=0, device_id=0,
    type="cpu", memory_bytes=1 << 40, subgroup_size=32, features=(), limits={},
)  # fmt: skip


def values(posed: Problem, name: str) -> Array:
    return np.random.default_rng(posed.seed(name) % 2**32).standard_normal(posed.array_shape(name))


def result(posed: Problem, **inputs: Array) -> Array:
    return posed.kernel.check.reference(posed, inputs, None)["y"]


HOW = "dilation=2,dilation_h=1,padding=1,stride=3,stride_h=2"


def test_convolution_is_the_product_of_patches_and_weights() -> None:
    conv = problem(f"conv2d/f32/n2_c3_h8_w11_o5_r3_s3/{HOW}")
    patches = problem(f"im2col/f32/n2_c3_h8_w11/{HOW}")
    weights, x = values(conv, "weights"), values(conv, "x")
    rows = result(patches, x=x)
    product = rows.reshape(*rows.shape[:3], -1) @ weights.reshape(5, -1).T
    assert np.allclose(result(conv, weights=weights, x=x), np.moveaxis(product, -1, 1))


def test_convolution_of_volumes_is_the_product_of_their_patches_and_weights() -> None:
    how = "dilation=2,dilation_h=1,padding=1,stride=2,stride_d=1"
    conv = problem(f"conv3d/f32/n2_c3_d5_h6_w8_o4_t2_r3_s2/{how}")
    patches = problem(f"im2col3d/f32/n2_c3_d5_h6_w8/{how},kernel=2,kernel_h=3")
    weights, x = values(conv, "weights"), values(conv, "x")
    rows = result(patches, x=x)
    product = rows.reshape(*rows.shape[:4], -1) @ weights.reshape(4, -1).T
    assert np.allclose(result(conv, weights=weights, x=x), np.moveaxis(product, -1, 1))


def test_transposed_convolution_is_the_transpose() -> None:
    conv = problem(f"conv2d/f32/n2_c3_h9_w12_o5_r3_s3/{HOW}")
    weights, x = values(conv, "weights"), values(conv, "x")
    y = values(conv, "y")
    n, c, h, w = y.shape
    back = problem(f"conv_transpose2d/f32/n{n}_c{c}_h{h}_w{w}_o3_r3_s3/{HOW}")
    spread = result(back, weights=weights, x=y)
    assert spread.shape == x.shape
    assert np.isclose(np.vdot(result(conv, weights=weights, x=x), y), np.vdot(x, spread))


def test_columns_of_a_product_add_up_to_a_transposed_convolution() -> None:
    whole = problem("conv_transpose1d/f32/n2_c3_w7_o4_s5/padding=2,stride=3")
    sums = problem("col2im1d/f32/n2_w7_o4_s5/padding=2,stride=3")
    weights, x = values(whole, "weights"), values(whole, "x")
    columns = np.einsum("ncw,cos->nwos", x, weights)
    assert np.allclose(
        result(sums, x=columns.astype(np.float32)), result(whole, weights=weights, x=x), atol=1e-5
    )


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("dilation", [1, 2, 3, 4])
def test_phases_have_every_pair_of_a_tap_and_an_output_once(stride: int, dilation: int) -> None:
    spread = Spread(size=5, taps=4, stride=stride, padding=2, dilation=dilation, more=1)
    found = [
        (
            phase.at + output * stride,
            phase.tap + tap * phase.step,
            output + phase.slide.first + tap * phase.slide.step,
        )
        for phase in phases(spread)
        for output in range(phase.slide.outputs)
        for tap in range(phase.slide.taps)
    ]
    kept = sorted(pair for pair in found if 0 <= pair[2] < spread.size)
    wanted = sorted(
        (at, tap, place)
        for place in range(spread.size)
        for tap in range(spread.taps)
        if 0 <= (at := place * stride + tap * dilation - spread.padding) < spread.count
    )
    assert kept == wanted
    assert len({at for at, _, _ in found}) <= spread.count


def test_padding_counts_in_a_mean_unless_it_is_left_out() -> None:
    x = np.array([[[2.0, 4.0, 6.0]]], np.float32)
    shape = "avg_pool1d/f32/n1_c1_w3"
    assert result(problem(f"{shape}/padding=1"), x=x).tolist() == [[[2.0, 4.0, 10 / 3]]]
    inside = result(problem(f"{shape}/divisor=inside,padding=1"), x=x)
    assert inside.tolist() == [[[3.0, 4.0, 5.0]]]


def test_corners_meet_corners() -> None:
    x = np.array([[[[0.0, 1.0], [2.0, 3.0]]]], np.float32)
    posed = problem("upsample_bilinear2d/f32/n1_c1_h2_w2/corners=align,height=3,width=3")
    assert result(posed, x=x).tolist() == [[[[0.0, 0.5, 1.0], [1.0, 1.5, 2.0], [2.0, 2.5, 3.0]]]]
    middles = result(problem("upsample_bilinear2d/f32/n1_c1_h2_w2"), x=x)
    assert middles[0, 0, 0].tolist() == [0.0, 0.25, 0.75, 1.0]


def test_fewer_outputs_than_numbers_are_means_under_triangles() -> None:
    """Of two outputs of four numbers the first one has the weights 3, 3 and 1."""
    x = np.array([[[[7.0, 14.0, 28.0, 35.0]]]], np.float32)
    posed = problem("upsample_bilinear2d/f32/n1_c1_h1_w4/antialias=yes,height=1,width=2")
    assert np.allclose(result(posed, x=x), [[[[13.0, 29.0]]]])
    larger = problem("upsample_bilinear2d/f32/n1_c1_h1_w4/antialias=yes")
    assert np.allclose(
        result(larger, x=x), result(problem("upsample_bilinear2d/f32/n1_c1_h1_w4"), x=x)
    )


def test_cubic_curves_go_through_the_numbers_and_overshoot() -> None:
    x = np.array([[[[0.0, 0.0, 1.0, 1.0]]]], np.float32)
    posed = problem("upsample_bicubic2d/f32/n1_c1_h1_w4/corners=align,height=1,width=7")
    curve = result(posed, x=x)[0, 0, 0]
    assert np.allclose(curve[::2], x[0, 0, 0])
    assert np.allclose(curve[1::2], [-0.09375, 0.5, 1.09375])
    middles = problem("upsample_bicubic2d/f32/n1_c1_h1_w4/height=1,width=8")
    assert np.allclose(result(middles, x=x)[0, 0, 0, 3:5], [0.2265625, 0.7734375])


def test_triangles_have_no_corners() -> None:
    posed = problem("upsample_bilinear2d/f32/n1_c1_h1_w4/antialias=yes,corners=align")
    [variant] = posed.kernel.variants
    assert variant.refuses(posed, DEVICE) == "antialias=yes is for corners=middle"
