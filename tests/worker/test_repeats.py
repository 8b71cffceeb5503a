"""vkbench drops launches whose results are in scratch already, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench_shaders.bundle import packaged
from vkbench_shaders.launch import PackedLaunch
from vkbench_worker.models.repeats import Repeats
from vkbench_worker.runtime.program import Program

LAUNCH = PackedLaunch(groups=(1, 1, 1), push=b"1234", constants=())


@pytest.fixture(scope="module")
def copy() -> Program:
    """Reads its first buffer and writes the second one."""
    entry = packaged().entry("copy/copy")
    code = packaged().code(entry.key)
    return Program(code=code, sha=entry.sha256, bindings=(0, 1), push_bytes=4, constants=())


def left(
    repeats: Repeats, program: Program, x: str, y: str, launch: PackedLaunch = LAUNCH
) -> tuple[int, str]:
    """Launches of a step that copies x to y, its scratch if so called; and where the copy is."""
    scratch = [y] if y.startswith("scratch") else []
    outputs = [] if scratch else [y]
    kept, (_, now) = repeats.drop_repeats([(program, launch)], [x, y], outputs, scratch)
    return len(kept), now


def test_what_is_in_scratch_is_not_made_again(copy: Program) -> None:
    repeats = Repeats()
    assert left(repeats, copy, "x", "scratch 1") == (1, "scratch 1")
    assert left(repeats, copy, "x", "scratch 2") == (0, "scratch 1")
    assert left(repeats, copy, "x", "scratch 3") == (0, "scratch 1")


def test_another_launch_of_the_same_code_is_no_repeat(copy: Program) -> None:
    repeats = Repeats()
    left(repeats, copy, "x", "scratch 1")
    others = (replace(LAUNCH, push=b"4321"), replace(LAUNCH, groups=(2, 1, 1)))
    for number, launch in enumerate(others, 2):
        assert left(repeats, copy, "x", f"scratch {number}", launch)[0] == 1
    assert left(repeats, replace(copy, constants=((0, 1),)), "x", "scratch 4")[0] == 1
    assert left(repeats, copy, "z", "scratch 5")[0] == 1


def test_what_was_written_meanwhile_is_read_again(copy: Program) -> None:
    repeats = Repeats()
    left(repeats, copy, "x", "scratch 1")
    left(repeats, copy, "z", "x")
    assert left(repeats, copy, "x", "scratch 2") == (1, "scratch 2")


def test_scratch_that_was_written_over_is_made_again(copy: Program) -> None:
    repeats = Repeats()
    left(repeats, copy, "x", "scratch 1")
    left(repeats, copy, "z", "scratch 1")
    assert left(repeats, copy, "x", "scratch 2") == (1, "scratch 2")


def test_writing_over_scratch_that_came_from_elsewhere_counts(copy: Program) -> None:
    """The first launch of each step is a repeat, until the second spoils what it had left."""
    repeats = Repeats()
    fill = replace(copy, bindings=(0, 1, 5)), LAUNCH
    spoil = replace(copy, bindings=(5, 1, 0)), LAUNCH
    asked = ([fill], [fill, spoil], [fill, spoil])
    found = [
        repeats.drop_repeats(passes, ["x", f"scratch {number}", "z"], [], [f"scratch {number}"])
        for number, passes in enumerate(asked)
    ]
    assert [(kept, values[1]) for kept, values in found] == [
        ([fill], "scratch 0"),
        ([spoil], "scratch 0"),
        ([fill, spoil], "scratch 2"),
    ]


def test_outputs_are_always_made(copy: Program) -> None:
    repeats = Repeats()
    assert left(repeats, copy, "x", "y") == left(repeats, copy, "x", "y") == (1, "y")


def test_code_that_does_not_tell_what_it_touches_is_always_launched(copy: Program) -> None:
    repeats, unknown = Repeats(), replace(copy, code=b"", bindings=(0, 1, 2))
    for number in range(2):
        values = ["x", "y", f"scratch {number}"]
        passes = [(unknown, LAUNCH)] * 2
        assert repeats.drop_repeats(passes, values, ["y"], values[2:]) == (passes, values)
