"""Text as a model's tokens, by the vocabulary that a GGUF file holds, as llama.cpp does it.

`gpt2` vocabularies join pairs of bytes within words, `llama` ones (SentencePiece) pairs of
characters within all of the text. Control tokens are never made of text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from heapq import heapify, heappop, heappush
from typing import Final
from unicodedata import category

from vkbench.errors import UsageError
from vkbench_shaders.gguf_file import GgufFile, long_values

_KEY: Final = "tokenizer.ggml."
_LONG: Final = ("tokens", "merges", "scores", "token_type")
_USER_DEFINED: Final = 4  # the type of tokens that text has as they are, before all else

Encode = Callable[[str], list[int]]
Lists = Mapping[str, Sequence[object]]


def encoder_of(file: GgufFile) -> Encode:
    """What makes tokens of text for a file's model; UsageError names the key that prevents it."""
    kind = file.keys.get(f"{_KEY}model")
    if kind not in _KINDS:
        raise UsageError(
            f"{file.path}: {_KEY}model is {kind}; text needs a vocabulary of "
            f"{' or '.join(_KINDS)}, so give the numbers of its tokens"
        )
    long_lists = long_values(file.path, [f"{_KEY}{name}" for name in _LONG])
    lists = {name.removeprefix(_KEY): values for name, values in long_lists.items()}
    words = [str(word) for word in _require_list(file, lists, "tokens")]
    encode = _KINDS[str(kind)](file, words, lists)
    types = lists.get("token_type", ())
    own = [
        word for word, token_type in zip(words, types, strict=False) if token_type == _USER_DEFINED
    ]
    return _around(own, words, encode) if any(own) else encode


def _require_list(file: GgufFile, lists: Lists, name: str) -> Sequence[object]:
    if name not in lists:
        raise UsageError(f"{file.path}: {_KEY}{name} is missing")
    return lists[name]


def begin_of(file: GgufFile) -> int | None:
    """The token that stands before each text; None if the model has none."""
    pre, model = file.keys.get(f"{_KEY}pre"), file.keys.get(f"{_KEY}model")
    default = model == "llama" or _SPLITS.get(str(pre)) is _LLAMA3
    begin = file.keys.get(f"{_KEY}bos_token_id")
    if not file.keys.get(f"{_KEY}add_bos_token", default) or not isinstance(begin, int):
        return None
    return begin


def merge_symbols(symbols: Sequence[str], rank: Callable[[str, str], float | None]) -> list[str]:
    """Neighbours joined, those of the lowest rank first and of these the leftmost, while any."""
    parts: list[str | None] = [*symbols]
    before, after = [*range(-1, len(parts) - 1)], [*range(1, len(parts) + 1)]

    def rank_pair(left: int, right: int) -> Iterator[tuple[float, int, int, str, str]]:
        if left < 0 or right >= len(parts):
            return
        one, other = parts[left], parts[right]
        assert one is not None
        assert other is not None
        if (order := rank(one, other)) is not None:
            yield order, left, right, one, other

    heap = [pair for left in range(len(parts) - 1) for pair in rank_pair(left, left + 1)]
    heapify(heap)
    while heap:
        _, left, right, one, other = heappop(heap)
        if (parts[left], parts[right]) != (one, other) or after[left] != right:
            continue  # one of them was joined with another meanwhile
        parts[left], parts[right] = one + other, None
        after[left] = after[right]
        if after[left] < len(parts):
            before[after[left]] = left
        for pair in (*rank_pair(before[left], left), *rank_pair(left, after[left])):
            heappush(heap, pair)
    return [part for part in parts if part is not None]


def split(text: str, splits: Sequence[re.Pattern[str]]) -> list[str]:
    """A text cut by each expression in turn: what matches, and what lies between."""
    pieces = [text]
    for pattern in splits:
        pieces = [part for piece in pieces for part in _cut(piece, pattern)]
    return pieces


def _cut(piece: str, pattern: re.Pattern[str]) -> Iterator[str]:
    end = 0
    for match in pattern.finditer(piece):
        if end < match.start():
            yield piece[end : match.start()]
        if match.group():
            yield match.group()
        end = match.end()
    if end < len(piece):
        yield piece[end:]


def _around(own: Sequence[str], words: Sequence[str], encode: Encode) -> Encode:
    """Texts with words of their own in them: those are tokens, the longest first."""
    numbers = {word: words.index(word) for word in own}
    longest = sorted(filter(None, own), key=len, reverse=True)
    pattern = re.compile("|".join(map(re.escape, longest)))

    def around(text: str) -> list[int]:
        tokens: list[int] = []
        for piece in _cut(text, pattern):
            tokens += [numbers[piece]] if piece in numbers else encode(piece)
        return tokens

    return around


def _byte_pairs(file: GgufFile, words: Sequence[str], lists: Lists) -> Encode:
    pre = file.keys.get(f"{_KEY}pre")
    if pre not in _SPLITS:
        known = ", ".join(_SPLITS)
        raise UsageError(f"{file.path}: {_KEY}pre is {pre}; known are {known}")
    splits = [*map(_compile_pattern, _SPLITS[str(pre)])]
    whole = _SPLITS[str(pre)] is _LLAMA3  # words that are tokens are not made of parts
    numbers = {word: number for number, word in enumerate(words)}
    merges = _require_list(file, lists, "merges")
    ranks = {tuple(str(pair).split(" ", 1)): rank for rank, pair in enumerate(merges)}
    letters = _letters_of_bytes()

    @cache
    def word(text: str) -> list[int]:
        spelt = "".join(letters[byte] for byte in text.encode())
        if whole and spelt in numbers:
            return [numbers[spelt]]
        parts = merge_symbols(spelt, lambda one, other: ranks.get((one, other)))
        known = (symbol for part in parts for symbol in ([part] if part in numbers else part))
        return [numbers[symbol] for symbol in known if symbol in numbers]

    return lambda text: [number for piece in split(text, splits) for number in word(piece)]


def _sentence_pieces(file: GgufFile, words: Sequence[str], lists: Lists) -> Encode:
    numbers = {word: number for number, word in enumerate(words)}
    scores = _require_list(file, lists, "scores")
    named = file.keys.get(f"{_KEY}unknown_token_id")
    unknown = named if isinstance(named, int) else 0
    prefix = " " if file.keys.get(f"{_KEY}add_space_prefix", True) else ""

    def rank(one: str, other: str) -> float | None:
        number = numbers.get(one + other)
        return None if number is None else -float(str(scores[number]))

    def numbers_of(part: str) -> list[int]:
        if part in numbers:
            return [numbers[part]]
        return [numbers.get(f"<0x{byte:02X}>", unknown) for byte in part.encode()]

    def encode(text: str) -> list[int]:
        spelt = f"{prefix}{text}".replace(" ", "\u2581")
        return [number for part in merge_symbols(spelt, rank) for number in numbers_of(part)]

    return encode


_KINDS: Final[Mapping[str, Callable[[GgufFile, Sequence[str], Lists], Encode]]] = {
    "gpt2": _byte_pairs,
    "llama": _sentence_pieces,
}


def _letters_of_bytes() -> list[str]:
    """The letter that stands for each byte: itself if it is printable, else one from 256 on."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


# How words are cut from text, by `tokenizer.ggml.pre`; {L} and {N}: letters and numbers.
_GPT2: Final = (r"'s|'t|'re|'ve|'m|'ll|'d| ?[{L}]+| ?[{N}]+| ?[^\s{L}{N}]+|\s+(?!\S)|\s+",)
_LLAMA3: Final = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n{L}{N}]?[{L}]+|[{N}]{1,3}| ?[^\s{L}{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_QWEN2: Final = (_LLAMA3[0].replace("{1,3}", ""),)
_DIGITS: Final = ("[{N}]", *_GPT2)  # each digit alone
_SPLITS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("gpt-2", "mpt", "olmo"), _GPT2),
    **dict.fromkeys(("llama-bpe", "llama3", "llama-v3", "falcon3"), _LLAMA3),
    **dict.fromkeys(("qwen2", "deepseek-r1-qwen"), _QWEN2),
    **dict.fromkeys(("smollm", "starcoder", "refact", "command-r"), _DIGITS),
}


@cache
def _class(kind: str) -> str:
    """All characters of a Unicode category, L or N, as ranges of an expression."""
    ranges: list[list[int]] = []
    for code in range(0x110000):
        if category(chr(code))[0] != kind:
            continue
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"{re.escape(chr(a))}-{re.escape(chr(b))}" for a, b in ranges)


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("{L}", _class("L")).replace("{N}", _class("N")))
