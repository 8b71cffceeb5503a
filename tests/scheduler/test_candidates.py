"""What a bisection looks at: bundles whose code for the case differs from the one before."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from planted_steps import CASE as STEPPED
from planted_steps import write_single, write_steps
from vkbench.errors import UsageError
from vkbench_scheduler.planning.candidates import Built, distinct, of_bundles
from vkbench_shaders.bundle import Bundle, Entry, manifest_text
from vkbench_shaders.catalogue import problem
from vkbench_shaders.compile.build import units_for
from vkbench_shaders.own.building import build
from vkbench_shaders.own.posing import pose_case

POSED = problem("copy/f32/n64")


def bundle(code: str, *, other: str = "") -> Bundle:
    """A bundle whose code for the case is made of a word."""
    sha = hashlib.sha256(code.encode()).hexdigest()
    entries = tuple(
        Entry(
            key=unit.key,
            module=unit.module,
            entry=unit.entry,
            arguments=unit.arguments,
            sha256=sha,
            bytes=len(code),
            local_size=None,
            capabilities=(),
        )
        for unit in units_for(POSED)
    )
    return Bundle(text=manifest_text("1", other, entries, {}), blobs={sha: code.encode()})


def built(word: str) -> list[Built]:
    """`a.b` is two bundles with something between that does not compile."""
    return [
        Built(label=str(place), bundle=None if code == "." else bundle(code, other=str(place)))
        for place, code in enumerate(word)
    ]


@pytest.mark.parametrize(
    ("word", "left"),
    [
        ("ab", "01"),
        ("aabbcc", "024"),
        ("a.b", "012"),
        ("a.ab", "03"),
        ("a..b.b.c", "012367"),
        ("abab", "0123"),
        ("abbb", "01"),
    ],
)
def test_what_has_the_same_code_is_not_looked_at(word: str, left: str) -> None:
    assert "".join(candidate.label for candidate in distinct(POSED, built(word))) == left
    newest_first = distinct(POSED, built(word)[::-1], newest_first=True)
    assert "".join(candidate.label for candidate in newest_first) == left[::-1]


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("a", "needs at least two bundles"),
        ("aaa", "not the kernel that changed"),
        ("aba", "same code at both ends"),
        (".ab", "the good bundle, 0, cannot be run"),
        ("ab.", "the bad bundle, 2, cannot be run"),
    ],
)
def test_ends_that_cannot_be_compared(word: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        distinct(POSED, built(word))


def test_bundles_without_the_case_are_passed_over() -> None:
    empty = Bundle(text=manifest_text("1", "", (), {}), blobs={}, name="old")
    first, second = of_bundles(POSED, [bundle("a"), empty])
    assert first.bundle
    assert (second.bundle, second.label) == (None, "old")
    assert "has no code for copy/f32/n64" in second.note


@pytest.mark.usefixtures("glslang")
def test_a_version_may_have_more_steps_than_another(tmp_path: Path) -> None:
    single = build(write_single(tmp_path / "single"), "somebody").bundle
    steps = [build(write_steps(tmp_path / "steps"), "somebody").bundle]
    more = {'dims = ["SPLIT", "m"]': 'dims = ["SPLIT + 1", "m"]'}
    steps.append(build(write_steps(tmp_path / "larger", more), "somebody").bundle)
    posed = pose_case(single, STEPPED)
    candidates = of_bundles(posed, [single, single, *steps, steps[-1]])
    assert all(candidate.bundle for candidate in candidates)
    left = distinct(posed, candidates)
    assert [candidate.bundle for candidate in left] == [single, *steps]
