"""Cases that other processes prepare: the same arrays, never while it is quiet, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

from processes import state, wait_until
from vkbench.job import Source
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_worker.judging import shelf as shelves
from vkbench_worker.judging.preparation import Prepared, prepare
from vkbench_worker.judging.preparer import Preparer
from vkbench_worker.judging.shelf import Need, Shelf
from vkbench_worker.judging.weights import WrongWeights

pytestmark = pytest.mark.slow

SMALL = "add/f32/b1_c1_h1_w5"
LONG = "softmax/f32/b1_c1_h2048_w4096"  # to prepare
ORPHAN = """
import os
from vkbench_worker.judging.preparer import Preparer
print(Preparer(threads=1).pid, flush=True)
os._exit(0)
"""


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    made = Shelf(1 << 30)
    with made.helped_by(1):
        yield made


def needs(*cases: str) -> list[Need]:
    return [Need(problem=problem(case)) for case in cases]


def deviations(posed: Problem, path: str) -> Mapping[str, np.ndarray]:
    return prepare(posed, path=path).expected.deviations


def expected(shelf: Shelf, due: Need | None, coming: Sequence[Need]) -> Shelf:
    """The shelf, which has looked at what comes."""
    shelf.expect(due, coming)
    return shelf


def made_ahead(shelf: Shelf, *cases: str) -> None:
    """Have these cases prepared by another process, and wait for it."""
    wait_until(lambda: set(cases) <= expected(shelf, None, needs(*cases)).ahead.keys())


def in_the_making(shelf: Shelf, case: str) -> Preparer:
    """The process that has begun to prepare a case."""
    wait_until(lambda: expected(shelf, None, needs(case)).preparers[0].making)
    return shelf.preparers[0]


def prepare_nothing(*_: object) -> Prepared:
    raise AssertionError("prepared by the runner itself")


def is_alive(pid: int) -> bool:
    try:
        return state(pid) != "Z"
    except FileNotFoundError:
        return False


def alike(one: Prepared, other: Prepared) -> bool:
    return (
        one.storages.keys() == other.storages.keys()
        and all(same(one.storages[name], other.storages[name]) for name in one.storages)
        and one.expected.outputs.keys() == other.expected.outputs.keys()
        and all(
            same(one.expected.outputs[name], other.expected.outputs[name])
            for name in one.expected.outputs
        )
        and listed(one.expected.rows) == listed(other.expected.rows)
    )


def listed(rows: np.ndarray | None) -> list[int] | None:
    return None if rows is None else [int(row) for row in rows]


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


@pytest.mark.parametrize(
    "case",
    [
        SMALL,
        "add/f32/b2_c3_h5_w7/layout=strided",
        "mul_mat_vec/q4_K/m4096_n1_k4096",
        "copy/f32/n0",
        "adam/f32/n600",
        "argmax/f32/b1_c1_h1_w8192",
    ],
)
def test_another_process_prepares_the_same(
    shelf: Shelf, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_ahead(shelf, case)
    monkeypatch.setattr(shelves, "prepare", prepare_nothing)
    found = shelf.get(problem(case))
    assert alike(found, prepare(problem(case)))
    assert shelf.get(problem(case)) is found
    assert not shelf.ahead


def test_small_cases_keep_no_files_open(shelf: Shelf) -> None:
    made_ahead(shelf, SMALL)
    open_files = len(os.listdir("/proc/self/fd"))
    for count in range(1, 9):
        made_ahead(shelf, case := f"copy/f32/n{count}")
        shelf.get(problem(case))
    assert len(os.listdir("/proc/self/fd")) == open_files


def test_who_needs_a_case_that_is_in_the_making_waits_for_it(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_making(shelf, LONG)
    monkeypatch.setattr(shelves, "prepare", prepare_nothing)
    assert alike(shelf.get(problem(LONG)), prepare(problem(LONG)))


def test_nobody_else_waits_for_a_case_that_is_in_the_making(shelf: Shelf) -> None:
    preparer = in_the_making(shelf, LONG)
    os.kill(preparer.pid, signal.SIGSTOP)  # it cannot answer
    try:
        shelf.expect(None, needs(LONG, "copy/f32/n4"))
        assert alike(shelf.get(problem(SMALL)), prepare(problem(SMALL)))
        assert preparer.making == LONG
    finally:
        os.kill(preparer.pid, signal.SIGCONT)


@pytest.mark.parametrize("path", ["int8", "f16_inputs"])
def test_another_process_works_out_what_rounding_does(
    shelf: Shelf, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    posed = problem("mul_mat_vec/q4_0/m64_n1_k256")
    need = Need(problem=posed, path=path)
    wait_until(lambda: expected(shelf, None, [need]).ahead)
    there = prepare(posed, path=path).expected.deviations
    monkeypatch.setattr(shelves, "prepare", prepare_nothing)
    monkeypatch.setattr(posed.kernel.check.__class__, "deviations", None)
    found = shelf.get(posed, path=path).expected.deviations
    assert found.keys() == there.keys() == {"y"}
    assert same(found["y"], there["y"])


def test_a_kept_case_gains_what_another_path_needs(shelf: Shelf) -> None:
    posed = problem("mul_mat_vec/q4_0/m64_n1_k256")
    plain = shelf.get(posed)
    rounded = shelf.get(posed, path="int8")
    assert not plain.expected.deviations
    assert rounded.storages is plain.storages
    assert same(rounded.expected.deviations["y"], deviations(posed, "int8")["y"])
    assert shelf.nbytes == rounded.nbytes > plain.nbytes
    assert shelf.get(posed, path="int8") is shelf.get(posed) is rounded
    again = shelf.get(posed, path="f16_inputs")
    assert same(again.expected.deviations["y"], deviations(posed, "f16_inputs")["y"])


def test_the_case_that_is_due_is_left_to_its_job(shelf: Shelf) -> None:
    made_ahead(shelf, SMALL)
    due, *coming = needs(LONG, "copy/f32/n4")
    wait_until(lambda: expected(shelf, due, coming) and "copy/f32/n4" in shelf.ahead)
    assert shelf.ahead.keys() == {"copy/f32/n4"}  # what no job needs any more is forgotten
    assert shelf.preparers[0].is_idle
    made_ahead(shelf, LONG)
    shelf.expect(due, coming)
    assert LONG in shelf.ahead


def test_nothing_is_prepared_while_it_is_quiet(shelf: Shelf) -> None:
    preparer = in_the_making(shelf, LONG)
    with shelf.pause_preparing():
        assert state(preparer.pid) == "T"
    wait_until(lambda: state(preparer.pid) != "T")
    assert alike(shelf.get(problem(LONG)), prepare(problem(LONG)))


def test_what_starts_stands_still_too(shelf: Shelf) -> None:
    shelf.expect(None, needs(SMALL))
    with shelf.pause_preparing():
        assert state(shelf.preparers[0].pid) == "T"
    made_ahead(shelf, SMALL)


@pytest.mark.parametrize("when", ["idle", "busy", "quiet"])
def test_a_process_that_dies_costs_nothing_but_time(shelf: Shelf, when: str) -> None:
    preparer = in_the_making(shelf, LONG)
    if when == "idle":
        made_ahead(shelf, LONG)
    os.kill(preparer.pid, signal.SIGKILL)
    if when == "quiet":
        with shelf.pause_preparing():
            pass
    for case in (LONG, SMALL):
        shelf.expect(None, needs(SMALL))
        assert alike(shelf.get(problem(case)), prepare(problem(case)))
    with shelf.pause_preparing():
        assert preparer.is_gone


def test_an_error_waits_for_its_own_job(shelf: Shelf) -> None:
    wrong = problem("mul_mat_vec/q4_0/m5_n1_k32/weights=0123456789abcdef")
    coming: list[Need] = [
        Need(problem=wrong, source=Source(path="/nowhere.gguf", tensor="x")),
        *needs(SMALL),
    ]
    wait_until(lambda: expected(shelf, None, coming) and SMALL in shelf.ahead)
    with pytest.raises(WrongWeights):
        shelf.get(wrong)


def test_what_waits_for_its_job_is_bounded(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = [f"copy/f32/n{count}" for count in (1000, 1001, 1002, 1003)]
    monkeypatch.setattr(shelves, "AHEAD_BYTES", prepare(problem(cases[0])).nbytes * 5 // 2)
    made_ahead(shelf, *cases[:2])
    shelf.expect(None, needs(*cases))
    assert shelf.preparers[0].is_idle
    shelf.get(problem(cases[0]))
    made_ahead(shelf, *cases[1:3])


def test_without_help_nothing_is_started() -> None:
    shelf = Shelf(1 << 30)
    assert not shelf.is_helped
    shelf.expect(None, needs(SMALL))
    assert not shelf.preparers
    with shelf.helped_by(2):
        shelf.expect(needs(SMALL)[0], [])
        assert not shelf.preparers


def test_processes_end_with_the_help() -> None:
    shelf = Shelf(1 << 30)
    with shelf.helped_by(2):
        shelf.expect(None, needs(SMALL))
        pids = [preparer.pid for preparer in shelf.preparers]
        assert len(pids) == 2
    assert not any(map(is_alive, pids))
    assert not shelf.preparers


def test_a_process_dies_with_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", ORPHAN], capture_output=True, timeout=20)
    wait_until(lambda: not is_alive(int(done.stdout)))
