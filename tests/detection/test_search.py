"""The search of a bisection finds the first bad one, whatever is skipped, in few rounds."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from vkbench_detection.bisect.search import SearchSpan, Word, next_places, span, suspects


def searched(
    count: int, first_bad: int, skipped: Collection[int], devices: int
) -> tuple[dict[int, Word], int]:
    """All that a search found out, and in how many rounds."""
    words: dict[int, Word] = {}
    rounds = 0
    while places := next_places(count, words, devices):
        assert len(places) == len(set(places)) <= devices
        for place in places:
            assert 0 < place < count
            assert place not in words
            bad = Word.BAD if place >= first_bad else Word.GOOD
            words[place] = Word.SKIPPED if place in skipped else bad
        rounds += 1
        assert rounds <= count
    return words, rounds


def fewest_rounds(count: int, devices: int) -> int:
    """The end, with what other devices cut meanwhile, then parts of what is open."""
    rounds, open_places, free = 1, count - 2, devices - 1
    while open_places > 0:
        open_places = -(-(open_places - free) // (free + 1)) if open_places > free else 0
        if open_places:
            rounds += 1
        free = devices
    return rounds


@pytest.mark.parametrize("devices", [1, 2, 3, 8])
def test_any_first_bad_one_is_found(devices: int) -> None:
    for count in range(2, 41):
        for first_bad in range(1, count):
            words, rounds = searched(count, first_bad, (), devices)
            assert suspects(count, words) == [first_bad]
            assert span(count, words) == SearchSpan(low=first_bad - 1, high=first_bad)
            assert rounds <= fewest_rounds(count, devices)


@pytest.mark.parametrize("seed", range(8))
def test_skipped_ones_leave_only_themselves_in_doubt(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(400):
        count = chance.randint(2, 40)
        first_bad = chance.randint(1, count - 1)
        inner = range(1, count - 1)
        skipped = {place for place in inner if chance.random() < chance.random()}
        words, _ = searched(count, first_bad, skipped, chance.randint(1, 8))
        *doubted, last = suspects(count, words)
        assert first_bad in {*doubted, last}
        assert set(doubted) <= skipped
        assert last not in skipped
        if first_bad not in skipped and first_bad - 1 not in skipped:
            assert (doubted, last) == ([], first_bad)


def test_sixteen_take_five_rounds_of_one_device_and_two_of_four() -> None:
    assert max(searched(16, bad, (), 1)[1] for bad in range(1, 16)) == 5
    assert max(searched(16, bad, (), 4)[1] for bad in range(1, 16)) == 2


def test_the_first_of_several_changes_counts() -> None:
    words = {9: Word.BAD, 2: Word.GOOD, 4: Word.BAD, 6: Word.GOOD}
    assert span(10, words) == SearchSpan(low=2, high=4)
    assert next_places(10, words, 1) == [3]
