"""A tensor of a GGUF file as weights, from the file to the verdict, on a real device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkbench.job import Mode, PlannedJob, Source
from vkbench_db import store
from vkbench_db.database import Database
from vkbench_db.queries import devices
from vkbench_shaders import quants
from vkbench_shaders.gguf_file import open_gguf

Vkbench = Callable[..., Any]
Written = Callable[[Mapping[str, tuple[str, np.ndarray]]], Path]

VALUES = np.random.Generator(np.random.Philox(key=5)).standard_normal((48, 256), np.float32)
FORMATS = ("f32", "f16", "bf16", "q4_0", "q5_1", "q8_0", "tq2_0", "mxfp4")


@pytest.fixture
def model(gguf_file: Written) -> Path:
    tensors = {fmt: (fmt, VALUES) for fmt in FORMATS}
    return gguf_file({**tensors, "experts": ("q4_0", VALUES.reshape(3, 16, 256))})


@pytest.mark.parametrize("fmt", FORMATS)
def test_a_tensor_is_checked_and_found_by_its_hash(
    vkbench: Vkbench, database: Path, model: Path, fmt: str
) -> None:
    words = ("--gguf", str(model), "--tensor", fmt, "-k", "mul_mat_vec", "-s", "n=2")
    ended = vkbench("run", *words, "--mode", "correctness", "--json")
    assert ended.code == 0, ended.err
    assert {row["verdict"] for row in ended.rows} == {"passed"}
    sha = open_gguf(model).sha(fmt)
    assert all(row["case"].endswith(f"weights={sha}") for row in ended.rows)
    found = vkbench("results", "--kernel", "mul_mat_vec", "--json").rows
    assert {row["case"] for row in found} == {row["case"] for row in ended.rows}


def test_a_cut_tensor_is_timed(vkbench: Vkbench, database: Path, model: Path) -> None:
    words = ("--gguf", str(model), "--tensor", "q8_0", "-k", "dequantize", "-s", "m=7")
    ended = vkbench("run", *words, "--seconds", "0.02", "--json")
    assert ended.code == 0, ended.err
    assert {row["mode"] for row in ended.rows} == {"correctness", "performance"}
    assert all("/m7_k256/" in row["case"] for row in ended.rows)


def test_a_file_that_changed_fails_its_jobs(
    vkbench: Vkbench, database: Path, model: Path, tmp_path: Path
) -> None:
    words = ("-k", "dequantize", "--mode", "correctness", "--json")
    ended = vkbench("run", "--gguf", str(model), "--tensor", "q4_0", *words)
    assert ended.code == 0, ended.err
    again = reopened(database, str(model))
    data = bytearray(model.read_bytes())
    data[open_gguf(model).tensor("q4_0").offset] ^= 1
    model.write_bytes(data)
    ended = vkbench("run", "--resume", str(again), "--json")
    assert ended.code == 4, ended.err
    assert all("is another one on this host" in row["reason"] for row in ended.rows)
    again = reopened(database, str(model))
    model.unlink()
    ended = vkbench("run", "--resume", str(again), "--json")
    assert ended.code == 4, ended.err
    assert all(f"cannot read {model}: No such file" in row["reason"] for row in ended.rows)


def reopened(database: Path, path: str) -> int:
    """A new run with one job like those of before, that nobody has done yet."""
    case = f"dequantize/q4_0/m48_k256/weights={open_gguf(Path(path)).sha('q4_0')}"
    with Database.open(f"sqlite:///{database}") as opened, opened.transaction() as tx:
        [device] = {row.key for row in devices(tx)}
        run = store.create_run(tx, mode=Mode.CORRECTNESS, selection={}, now=1.0).id
        source = Source(path=path, tensor="q4_0")
        planned = PlannedJob(device=device, case=case, mode=Mode.CORRECTNESS, source=source)
        store.add_jobs(tx, run, [planned])
    return run


def test_exec_takes_a_tensor(vkbench: Vkbench, model: Path, tmp_path: Path) -> None:
    given, found = tmp_path / "in.npz", tmp_path / "out.npz"
    x = VALUES[:3]
    np.savez(given, x=x)
    words = ("--gguf", str(model), "--tensor", "experts", "--output", str(found))
    ended = vkbench("exec", "mul_mat_vec", *words, "--input", str(given))
    assert ended.code == 0, ended.err
    exact = quants.dequantise("q4_0", open_gguf(model).read("experts")[0])
    with np.load(found) as archive:
        np.testing.assert_allclose(archive["y"], x @ exact.T, rtol=1e-4, atol=1e-4)
    ended = vkbench("exec", "dequantize", *words, "--shape", "m=5")
    assert ended.code == 0, ended.err
    with np.load(found) as archive:
        np.testing.assert_array_equal(archive["y"], exact[:5].astype(np.float32))
    ended = vkbench("exec", "copy", *words)
    assert (ended.code, ended.err) == (2, "vkbench: copy reads no weights: leave --gguf out\n")
