"""Arrays of a case as files: dense for the program, and not trusted when they come back."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from vkbench_shaders.catalogue import problem
from vkbench_worker.judging.judge import judge
from vkbench_worker.judging.preparation import prepare
from vkbench_worker.peers.programs.tensors import BadOutput, Tensors, clear

STRIDED = "add/f32/b2_c3_h5_w7/layout=strided"
BLOCKS = "mul_mat_vec/q4_0/m4_n1_k64"


def test_a_program_is_told_of_dense_arrays(tmp_path: Path) -> None:
    posed = problem(BLOCKS)
    tensors = Tensors(posed, tmp_path)
    tensors.write_inputs(prepare(posed).storages)
    about = tensors.describe()
    assert (about["kernel"], about["sizes"]) == ("mul_mat_vec", {"m": 4, "n": 1, "k": 64})
    weights, x = about["inputs"]
    assert (weights["format"], weights["shape"]) == ("q4_0", [4, 64])
    assert Path(weights["file"]).stat().st_size == 4 * 2 * 18
    assert (x["format"], Path(x["file"]).stat().st_size) == ("f32", 256)
    assert [(output["name"], output["shape"]) for output in about["outputs"]] == [("y", [1, 4])]


def test_gaps_of_an_output_are_whole(tmp_path: Path) -> None:
    posed = problem(STRIDED)
    prepared, tensors = prepare(posed), Tensors(posed, tmp_path)
    tensors.write_inputs(prepared.storages)
    about = tensors.describe()
    a, b = (np.fromfile(each["file"], "<f4") for each in about["inputs"])
    file = Path(about["outputs"][0]["file"])
    images = []
    for _ in range(2):
        (a + b).tofile(file)
        images.append(tensors.take_outputs())
        assert not file.exists()
    first, second = images
    assert first
    assert second
    verdict = judge(posed, prepared.path, first, second, prepared.expected)
    assert (verdict.passed, verdict.reason) == (True, "")


def test_no_output_is_none(tmp_path: Path) -> None:
    assert Tensors(problem(STRIDED), tmp_path).take_outputs() is None


def test_what_is_not_the_array_is_refused(tmp_path: Path) -> None:
    tensors, file = Tensors(problem(BLOCKS), tmp_path), tmp_path / "y.out"
    for size, complaint in ((0, "has 0 bytes"), (12, "has 12 bytes"), (20, "has 20 bytes, over")):
        file.write_bytes(b"x" * size)
        with pytest.raises(BadOutput, match=rf"y.out {complaint}"):
            tensors.take_outputs()
    clear(tmp_path)
    (tmp_path / "secret").write_bytes(b"x" * 16)
    file.symlink_to(tmp_path / "secret")
    with pytest.raises(BadOutput, match=r"y.out cannot be read"):
        tensors.take_outputs()
    file.unlink()
    file.symlink_to(tmp_path / "nothing")
    with pytest.raises(BadOutput, match=r"y.out cannot be read"):
        tensors.take_outputs()
    for make in (os.mkfifo, os.mkdir):
        clear(tmp_path)
        make(file)
        with pytest.raises(BadOutput, match=r"y.out is no plain file"):
            tensors.take_outputs()
    clear(tmp_path)
    assert list(tmp_path.iterdir()) == []
