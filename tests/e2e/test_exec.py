"""`vkbench exec` on a real device, against numpy and gguf."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkbench_shaders.quantisers import quants

Vkbench = Callable[..., Any]

RANDOM = np.random.Generator(np.random.Philox(key=1))


def weights(fmt: str, rows: int, columns: int) -> tuple[Any, Any]:
    """Stored weights and what they stand for."""
    stored = quants.quantise(fmt, RANDOM.standard_normal((rows, columns), np.float32))
    return stored, quants.dequantise(fmt, stored)


def executed(vkbench: Vkbench, folder: Path, *words: str, **arrays: Any) -> tuple[Any, Any]:
    """What `exec` said, and the arrays that it wrote."""
    given, found = folder / "in.npz", folder / "out.npz"
    np.savez(given, **arrays)
    before = set(folder.iterdir())
    ended = vkbench("exec", *words, "--input", str(given), "--output", str(found))
    if ended.code:
        assert set(folder.iterdir()) == before
        return ended, {}
    with np.load(found) as archive:
        return ended, dict(archive)


@pytest.mark.parametrize(("fmt", "out"), [("q4_0", "f16"), ("Q8_0", "f32")])
def test_dequantize(vkbench: Vkbench, tmp_path: Path, fmt: str, out: str) -> None:
    stored, exact = weights(fmt.lower(), 7, 96)
    ended, found = executed(
        vkbench, tmp_path, "dequantize", "--format", fmt, "--type", f"y={out}", weights=stored
    )
    assert ended.code == 0, ended.err
    assert list(found) == ["y"]
    assert found["y"].dtype == {"f32": np.float32, "f16": np.float16}[out]
    np.testing.assert_array_equal(found["y"], exact.astype(found["y"].dtype))


@pytest.mark.parametrize(
    ("fmt", "variant"),
    [("q4_0", "auto"), ("q8_0", "Portable"), ("f16", "auto"), ("f32", "Portable")],
)
def test_mul_mat_vec(vkbench: Vkbench, tmp_path: Path, fmt: str, variant: str) -> None:
    stored, exact = weights(fmt, 5, 128)
    x = RANDOM.standard_normal((3, 128), np.float32)
    ended, found = executed(
        vkbench,
        tmp_path,
        *("mul_mat_vec", "--format", fmt, "--variant", variant, "--device", "0"),
        weights=stored,
        x=x,
    )
    assert ended.code == 0, ended.err
    assert f"mul_mat_vec/{fmt}/m5_n3_k128: " in ended.out
    assert found["y"].shape == (3, 5)
    np.testing.assert_allclose(found["y"], x @ exact.T, rtol=1e-4, atol=1e-4)


def test_mul_mat(vkbench: Vkbench, tmp_path: Path) -> None:
    stored, exact = weights("f32", 33, 65)
    x = RANDOM.standard_normal((17, 65), np.float32)
    ended, found = executed(vkbench, tmp_path, "mul_mat", weights=stored, x=x)
    assert ended.code == 0, ended.err
    np.testing.assert_allclose(found["y"], x @ exact.T, rtol=1e-4, atol=1e-4)


def test_quantize(vkbench: Vkbench, tmp_path: Path) -> None:
    x = RANDOM.standard_normal((2, 3, 64), np.float32)
    ended, found = executed(vkbench, tmp_path, "quantize", "-f", "q5_1", x=x)
    assert ended.code == 0, ended.err
    np.testing.assert_array_equal(found["y"], quants.quantise("q5_1", x))


@pytest.mark.parametrize(
    ("kind", "how"), [(np.int32, "contiguous"), (np.int64, "strided")], ids=["int32", "int64"]
)
def test_set_rows_changes_an_array_in_place(
    vkbench: Vkbench, tmp_path: Path, kind: Any, how: str
) -> None:
    y = RANDOM.integers(0, 256, (9, 4 * 17), np.uint8)
    x, ids = RANDOM.standard_normal((3, 128), np.float32), np.array([8, 0, 3], kind)
    words = "set_rows", "--format", "mxfp4", "--param", f"layout={how}"
    ended, found = executed(vkbench, tmp_path, *words, y=y, x=x, ids=ids)
    assert ended.code == 0, ended.err
    assert list(found) == ["y"]
    y[ids] = quants.quantise("mxfp4", x)
    np.testing.assert_array_equal(found["y"], y)


def softmax(x: Any, mask: Any = 0) -> Any:
    powers = np.exp((x + mask) - (x + mask).max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


ROWS = RANDOM.standard_normal((5, 32), np.float32)
HEADS = RANDOM.standard_normal((9, 2, 4), np.float32)  # of tokens
MASK = RANDOM.standard_normal(ROWS.shape, np.float32)
CAUSAL = np.where(np.tri(5, dtype=bool), 0, -np.inf).astype(np.float16)


def attention(keys: Any, values: Any, queries: Any, mask: Any = 0) -> Any:
    return softmax(queries @ keys.T / np.sqrt(keys.shape[-1]), mask) @ values


def turned(x: Any) -> Any:
    """Pairs beside each other turned by position / 100^pair."""
    theta = np.arange(9.0)[:, None] / 100.0 ** np.arange(2)
    pairs = x.astype(np.float64).reshape(9, 2, 2, 2).view(np.complex128)[..., 0]
    return (pairs * np.exp(1j * theta)[:, None]).view(np.float64).reshape(1, 9, 2, 4)


@pytest.mark.parametrize(
    ("words", "arrays", "expected"),
    [
        (("softmax",), {"x": ROWS}, softmax(ROWS)),
        (
            ("softmax", "--param", "mask=all"),
            {"x": ROWS, "mask": MASK},
            softmax(ROWS, MASK),
        ),
        (
            ("rms_norm", "--param", "eps=0.0"),
            {"x": ROWS},
            ROWS / np.sqrt((ROWS**2).mean(axis=-1, keepdims=True)),
        ),
        (("rope",), {"x": HEADS, "positions": np.arange(9, dtype=np.int32)}, turned(HEADS)),
        (("flash_attn",), dict.fromkeys("kvq", ROWS), attention(ROWS, ROWS, ROWS)),
        (
            ("flash_attn", "--param", "mask=causal"),
            {**dict.fromkeys("kvq", ROWS), "mask": CAUSAL},
            attention(ROWS, ROWS, ROWS, CAUSAL),
        ),
        (
            ("ssm_conv",),
            {"x": ROWS[:, :4], "weights": np.ones((5, 4), np.float32)},
            ROWS[:, :4].sum(axis=1),
        ),
        (
            ("top_k_moe", "--shape", "n=1,e=32,k=2"),
            {"logits": ROWS[0]},
            np.sort(softmax(ROWS[0]))[:-3:-1],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_kernel_takes_what_its_parameters_switch_on(
    vkbench: Vkbench, tmp_path: Path, words: tuple[str, ...], arrays: Any, expected: Any
) -> None:
    ended, found = executed(vkbench, tmp_path, *words, **arrays)
    assert ended.code == 0, ended.err
    result = found["weights" if "weights" in found else "y"]
    np.testing.assert_allclose(np.squeeze(result), np.squeeze(expected), rtol=1e-4, atol=1e-5)


WEIGHTS = np.zeros((4, 36), np.uint8)
X = np.zeros((2, 64), np.float32)


@pytest.mark.parametrize(
    ("arrays", "words", "hint"),
    [
        ({"weights": WEIGHTS, "x": X}, (), "--format"),
        ({"weights": WEIGHTS}, ("-f", "q4_0"), "x missing"),
        ({"weights": WEIGHTS, "y": X}, ("-f", "q4_0"), "unknown input of mul_mat_vec 'y'"),
        ({"weights": WEIGHTS[:, :35], "x": X}, ("-f", "q4_0"), "blocks of 18"),
        ({"weights": X, "x": X}, ("-f", "q4_0"), "array of uint8"),
        ({"weights": WEIGHTS, "x": X[:, :32]}, ("-f", "q4_0"), "must be equal"),
        ({"weights": WEIGHTS, "x": X}, ("-f", "q5_9"), "unknown format"),
        ({"weights": WEIGHTS, "x": X}, ("-f", "q4_0", "-d", "no such"), "unknown device"),
        ({"weights": WEIGHTS, "x": X}, ("-f", "q4_0", "--variant", "portabel"), "'portable'"),
        ({"weights": WEIGHTS, "x": X}, ("-f", "q4_0", "-s", "m=8,n=2,k=64"), "got 4 x 36"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_arrays_are_one_line_and_leave_no_file(
    asked: Vkbench, tmp_path: Path, arrays: Any, words: tuple[str, ...], hint: str
) -> None:
    ended, _ = executed(asked, tmp_path, "mul_mat_vec", *words, **arrays)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("vkbench: ")
    assert ended.err.count("\n") == 1
    assert hint in ended.err


def test_an_output_that_is_there_stays_when_the_device_is_not(
    vkbench: Vkbench, tmp_path: Path
) -> None:
    given, found = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, weights=WEIGHTS)
    found.write_bytes(b"precious")
    ended = vkbench(
        *("exec", "dequantize", "-f", "q4_0", "--input", str(given), "--output", str(found)),
        VK_ICD_FILENAMES="/nonexistent.json",
        VK_DRIVER_FILES="",
    )
    assert (ended.code, ended.err.count("\n")) == (7, 1)  # nothing ran
    assert found.read_bytes() == b"precious"
