"""`vkbench run --model`: a model from its file to its results and the profile."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planted_model import VOCABULARY, Tiny, write_model
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.graph import Phase
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.making.seeded import SEEDED
from vkbench_shaders.models.reference import Reference
from vkbench_shaders.models.wiring import graph_of

from .conftest import Vkbench


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny.gguf", Tiny())


def test_a_model_is_run_and_profiled(vkbench: Vkbench, path: Path) -> None:
    """A contained runner reads the file; what a kernel takes alone stands beside its steps."""
    alone = "swiglu/f32/b1_c1_h1_w96"
    vkbench("run", "--case", alone, "--mode", "performance", "--seconds", "0.05")
    words = ("--prompt", "0", "--generate", "20", "--seconds", "0.05")
    ended = vkbench("run", "--model", str(path), *words, "--profile", "--json")
    assert ended.code == 0, ended.err
    assert "1 passed" in ended.err
    steps = {row["step"]: row for row in ended.rows}
    assert {"attn_q", "attention", "cache_k", "ffn_down", "output"} <= steps.keys()
    assert sum(row["share"] for row in ended.rows) == pytest.approx(1)
    assert steps["ffn_down"]["launches"] == 2
    assert steps["ffn_down"]["step_case"] == "mul_mat_vec/f32/m64_n1_k96"
    assert steps["swiglu"]["step_case"] == alone
    assert steps["swiglu"]["alone_seconds"] > 0
    assert steps["ffn_down"]["alone_seconds"] is None
    graph = graph_of(file := open_gguf(path), hyper_of(file), Phase(tokens=1, length=32))
    assert steps.keys() == {step.label for step in graph.steps}


def test_a_suite_makes_its_model_and_profiles_it(vkbench: Vkbench) -> None:
    words = ("--suite", "models-quick", "--seconds", "0.05", "--profile", "--json")
    ended = vkbench("run", *words)
    assert ended.code == 0, ended.err
    assert "2 passed" in ended.err
    assert ended.err.count("MB of device memory at most") == 2
    cases = {row["case"] for row in ended.rows}
    assert cases == {f"model/{SEEDED[0].name}/{phase}" for phase in ("pp32", "tg16")}
    assert any((row["step_case"] or "").startswith("mul_mat_vec/q4_K/") for row in ended.rows)


def test_tokens_a_second_are_shown(vkbench: Vkbench, path: Path) -> None:
    words = ("--prompt", "12", "--generate", "0", "--batch", "2", "--seconds", "0.05")
    ended = vkbench("run", "--model", str(path), *words, "--json")
    (row,) = ended.rows
    assert row["case"].endswith("/pp12/batch=2")
    assert row["tokens_per_second"] == pytest.approx(24 / row["hot_seconds"])


def test_logits_are_written(vkbench: Vkbench, path: Path, tmp_path: Path) -> None:
    file = open_gguf(path)
    words = ("--tokens", "13,9,40", "--output", str(tmp_path / "found.npz"))
    ended = vkbench("model", "logits", str(path), *words)
    assert ended.code == 0, ended.err
    with np.load(tmp_path / "found.npz") as archive:
        logits = archive["logits"]
    wanted = Reference(file=file, hyper=hyper_of(file)).logits(np.array([13, 9, 40]))
    assert (logits.dtype, logits.shape) == (np.float32, (3, VOCABULARY))
    assert np.abs(logits - wanted).max() < 1e-3 * np.abs(wanted).max()


def test_tokens_are_checked(asked: Vkbench, path: Path, tmp_path: Path) -> None:
    output = ("--output", str(tmp_path / "found.npz"))
    for words, complaint in (
        ((str(path), "--tokens", "13,61"), "token 61 is not in the vocabulary, which has 61"),
        ((str(path), "--tokens", "a"), "--tokens takes whole numbers"),
        (("nowhere.gguf", "--tokens", "1"), "cannot read nowhere.gguf"),
    ):
        ended = asked("model", "logits", *words, *output)
        assert ended.code == 2
        assert complaint in ended.err


def test_options_of_a_model_are_checked(asked: Vkbench, path: Path) -> None:
    for words, complaint in (
        (("--prompt", "64"), "are of a --model FILE"),
        (("--model", str(path), "--prompt", "64x"), "--prompt takes whole numbers"),
        (("--model", str(path), "--suite", "quick"), "--model runs a whole model: leave out"),
        (("--model", str(path), "--prompt", "0", "--generate", "0"), "are both 0"),
        (("--model", "nowhere.gguf"), "cannot read nowhere.gguf"),
    ):
        ended = asked("run", *words)
        assert ended.code == 2
        assert complaint in ended.err
