"""`vkbench accuracy --model`: a text, its tokens, and what models lose of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planted_model import VOCABULARY, Tiny, Vocabulary, write_model
from vkbench_shaders.gguf_file import GgufFile, open_gguf
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.perplexity import Estimate, losses, perplexity, windows
from vkbench_shaders.models.reference import Reference
from vkbench_shaders.models.requantised import retype_file

from .conftest import Vkbench

LETTERS = "".join(map(chr, range(ord("0"), ord("0") + VOCABULARY - 1)))
WORDS: Vocabulary = {
    "model": "gpt2",
    "pre": "gpt-2",
    "tokens": ["<s>", *LETTERS],
    "merges": ["s >"],
    "token_type": [3] + [1] * len(LETTERS),
    "bos_token_id": 0,
    "add_bos_token": True,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny.gguf", Tiny(), None, WORDS)


def foreseen(file: GgufFile, tokens: NDArray[np.integer], context: int) -> Estimate:
    """The perplexity in float64, of windows that begin with token 0."""
    found, half = [], context // 2
    for window in windows(tokens, context, 0):
        logits = Reference(file=file, hyper=hyper_of(file, context)).logits(window)
        found.append(losses(logits[half:-1], window[half + 1 :]))
    return perplexity(np.concatenate(found))


def test_a_text_and_its_tokens_are_read(vkbench: Vkbench, path: Path, tmp_path: Path) -> None:
    """By two files of the model, of which one has lost something; the reference says how much."""
    tokens = np.random.default_rng(5).integers(1, VOCABULARY, 70)
    text, numbers = tmp_path / "text.txt", tmp_path / "tokens.txt"
    text.write_text("".join(LETTERS[token - 1] for token in tokens))
    numbers.write_text("\n".join(map(str, tokens)))
    small = write_model(tmp_path / "small.gguf", Tiny(fmt="q4_0"), None, WORDS)
    words = ("--model", str(path), "--model", str(small), "--context", "32", "--json")
    for given in (("--text", str(text)), ("--tokens", str(numbers))):
        ended = vkbench("accuracy", *words, *given)
        assert ended.code == 0, ended.err
        for row, file in zip(ended.rows, map(open_gguf, (path, small)), strict=True):
            estimate = foreseen(file, tokens, 32)
            assert row["perplexity"] == pytest.approx(estimate.value, rel=1e-3)
            assert row["perplexity_error"] == pytest.approx(estimate.error, rel=1e-3)
            assert row["tokens"] == 30
            assert row["tokens_per_second"] > 0
        first, second = ended.rows
        assert first["loss"] is None
        assert second["loss"] == pytest.approx(second["perplexity"] / first["perplexity"] - 1)
        assert second["bits"] < first["bits"] == 32
        assert_kept(vkbench, ended.rows)


def assert_kept(vkbench: Vkbench, printed: Sequence[Mapping[str, Any]]) -> None:
    """The last run has what was printed, and models by the names that their cases have."""
    kept = vkbench("report", "accuracy", "--run", "last", "--json").rows
    for row, stored in zip(printed, kept, strict=True):
        assert stored["model"].startswith(row["model"].removesuffix(".gguf") + "-")
        for name in ("perplexity", "perplexity_error", "loss", "loss_error", "bits", "tokens"):
            assert stored[name] == row[name]
    first, *others = kept
    assert (first["base"], first["format"]) == (None, "f32")
    assert {(row["base"], row["base_format"]) for row in others} == {(first["model"], "f32")}
    assert len({row["text_sha"] for row in kept}) == 1


def test_a_model_is_quantised_and_reads_again(vkbench: Vkbench, path: Path, tmp_path: Path) -> None:
    tokens = tmp_path / "tokens.txt"
    numbers = [token % VOCABULARY for token in range(0, 715, 11)]
    tokens.write_text(" ".join(map(str, numbers)))
    words = ("--tokens", str(tokens), "--context", "32", "--json")
    types = ("--format", "f32", "--format", "q8_0", "--format", "iq4_nl")
    ended = vkbench("accuracy", "--model", str(path), *types, *words)
    assert ended.code == 0, ended.err
    plain, same, q8_0, iq4_nl = ended.rows
    assert [row["type"] for row in ended.rows] == [None, "f32", "q8_0", "iq4_nl"]
    assert_kept(vkbench, ended.rows)
    assert same["loss"] == same["loss_error"] == 0
    assert plain["bytes"] == same["bytes"] > 3 * q8_0["bytes"] > 5 * iq4_nl["bytes"]
    assert 0 < abs(q8_0["loss"]) < abs(iq4_nl["loss"])
    wanted = foreseen(retype_file(open_gguf(path), "iq4_nl"), np.array(numbers), 32)
    assert iq4_nl["perplexity"] == pytest.approx(wanted.value, rel=1e-3)


def test_losses_of_products_are_kept(asked: Vkbench, tmp_path: Path) -> None:
    """Each format of each kind of weights once, however often it was measured."""
    file = write_model(tmp_path / "plain.gguf", Tiny(fmt="f16"))
    for words in (("--rows", "4"), ("--rows", "8"), ("--gguf", str(file), "--kind", "attn_q*")):
        printed = asked("accuracy", "--format", "q8_0", "--format", "q4_0", *words, "--json").rows
    kept = asked("report", "accuracy", "--json").rows
    assert len(kept) == 2 + 3 * 2
    [named] = {row["model"] for row in kept if row["model"]}
    assert named.startswith("plain-")
    for row, stored in zip(printed, kept, strict=False):
        assert stored["model"] == named
        assert (stored["weights"], stored["format"]) == (row["kind"], row["format"])
        assert stored["output_error"] == row["output_error"]
    chosen = asked("report", "accuracy", "--model", "plain*", "--format", "q4*", "--json").rows
    assert [(row["model"], row["format"]) for row in chosen] == [(named, "q4_0")]
    ended = asked("report", "accuracy", "--format", "q9*")
    assert (ended.code, "unknown format 'q9*'" in ended.err) == (2, True)


def test_wrong_wishes_are_answered(asked: Vkbench, path: Path, tmp_path: Path) -> None:
    plain = str(write_model(tmp_path / "plain.gguf", Tiny()))
    text, tokens, latin, endless = (tmp_path / f"{name}.txt" for name in "abcd")
    text.write_text("ABCD" * 10)
    tokens.write_text("1, 2 61")
    latin.write_bytes(b"ABC\xe9")
    endless.write_text("1 " + "9" * 5000)  # more digits than Python reads
    model = ("--model", str(path))
    for words, complaint in (
        ((*model,), "either --text FILE or --tokens FILE"),
        ((*model, "--text", str(text), "--tokens", str(tokens)), "either --text FILE or --tokens"),
        ((*model, "--tokens", str(tokens)), "token 61 is not in the vocabulary, which has 61"),
        ((*model, "--tokens", str(text)), "numbers of tokens, as 13 932; got ABCD"),
        ((*model, "--tokens", str(endless)), "numbers of tokens, as 13 932; got 9999"),
        ((*model, "--text", "nowhere.txt"), "cannot read nowhere.txt"),
        ((*model, "--text", str(latin)), "is no text in UTF-8"),
        ((*model, "--text", str(text)), "40 tokens are fewer than one window of 512"),
        ((*model, "--text", str(text), "--context", "7"), "an even number from 4 on; got 7"),
        ((*model, "--text", str(text), "--rows", "4"), "leave out --gguf, --kind, --rows and"),
        ((*model, "--text", str(text), "--format", "q9"), "unknown type 'q9'"),
        (("--text", str(text)), "are of a --model FILE"),
        (("--model", plain, "--text", str(text)), "tokenizer.ggml.model is no_vocab"),
    ):
        ended = asked("accuracy", *words)
        assert ended.code == 2, ended.out
        assert complaint in " ".join(ended.err.split())
