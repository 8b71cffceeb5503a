"""Records of a kernel: canonical cases, layouts, sizes, and what a device refuses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench.errors import UnknownName, UsageError
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.kernel import MOST_GROUPS, Layout, Param, grid, matrix_shape, too_large

DEQUANTIZE, COPY, ADD = (kernel_named(name) for name in ("dequantize", "copy", "add"))
DEVICE = DeviceFacts(
    key="0" * 12, host="h", index=0, name="a device", uuid="00", vendor_id=0, device_id=0,
    type="cpu",
    memory_bytes=1 << 30, subgroup_size=8, features=(), limits={"max_storage_range": 1 << 27},
)  # fmt: skip


def test_defaults_are_not_named() -> None:
    case = DEQUANTIZE.case({"weights": "Q4_0", "Y": "F32"}, {"k": 64, "m": 3})
    assert case.name == "dequantize/q4_0/m3_k64"
    case = ADD.case(
        {}, {"b": 1, "c": 2, "h": 3, "w": 4}, {"Layout": "contiguous", "broadcast": "ROW"}
    )
    assert case.name == "add/f32/b1_c2_h3_w4/broadcast=row"


def test_a_binding_may_follow_another_one_s_format() -> None:
    case = COPY.case({"x": "f16"}, {"n": 5})
    assert case.name == "copy/f16/n5"
    assert problem(case).types == {"x": "f16", "y": "f16"}
    assert list(COPY.type_choices()) == [{"x": f, "y": f} for f in ("f32", "f16")]
    with pytest.raises(UnknownName, match="format of copy's y"):
        COPY.case({"x": "f16", "y": "f32"}, {"n": 5})


def test_a_binding_may_follow_another_one_unless_it_is_named() -> None:
    shape = {"s": 1, "h": 2, "g": 1, "q": 1, "n": 3, "d": 32, "e": 64}
    attention = kernel_named("flash_attn")
    for named in ({"k": "q8_0"}, {"k": "q8_0", "v": "q8_0"}):
        case = attention.case(named, shape)
        assert case.name == "flash_attn/q8_0/s1_h2_g1_q1_n3_d32_e64"
        assert problem(case).types["v"] == "q8_0"
    case = attention.case({"k": "q8_0", "v": "q4_0"}, shape)
    assert case.name == "flash_attn/q8_0:v=q4_0/s1_h2_g1_q1_n3_d32_e64"
    assert problem(case).array_shape("v") == (1, 1, 3, 36)
    first = {types["k"]: types["v"] for types in reversed(list(attention.type_choices()))}
    assert all(keys == values for keys, values in first.items())
    with pytest.raises(UsageError, match="does not take these formats together: k bf16, v q5_0"):
        attention.case({"k": "bf16", "v": "q5_0"}, shape)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("dequantise/q4_0/m1_k32", "did you mean 'dequantize'"),
        ("dequantize/q4_9/m1_k32", "did you mean 'q4_K', 'q4_1' or"),
        ("dequantize/q4_0:y=f64/m1_k32", "format of dequantize's y 'f64'"),
        ("dequantize/q4_0:z=f32/m1_k32", "binding of dequantize 'z'"),
        ("dequantize/q4_0/m1_k33", "k=33 is no multiple of 32"),
        ("dequantize/q4_0/m1", "has the shape m=..,k=.., sizes of at least 1; got m=1"),
        ("dequantize/q4_0/m0_k32", "sizes of at least 1"),
        ("dequantize/q4_0/m1_k32_n1", "has the shape m=..,k=.."),
        ("add/f32/b1_c1_h1_w1/brodcast=row", "did you mean 'broadcast'"),
        ("add/f32/b1_c1_h1_w1/broadcast=rows", "did you mean 'row'"),
    ],
)
def test_what_does_not_exist_is_said_in_one_line(name: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        problem(name)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_a_parameter_without_choices_keeps_its_type() -> None:
    param = Param(default=1.5)
    assert param.pick_value(2.5, "slope") == 2.5
    with pytest.raises(UsageError, match="slope is a float; got 'x'"):
        param.pick_value("x", "slope")


def test_a_layout_views_only_its_own_items() -> None:
    layout = Layout(shape=(2, 3), strides=(5, 1), offset=2, storage=12)
    storage = np.full(12, -1)
    layout.view(storage)[...] = [[1, 2, 3], [4, 5, 6]]
    assert storage.tolist() == [-1, -1, 1, 2, 3, -1, -1, 4, 5, 6, -1, -1]


@pytest.mark.parametrize("how", ["contiguous", "strided", "permuted"])
@pytest.mark.parametrize("broadcast", ["none", "scalar", "row", "channel", "batch"])
def test_layouts_of_add_keep_their_items_apart_and_inside(how: str, broadcast: str) -> None:
    posed = problem(parse(f"add/f32/b2_c3_h5_w7/broadcast={broadcast},layout={how}"))
    for name in "aby":
        layout = posed.layout(name)
        places = layout.view(np.arange(layout.storage))
        assert np.unique(places).size == places.size
        assert places.max() < layout.storage
        assert (places.size < layout.storage) == (how == "strided")


def test_quantised_rows_count_in_bytes() -> None:
    posed = problem("dequantize/q8_0/m3_k64")
    assert posed.array_shape("weights") == (3, 68)
    assert posed.array_shape("y") == (3, 64)
    assert posed.bytes_moved == 3 * 68 + 3 * 64 * 4
    assert posed.flops == 3 * 64


def test_broadcast_inputs_are_moved_once() -> None:
    posed = problem("add/f32/b2_c3_h5_w7/broadcast=row,layout=strided")
    assert posed.bytes_moved == 4 * (2 * 210 + 7)


def test_seeds_differ_by_case_and_binding_and_have_128_bits() -> None:
    posed = problem("add/f32/b2_c3_h5_w7")
    seeds = {posed.seed("a"), posed.seed("b"), problem("add/f32/b2_c3_h5_w8").seed("a")}
    assert len(seeds) == 3
    assert 1 << 100 < max(seeds) < 1 << 128


def test_a_seed_changes_the_inputs_and_nothing_else() -> None:
    plain, other = (problem(f"add/f32/b2_c3_h5_w7{seed}") for seed in ("", "/seed=2"))
    arrays = [each.kernel.inputs(each) for each in (plain, other)]
    for name in ("a", "b"):
        assert arrays[0][name].shape == arrays[1][name].shape
        assert not np.array_equal(arrays[0][name], arrays[1][name])
    assert (other.params, other.flops, other.bytes_moved) == (
        plain.params,
        plain.flops,
        plain.bytes_moved,
    )
    assert problem("add/f32/b2_c3_h5_w7/seed=0").case.name == plain.case.name
    for wrong in ("x", "-1", "1.5"):
        with pytest.raises(UsageError, match="seed is a whole number"):
            problem(f"add/f32/b2_c3_h5_w7/seed={wrong}")


def test_a_buffer_over_the_device_s_range_is_refused_with_both_sizes() -> None:
    assert too_large(problem("copy/f32/n33554432"), DEVICE) is None
    reason = too_large(problem("copy/f32/n33554433"), DEVICE)
    assert reason == "x has 134217732 bytes, the device binds 134217728 at most"
    assert too_large(problem("copy/f32/n33554433"), replace(DEVICE, limits={})) is None


@pytest.mark.parametrize("groups", [1, 65535, 65536, 131071, 1_000_003, 4_294_836_225])
def test_a_grid_covers_its_groups_with_few_idle(groups: int) -> None:
    x, y, z = grid(groups)
    assert z == 1
    assert max(x, y) <= MOST_GROUPS
    assert 0 <= x * y - groups < y


@pytest.mark.parametrize(
    ("shape", "said"), [((3,), "has 2 dimensions, not 1"), ((3, 19), "rows of 19 bytes")]
)
def test_a_matrix_of_the_wrong_shape_is_refused(shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        matrix_shape("weights", {"weights": shape}, {"weights": "q4_0"})
