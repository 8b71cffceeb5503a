"""Kernels that work row by row: where their rows lie, and how they are shared out."""

from __future__ import annotations

import numpy as np
import pytest

from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders.catalogue import expand, kernel_named, problem
from vkbench_shaders.formats import QUANTISED, format_named
from vkbench_shaders.kernel import Launch, Layout

ANY = DeviceFacts(
    key="0" * 12, host="h", index=0, name="any", uuid="00", vendor_id=0, device_id=0, type="cpu",
    memory_bytes=1 << 30, subgroup_size=4, features=(), limits={},
)  # fmt: skip


def launch(case: str) -> Launch:
    posed = problem(case)
    (found,) = posed.kernel.variants[-1].launches(posed, ANY)
    return found


@pytest.mark.parametrize("name", QUANTISED)
def test_strided_rows_of_blocks_begin_a_block_late_and_are_a_block_apart(name: str) -> None:
    fmt = format_named(name)
    posed = problem(f"dequantize/{name}/m3_k{2 * fmt.elements}/layout=strided")
    size = fmt.bytes
    assert posed.layout("weights") == Layout(
        shape=(3, 2 * size), strides=(3 * size, 1), offset=size, storage=10 * size
    )


def test_strided_rows_of_numbers_begin_between_words_and_vectors() -> None:
    posed = problem("get_rows/f16:y=f16/m4_n3_k8/layout=strided")
    assert posed.layout("table").strides == (11, 1)
    assert posed.layout("table").offset == posed.layout("ids").offset == 5
    assert posed.layout("y").strides == (10, 1)
    assert posed.layout("y").offset == 7


def test_permuted_copies_exchange_batches_and_rows() -> None:
    posed = problem("copy_from/f16/b2_m3_k4/layout=permuted")
    assert posed.layout("weights") == Layout.contiguous((2, 3, 4))
    storage = np.arange(24)
    np.testing.assert_array_equal(
        posed.layout("y").view(storage), storage.reshape(3, 2, 4).transpose(1, 0, 2)
    )


def test_rows_without_gaps_are_one_row() -> None:
    assert launch("dequantize/q4_0/m129_k32").groups == (2, 1, 1)
    assert launch("copy_from/q4_0/b3_m43_k32").groups == (2, 1, 1)
    assert launch("dequantize/q4_0/m129_k32/layout=strided").groups == (129, 1, 1)
    assert launch("get_rows/q4_0/m5_n7_k4128").groups == (14, 1, 1)


def test_strides_are_bytes_of_weights_and_items_of_results() -> None:
    assert launch("copy_from/f16/b2_m3_k8/layout=strided").push == {
        "columns": 8, "rows": 3, "batches": 2, "groups_x": 6,
        "weights_offset": 10, "weights_batch": 66, "weights_row": 22,
        "y_offset": 7, "y_batch": 30, "y_row": 10,
    }  # fmt: skip
    assert launch("get_rows/q8_0/m4_n3_k64/layout=strided").push == {
        "columns": 64, "rows": 3, "table_rows": 4, "groups_x": 3,
        "table_offset": 34, "table_stride": 102, "ids_offset": 5, "id_words": 1,
        "y_offset": 7, "y_stride": 66,
    }  # fmt: skip
    assert launch("get_rows/f32:ids=i64/m4_n3_k5/layout=strided").push == {
        "columns": 5, "rows": 3, "table_rows": 4, "groups_x": 3,
        "table_offset": 20, "table_stride": 32, "ids_offset": 10, "id_words": 2,
        "y_offset": 7, "y_stride": 7,
    }  # fmt: skip


def test_integers_stay_integers() -> None:
    get_rows = kernel_named("get_rows")
    met = [types for types in get_rows.type_choices() if "i32" in (types["table"], types["y"])]
    assert met == [{"table": "i32", "ids": ids, "y": "i32"} for ids in ("i32", "i64")]
    assert get_rows.variants[0].arguments(met[0]) == ("f32", "f32")
    for name in ("get_rows/i32/m1_n1_k1", "get_rows/f32:y=i32/m1_n1_k1"):
        with pytest.raises(UsageError, match="does not take these formats together"):
            problem(name)
    (made,) = expand("get_rows", "i32", {"m": 2, "n": 3, "k": 5})
    assert made.name == "get_rows/i32:y=i32/m2_n3_k5"


def test_of_a_table_only_the_rows_taken_are_moved() -> None:
    assert problem("get_rows/q4_0/m32000_n3_k64").bytes_moved == 3 * (36 + 4 + 256)


def test_arrays_of_other_dimensions_are_refused() -> None:
    with pytest.raises(UsageError, match="three dimensions"):
        kernel_named("copy_from").sizes({"weights": (3, 8)}, {"weights": "f16"})
    shapes = {"table": (3, 8), "ids": (1, 2)}
    with pytest.raises(UsageError, match="ids has one dimension, got 2"):
        kernel_named("get_rows").sizes(shapes, {"table": "f16", "ids": "i32"})
