"""A user's own arrays: taken as the catalogue says, refused in one line otherwise."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from vkbench.errors import UsageError
from vkbench_cli.arrays import Asked, fit, read_arrays
from vkbench_shaders.catalogue import kernel_named
from vkbench_shaders.kernel import Array

WEIGHTS = np.zeros((3, 2 * 18), np.uint8)  # 3 rows of 64 numbers in q4_0
X = np.zeros((2, 64), np.float32)


def types_of(**types: str) -> Asked:
    return Asked(types=types, shape={}, params={})


def test_sizes_follow_from_the_arrays() -> None:
    posed, arrays = fit(
        kernel_named("mul_mat_vec"), {"Weights": WEIGHTS, "X": X}, types_of(weights="Q4_0")
    )
    assert posed.case.name == "mul_mat_vec/q4_0/m3_n2_k64"
    assert set(arrays) == {"weights", "x"}


def test_a_format_that_only_one_array_type_has_need_not_be_said() -> None:
    weights = np.zeros((3, 64), np.float16)
    posed, _ = fit(kernel_named("mul_mat_vec"), {"weights": weights, "x": X}, types_of())
    assert posed.case.format == "f16"


def test_an_output_has_the_format_asked_for() -> None:
    posed, _ = fit(
        kernel_named("dequantize"), {"weights": WEIGHTS}, types_of(weights="q4_0", y="f16")
    )
    assert posed.case.name == "dequantize/q4_0:y=f16/m3_k64"


def test_values_have_the_format_of_keys_unless_their_array_or_an_option_says_another() -> None:
    arrays: dict[str, np.ndarray] = {
        "q": np.zeros((1, 2, 1, 64), np.float32),
        "k": np.zeros((1, 1, 3, 2 * 34), np.uint8),
        "v": np.zeros((1, 1, 3, 2 * 34), np.uint8),
    }
    kernel = kernel_named("flash_attn")
    posed, _ = fit(kernel, arrays, types_of(k="q8_0"))
    assert posed.case.name == "flash_attn/q8_0/s1_h2_g1_q1_n3_d64_e64"
    arrays["v"] = np.zeros((1, 1, 3, 18), np.uint8)
    posed, _ = fit(kernel, arrays, types_of(k="q8_0", v="q4_0"))
    assert posed.case.name == "flash_attn/q8_0:v=q4_0/s1_h2_g1_q1_n3_d64_e32"
    arrays["v"] = np.zeros((1, 1, 3, 64), np.float16)
    posed, _ = fit(kernel, arrays, types_of(k="q8_0"))
    assert posed.case.name == "flash_attn/q8_0:v=f16/s1_h2_g1_q1_n3_d64_e64"


def test_what_is_changed_in_place_is_given() -> None:
    arrays: dict[str, np.ndarray] = {
        "y": np.zeros((9, 34), np.uint8),
        "x": np.zeros((3, 32), np.float16),
        "ids": np.arange(3),
    }
    posed, taken = fit(kernel_named("set_rows"), arrays, types_of(y="q8_0"))
    assert posed.case.name == "set_rows/q8_0:ids=i64:x=f16/m9_n3_k32"
    assert set(taken) == set(arrays)
    with pytest.raises(UsageError, match="y missing"):
        fit(kernel_named("set_rows"), {"x": arrays["x"], "ids": arrays["ids"]}, types_of(y="q8_0"))


@pytest.mark.parametrize(
    ("arrays", "types", "complaint"),
    [
        ({"x": X}, {"weights": "q4_0"}, "weights missing"),
        ({"wights": WEIGHTS, "x": X}, {"weights": "q4_0"}, "did you mean 'weights'?"),
        ({"weights": WEIGHTS, "WEIGHTS": WEIGHTS, "x": X}, {}, "given twice"),
        ({"weights": WEIGHTS, "x": X}, {}, "--format"),
        ({"weights": X, "x": X}, {"weights": "q4_0"}, "array of uint8"),
        ({"weights": WEIGHTS, "x": X.astype("f8")}, {"weights": "q4_0"}, "got float64"),
        ({"weights": WEIGHTS[:, :-1], "x": X}, {"weights": "q4_0"}, "blocks of 18"),
        ({"weights": WEIGHTS[None], "x": X}, {"weights": "q4_0"}, "2 dimensions"),
        ({"weights": WEIGHTS, "x": X[:, :32]}, {"weights": "q4_0"}, "x has rows of 32"),
        ({"weights": WEIGHTS[:0], "x": X}, {"weights": "q4_0"}, "at least 1"),
        ({"weights": WEIGHTS, "x": X}, {"weights": "q5_9"}, "unknown format"),
    ],
)
def test_what_is_off_is_said(
    arrays: dict[str, Array], types: dict[str, str], complaint: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)) as caught:
        fit(kernel_named("mul_mat_vec"), arrays, types_of(**types))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "case"),
    [
        ({"weights": WEIGHTS, "x": X[0]}, "mul_mat_vec/q4_0/m3_n1_k64"),
        ({"weights": WEIGHTS[0], "x": X}, "mul_mat_vec/q4_0/m1_n2_k64"),
    ],
)
def test_outer_dimensions_that_an_array_lacks_are_ones(arrays: dict[str, Array], case: str) -> None:
    posed, taken = fit(kernel_named("mul_mat_vec"), arrays, types_of(weights="q4_0"))
    assert posed.case.name == case
    assert {name: array.shape for name, array in taken.items()} == {
        name: posed.array_shape(name) for name in arrays
    }


PLANES = np.zeros((4, 8, 2), np.float32)


@pytest.mark.parametrize(
    ("kernel", "arrays", "params", "complaint"),
    [
        ("softmax", {}, {}, "softmax takes the arrays x: x missing"),
        ("softmax", {"x": X}, {"mask": "all"}, "softmax takes the arrays x, mask: mask missing"),
        (
            "softmax",
            {"x": X, "mask": X},
            {},
            "softmax reads mask only with --param mask=all or --param mask=batch",
        ),
        ("softmax", {"x": X, "mask": X[:1]}, {"mask": "all"}, "shape 1 x 2 x 64 in"),
        ("softmax", {"x": X[None, None, None]}, {}, "x has four dimensions (b, c, h, w), got 5"),
        (
            "rope",
            {"x": PLANES, "positions": np.zeros(4, np.int32)},
            {"mode": "mrope", "sections": "1.0.0.0"},
            "positions (n) has the shape 4 x 4 in",
        ),
        # ambiguous: channels by pixels, or a batch by channels
        ("group_norm", {"x": PLANES}, {"groups": "4"}, "x has four dimensions (b, c, h, w), got 3"),
    ],
)
def test_what_is_not_clear_is_refused_by_name(
    kernel: str, arrays: dict[str, Array], params: dict[str, str], complaint: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        fit(kernel_named(kernel), arrays, Asked(types={}, shape={}, params=params))


def test_a_mask_that_is_not_read_has_the_format_that_goes_with_the_rest() -> None:
    posed, _ = fit(kernel_named("softmax"), {"x": X.astype(np.float16)}, types_of())
    assert posed.case.name == "softmax/f16:mask=f16/b1_c1_h2_w64"


def test_arrays_come_in_any_order() -> None:
    arrays = {"positions": np.zeros(4, np.int32), "x": PLANES}
    posed, taken = fit(kernel_named("rope"), arrays, types_of())
    assert posed.case.name == "rope/f32/b1_n4_h8_k2"
    assert list(taken) == ["x", "positions"]


def test_a_shape_that_the_arrays_do_not_have_is_refused() -> None:
    wishes = Asked(types={"weights": "q4_0"}, shape={"m": 4, "n": 2, "k": 64}, params={})
    with pytest.raises(UsageError, match=r"4 x 36.*got 3 x 36"):
        fit(kernel_named("mul_mat_vec"), {"weights": WEIGHTS, "x": X}, wishes)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"text", b"\x89PNG"])
def test_a_file_that_is_no_npz_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "in.npz"
    path.write_bytes(content)
    with pytest.raises(UsageError, match="not a complete npz file") as raised:
        read_arrays(path)
    assert "pickle" not in str(raised.value)  # by which numpy would have people load it


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, x=np.array([{"a": 1}], dtype=object))
    with pytest.raises(UsageError, match="plain arrays: x holds Python objects"):
        read_arrays(path)


def test_a_truncated_npz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez_compressed(path, x=np.arange(1000))
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(UsageError, match="not a complete npz file"):
        read_arrays(path)


def test_a_plain_npy_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    with path.open("wb") as file:
        np.save(file, X)
    with pytest.raises(UsageError, match="not a complete npz file"):
        read_arrays(path)
