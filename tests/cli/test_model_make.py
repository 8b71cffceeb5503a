"""`vkbench model make` and `ls`: a whole file or none, and one line for wrong words."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from commands import Captured, run_command
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.making import making


def test_a_model_is_made_with_other_sizes(tmp_path: Path, capsys: Captured) -> None:
    path = tmp_path / "model.gguf"
    words = ["--arch", "Qwen3", "--like", "tiny-qwen3", "--layers", "3", "--size", "vocabulary=64"]
    out, err = run_command(capsys, "model", "make", *words, "--type", "q8_0", "--output", str(path))
    assert (out[:39], err) == ("tiny-qwen3-vocabulary64-layers3 q8_0: 1", "")
    tensors = open_gguf(path).tensors
    assert tensors["token_embd.weight"].shape == (64, 256)
    assert {name.split(".")[1] for name in tensors if name.startswith("blk.")} == {"0", "1", "2"}
    assert {form.name for t in tensors.values() if (form := t.format)} == {"f32", "q8_0"}


def test_models_are_listed_with_their_sizes(capsys: Captured) -> None:
    rows = json.loads(run_command(capsys, "model", "ls", "--type", "q8_0", "--json")[0])["rows"]
    sizes = {row["name"]: (row["weights"], row["bytes"]) for row in rows}
    weights, size = sizes["llama-3-8b"]
    assert weights == 8_030_261_248
    assert size == pytest.approx(weights * 34 / 32, rel=0.01)
    pure = json.loads(run_command(capsys, "model", "ls", "--type", "q2_0", "--pure", "--json")[0])[
        "rows"
    ]
    assert all(row["bytes"] < sizes[row["name"]][1] for row in pure)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ([], "give --arch (llama, "),
        (["--arch", "bart"], "unknown architecture 'bart'; did you mean 'bert'"),
        (["--like", "tiny-lama"], "did you mean 'tiny-llama'"),
        (["--like", "tiny-llama", "--type", "q4_K_X"], "unknown type 'q4_K_X'; did you mean"),
        (["--like", "tiny-llama", "--type", "q2_0"], "unknown type 'q2_0'"),
        (["--like", "tiny-llama", "--size", "width"], "malformed --size 'width'"),
        (["--like", "tiny-llama", "--size", "width=-1"], "malformed --size 'width=-1'"),
        (["--like", "tiny-llama", "--size", "width=9,wide=1"], "unknown size 'wide'"),
        (["--like", "tiny-llama", "--layers", "0"], "--layers"),
        (["--like", "tiny-llama", "--weights", "odd"], "--weights"),
        (["--like", "tiny-llama", "--layers", "9000"], "--layers"),
        (["--like", "mixtral-8x7b"], "model.gguf would take 28.45 GB, and 5.000 GB are free"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_told_and_nothing_is_written(
    words: list[str],
    hint: str,
    tmp_path: Path,
    capsys: Captured,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=5 * 10**9))
    path = tmp_path / "model.gguf"
    out, err = run_command(capsys, "model", "make", *words, "--output", str(path), code=2)
    assert out == ""
    assert hint in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_file_that_was_not_finished(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(making, "make", full)
    path = tmp_path / "model.gguf"
    path.write_text("another")
    err = run_command(capsys, "model", "make", "--arch", "gpt2", "--output", str(path), code=4)[1]
    assert err == f"vkbench: cannot write {path}: No space left on device\n"
    assert path.read_text() == "another"
    assert list(tmp_path.iterdir()) == [path]
