"""`vkbench accuracy --model`: a text, its tokens, and what models lose of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from planted_model import VOCABULARY, Tiny, Vocabulary, write_model
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.perplexity import losses, perplexity
from vkbench_shaders.models.reference import Reference

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
            hyper = hyper_of(file, 32)
            wanted = []
            for window in (tokens[:32].copy(), tokens[32:64].copy()):
                window[0] = 0
                logits = Reference(file=file, hyper=hyper).logits(window)
                wanted.append(losses(logits[16:-1], window[17:]))
            estimate = perplexity(np.concatenate(wanted))
            assert row["perplexity"] == pytest.approx(estimate.value, rel=1e-3)
            assert row["perplexity_error"] == pytest.approx(estimate.error, rel=1e-3)
            assert row["tokens"] == 30
            assert row["tokens_per_second"] > 0
        first, second = ended.rows
        assert first["loss"] is None
        assert second["loss"] == pytest.approx(second["perplexity"] / first["perplexity"] - 1)
        assert second["bits"] < first["bits"] == 32


def test_wrong_wishes_are_answered(asked: Vkbench, path: Path, tmp_path: Path) -> None:
    plain = str(write_model(tmp_path / "plain.gguf", Tiny()))
    text, tokens, latin = (tmp_path / name for name in ("a.txt", "b.txt", "c.txt"))
    text.write_text("ABCD" * 10)
    tokens.write_text("1, 2 61")
    latin.write_bytes(b"ABC\xe9")
    model = ("--model", str(path))
    for words, complaint in (
        ((*model,), "either --text FILE or --tokens FILE"),
        ((*model, "--text", str(text), "--tokens", str(tokens)), "either --text FILE or --tokens"),
        ((*model, "--tokens", str(tokens)), "token 61 is not in the vocabulary, which has 61"),
        ((*model, "--tokens", str(text)), "has to hold numbers of tokens"),
        ((*model, "--text", "nowhere.txt"), "cannot read nowhere.txt"),
        ((*model, "--text", str(latin)), "is no text in UTF-8"),
        ((*model, "--text", str(text)), "40 tokens are fewer than one window of 512"),
        ((*model, "--text", str(text), "--context", "7"), "an even number from 4 on; got 7"),
        ((*model, "--text", str(text), "--format", "q4_0"), "leave out --format"),
        (("--text", str(text)), "are of a --model FILE"),
        (("--model", plain, "--text", str(text)), "tokenizer.ggml.model is no_vocab"),
    ):
        ended = asked("accuracy", *words)
        assert ended.code == 2, ended.out
        assert complaint in " ".join(ended.err.split())
