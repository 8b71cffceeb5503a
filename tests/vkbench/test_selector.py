"""What device selectors mean, form by form; tests/cli/test_selecting.py asks every command."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from vkbench.errors import NothingToDo, UnknownName
from vkbench.selector import AmbiguousDevice, best, choose, one


@dataclass(frozen=True)
class Known:
    """A device as a selector sees it."""

    key: str
    host: str
    index: int
    name: str
    uuid: str
    type: str = "discrete"


CPU = "llvmpipe (LLVM 15.0.6, 256 bits)"
HERE = Known("a0b1c2d3e4f5", "desk", 0, CPU, "6d657361" + "0" * 24, "cpu")
FIRST = Known("a0b1ffffffff", "lab1", 0, "NVIDIA H200", "ab" * 16)
SECOND = Known("1234567890ab", "lab1", 1, "NVIDIA H200 NVL", "cd" * 16)
OTHER = Known("cafe00000001", "lab2", 0, "NVIDIA GeForce RTX 4090", "ef" * 16)
MESA = Known("cafe00000002", "lab2", 3, CPU, "6d657361" + "0" * 24, "cpu")
ALL = [HERE, FIRST, SECOND, OTHER, MESA]


@pytest.mark.parametrize(
    ("selector", "meant"),
    [
        ("*", ALL),
        (HERE.key, [HERE]),
        (HERE.key.upper(), [HERE]),
        ("ABABABAB-abab-abab-abab-abababababab", [FIRST]),
        (HERE.uuid, [HERE, MESA]),  # a driver may give every host the same
        ("NVIDIA H200", [FIRST]),  # a whole name, though it begins another
        ("h200", [FIRST, SECOND]),
        ("4090", [OTHER]),
        ("nvidia*", [FIRST, SECOND, OTHER]),
        ("*h20?", [FIRST]),
        ("0", [HERE]),  # of three: this machine's
        ("1", [SECOND]),  # the only one
        ("3", [MESA]),
        ("lab1", [FIRST, SECOND]),
        ("host:LAB1", [FIRST, SECOND]),
        ("host:lab*", [FIRST, SECOND, OTHER, MESA]),
        ("lab1/0", [FIRST]),
        ("LAB*/0", [FIRST, OTHER]),
        ("lab*/llvmpipe", [MESA]),
        ("lab2/*", [OTHER, MESA]),
        ("1234", [SECOND]),
        ("a0b1c", [HERE]),
        ("cafe00000002", [MESA]),
        (CPU, [HERE, MESA]),  # with its comma
        ("1,lab2/0", [SECOND, OTHER]),
        (" 3 , h200 ,", [FIRST, SECOND, MESA]),
    ],
)
def test_a_selector_means(selector: str, meant: list[Known]) -> None:
    assert choose([selector], ALL, "desk") == meant


def test_several_selectors_mean_each_device_once() -> None:
    assert choose(["3", "h200", "*NVL"], ALL, "desk") == [FIRST, SECOND, MESA]
    assert choose([], ALL) == ALL


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        ("0", "desk/0 .*, lab1/0 .*, lab2/0 .*: name one by its key or as HOST/INDEX"),
        ("a0b1", "desk/0 .*a0b1c2d3e4f5.*, lab1/0 .*a0b1ffffffff.*: give more of the key"),
    ],
)
def test_what_is_ambiguous_is_refused_with_the_candidates(selector: str, words: str) -> None:
    with pytest.raises(AmbiguousDevice, match=f"device '{selector}' may be {words}$"):
        choose([selector], ALL)


@pytest.mark.parametrize(
    "other",
    [
        Known("409000000000", "lab3", 2, "AMD Radeon", "01" * 16),  # begins its key
        Known("000000000000", "4090", 2, "AMD Radeon", "01" * 16),  # is its host
    ],
)
def test_a_word_that_fits_in_two_ways_is_not_guessed(other: Known) -> None:
    with pytest.raises(
        AmbiguousDevice, match=r"give '\*4090\*' for names, host:4090 for"
    ) as caught:
        choose(["4090"], [*ALL, other])
    assert f"lab2/0 (NVIDIA GeForce RTX 4090, {OTHER.key})" in str(caught.value)
    assert other.key in str(caught.value)
    assert choose(["*4090*"], [*ALL, other]) == [OTHER]


def test_many_candidates_are_counted() -> None:
    many = [Known(f"abcd{n:08x}", "lab", n, "GPU", "") for n in range(20)]
    with pytest.raises(AmbiguousDevice, match=r"lab/11 \(GPU, .*\), 8 more: give"):
        choose(["abcd"], many)


@pytest.mark.parametrize(
    ("selector", "hint"),
    [
        ("h300", "did you mean 'NVIDIA H200"),
        ("nvidia h20000", "did you mean 'NVIDIA H200"),
        ("lab3", "did you mean 'lab"),
        ("lvmpip3", "did you mean 'llvmpipe (LLVM"),
        ("7", "there is 'desk/0', 'lab1/0', 'lab1/1', 'lab2/0' or 'lab2/3'"),
        (
            "2",
            "there is 'desk/0', 'lab1/0', 'lab1/1', 'lab2/0' or 'lab2/3'",
        ),  # an index, and no part of H200
        ("a0b", "unknown device 'a0b'"),  # too little of a key
        ("lab1/5", "did you mean 'lab1'"),
        ("h200,radeonn", "unknown device 'radeonn'"),
        ("radeon", "'NVIDIA H200', 'NVIDIA H200 NVL' or 'NVIDIA GeForce"),
        ("", "unknown device ''"),
        ("host:", "unknown device 'host:'"),
    ],
)
def test_what_fits_nothing_is_met_with_the_nearest(selector: str, hint: str) -> None:
    with pytest.raises(UnknownName, match=re.escape(hint)):
        choose([selector], ALL, "desk")


def test_without_devices_nothing_can_be_chosen() -> None:
    with pytest.raises(NothingToDo, match="`vkbench worker` on a GPU host"):
        choose([], [])


def test_one_device_is_asked_for() -> None:
    assert one("4090", ALL) is OTHER
    words = f"lab1/0 (NVIDIA H200, {FIRST.key}), lab1/1 (NVIDIA H200 NVL, {SECOND.key}): name one"
    with pytest.raises(AmbiguousDevice, match=re.escape(words)):
        one("h200", ALL)


def test_the_best_is_the_first_of_the_fastest_kind() -> None:
    assert best(ALL) is FIRST
    assert best([MESA, HERE]) is HERE
