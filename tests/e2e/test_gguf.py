"""A tensor of a GGUF file as weights, from the file to the verdict, on a real device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vkbench.job import Mode, PlannedJob, Source
from vkbench_db.database import Database
from vkbench_db.work import store
from vkbench_db.work.devices import store_device
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.quantisers import quants
from vkbench_worker.owner.probe import local_devices

Vkbench = Callable[..., Any]
Written = Callable[[Mapping[str, tuple[str, np.ndarray]]], Path]

VALUES = np.random.Generator(np.random.Philox(key=5)).standard_normal((48, 256), np.float32)
FORMATS = ("f32", "f16", "bf16", "q4_0", "q5_1", "q8_0", "tq2_0", "mxfp4")


@pytest.fixture
def model(gguf_file: Written) -> Path:
    tensors = {fmt: (fmt, VALUES) for fmt in FORMATS}
    return gguf_file({**tensors, "experts": ("q4_0", VALUES.reshape(3, 16, 256))})


def test_a_tensor_is_checked_and_found_by_its_hash(
    vkbench: Vkbench, database: Path, model: Path
) -> None:
    words = ("--gguf", str(model), "--tensor", "q4_0", "-k", "mul_mat_vec", "-s", "n=2")
    ended = vkbench("run", *words, "--mode", "correctness", "--json")
    assert ended.code == 0, ended.err
    assert {row["verdict"] for row in ended.rows} == {"passed"}
    sha = open_gguf(model).sha("q4_0")
    assert all(row["case"].endswith(f"weights={sha}") for row in ended.rows)
    found = vkbench("results", "--kernel", "mul_mat_vec", "--json").rows
    assert {row["case"] for row in found} == {row["case"] for row in ended.rows}


def test_tensors_of_every_format_are_checked(vkbench: Vkbench, database: Path, model: Path) -> None:
    run = stored(database, model, "mul_mat_vec", *FORMATS, shape="m48_n2_k256")
    ended = vkbench("run", "--resume", str(run), "--json")
    assert ended.code == 0, ended.err
    assert [row["verdict"] for row in ended.rows] == ["passed"] * len(FORMATS)
    shas = {open_gguf(model).sha(fmt) for fmt in FORMATS}
    assert {row["case"].partition("weights=")[2] for row in ended.rows} == shas


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
    again = stored(database, model, "dequantize", "q4_0", shape="m48_k256")
    data = bytearray(model.read_bytes())
    data[open_gguf(model).tensor("q4_0").offset] ^= 1
    model.write_bytes(data)
    ended = vkbench("run", "--resume", str(again), "--json")
    assert ended.code == 4, ended.err
    assert all("is another one on this host" in row["reason"] for row in ended.rows)
    again = stored(database, model, "dequantize", "q4_0", shape="m48_k256")
    model.unlink()
    ended = vkbench("run", "--resume", str(again), "--json")
    assert ended.code == 4, ended.err
    assert all(f"cannot read {model}: No such file" in row["reason"] for row in ended.rows)


def stored(database: Path, model: Path, kernel: str, *formats: str, shape: str) -> int:
    """A new run of a case on the tensor of each format, that no run has done yet."""
    device = local_devices()[0]
    file = open_gguf(model)
    with Database.open(f"sqlite:///{database}") as opened, opened.transaction() as tx:
        store_device(tx, device)
        run = store.create_run(tx, mode=Mode.CORRECTNESS, selection={}, now=1.0).id
        store.add_jobs(
            tx,
            run,
            (
                PlannedJob(
                    device=device.key,
                    case=f"{kernel}/{fmt}/{shape}/weights={file.sha(fmt)}",
                    mode=Mode.CORRECTNESS,
                    source=Source(path=str(model), tensor=fmt),
                )
                for fmt in formats
            ),
        )
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
