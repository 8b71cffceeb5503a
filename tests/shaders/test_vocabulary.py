"""Text as tokens: vocabularies of byte pairs and of SentencePiece."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planted_model import Tiny, Vocabulary, write_model
from vkbench.errors import UsageError
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.hyper import hash_of
from vkbench_shaders.models.vocabulary import (
    _SPLITS,
    _compile_pattern,
    begin_of,
    encoder_of,
    merge_symbols,
    split,
)

PAIRS: Vocabulary = {
    "model": "gpt2",
    "pre": "gpt-2",
    "tokens": [*"abcdeĠ!1", "ab", "Ġa", "cd", "abcd", "Ãī", "<x>", "Ġab"],
    "merges": ["a b", "Ġ a", "c d", "ab cd", "Ã ī", "Ġa b"],
    "token_type": [1] * 13 + [4, 1],
}
LETTERS = ("▁", "a", "b", "ab", "▁a", "▁ab", "ba", "▁▁")
PIECES: Vocabulary = {
    "model": "llama",
    "tokens": ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256)), *LETTERS],
    "scores": [0.0] * 258 + [-9.0, -8.0, -8.5, -2.0, -3.0, -4.0, -1.0, -0.5],
    "token_type": [2, 3] + [6] * 256 + [1] * 8,
    "bos_token_id": 1,
}


def encoder(path: Path, vocabulary: Vocabulary) -> Callable[[str], list[int]]:
    return encoder_of(open_gguf(write_model(path / "model.gguf", Tiny(), None, vocabulary)))


def said(path: Path, vocabulary: Vocabulary, text: str) -> list[str]:
    words = vocabulary["tokens"]
    assert isinstance(words, list)
    return [str(words[number]) for number in encoder(path, vocabulary)(text)]


def test_pairs_are_joined_in_the_order_of_merges(tmp_path: Path) -> None:
    assert said(tmp_path, PAIRS, "abcd ab!") == ["abcd", "Ġ", "ab", "!"]
    assert said(tmp_path, PAIRS, "É<x>a<x") == ["Ãī", "<x>", "a"]  # what is no token is left out


def test_words_are_cut_from_text() -> None:
    text = "It's  1234 o'clock!!\n\n ÉIT'S"
    ends = [" o", "'", "clock", "!!", "\n\n", " ÉIT", "'", "S"]
    assert cut("gpt-2", text) == ["It", "'s", " ", " 1234", *ends]
    assert cut("smollm", text) == ["It", "'s", "  ", *"1234", *ends]


def cut(pre: str, text: str) -> list[str]:
    return split(text, [*map(_compile_pattern, _SPLITS[pre])])


def test_later_vocabularies_cut_otherwise() -> None:
    text = "IT'S 12345 (x)\n\n y"
    wanted = ["IT", "'S", " ", "123", "45", " (", "x", ")\n\n", " y"]
    assert cut("llama-bpe", text) == wanted
    wanted[3:5] = "12345"
    assert cut("qwen2", text) == wanted


def test_whole_words_are_tokens_in_llama_3(tmp_path: Path) -> None:
    """Although no merges lead there: " ab" is " a" and "b" by merges."""
    merges = PAIRS["merges"]
    assert isinstance(merges, list)
    vocabulary = {**PAIRS, "merges": merges[:-1]}
    assert said(tmp_path, vocabulary, " ab") == ["Ġ", "ab"]
    assert said(tmp_path, {**vocabulary, "pre": "llama-bpe"}, " ab") == ["Ġab"]


def test_pieces_are_joined_by_score(tmp_path: Path) -> None:
    assert said(tmp_path, PIECES, "aba") == ["▁a", "ba"]
    assert said(tmp_path, PIECES, "  ab") == ["▁▁", "▁ab"]
    assert said(tmp_path, PIECES, "é") == ["▁", "<0xC3>", "<0xA9>"]
    assert said(tmp_path, {**PIECES, "add_space_prefix": False}, "ab") == ["ab"]


@given(st.text("ab ", max_size=40))
def test_joining_is_that_of_the_plain_rule(text: str) -> None:
    """Over and over, the best pair of all, and of equal ones the first."""
    scores = {"ab": -2.0, " a": -3.0, " ab": -4.0, "ba": -1.0, "  ": -0.5, "aa": -2.0, "aab": -2.0}
    parts = list(text)
    while True:
        ranked = [
            (-scores[one + other], at)
            for at, (one, other) in enumerate(pairwise(parts))
            if one + other in scores
        ]
        if not ranked:
            break
        _, at = min(ranked)
        parts[at : at + 2] = ["".join(parts[at : at + 2])]
    rank = {word: -score for word, score in scores.items()}
    assert merge_symbols(text, lambda one, other: rank.get(one + other)) == parts


def test_which_token_begins(tmp_path: Path) -> None:
    def begin(vocabulary: Vocabulary | None) -> int | None:
        return begin_of(open_gguf(write_model(tmp_path / "b.gguf", Tiny(), None, vocabulary)))

    assert begin(None) is None
    assert begin(PIECES) == 1
    assert begin({**PIECES, "add_bos_token": False}) is None
    assert begin({**PAIRS, "bos_token_id": 3}) is None
    assert begin({**PAIRS, "bos_token_id": 3, "pre": "llama-bpe"}) == 3


def test_vocabularies_that_are_not_known_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tokenizer.ggml.model is no_vocab; text needs"):
        encoder_of(open_gguf(write_model(tmp_path / "none.gguf", Tiny())))
    with pytest.raises(UsageError, match=r"tokenizer.ggml.pre is odd; known are gpt-2, "):
        encoder(tmp_path, {**PAIRS, "pre": "odd"})
    del (lacking := dict(PAIRS))["merges"]
    with pytest.raises(UsageError, match=r"tokenizer.ggml.merges is missing"):
        encoder(tmp_path, lacking)


def test_reading_a_vocabulary_leaves_the_hash(tmp_path: Path) -> None:
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny(), None, PAIRS))
    before = hash_of(file)
    encoder_of(file)
    assert hash_of(open_gguf(file.path)) == before
