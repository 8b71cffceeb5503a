"""A runner that makes things ahead answers as one that does not, and is quiet while it times."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from io import BytesIO
from itertools import chain
from typing import Any

import pytest

from processes import state, wait_until
from vkbench.job import Job, Mode, Outcome, Source
from vkbench.result import Result
from vkbench_shaders.bundle import Bundle, packaged
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_worker.judging import shelf
from vkbench_worker.judging.preparation import Prepared, prepare
from vkbench_worker.judging.shelf import SHELF, Need
from vkbench_worker.protocol import DEVICE_LOST_STATUS, line_of, read_line
from vkbench_worker.runner.execute import execute
from vkbench_worker.runner.inbox import Inbox
from vkbench_worker.runner.main import serve
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.null import NullBuffer, NullDevice
from vkbench_worker.runtime.program import Program
from vkbench_worker.runtime.vulkan.pipelines import Pipelines
from vkbench_worker.timing import timed

CASES = (
    "copy/f32/n31",
    "add/f32/b1_c1_h1_w5",
    "no_such/f32/n1",
    "dequantize/q4_0/m1_k32",
    "dequantize/q4_1/m1_k32",
    "dequantize/q8_0/m1_k32",
    "mul_mat_vec/q4_0/m5_n1_k32",
    "mul_mat_vec/q8_0/m5_n1_k32",
)


LOSING = """
import os, sys, threading
from dataclasses import replace
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import packaged
from vkbench_worker.runner.inbox import Inbox
from vkbench_worker.protocol import line_of
from vkbench_worker.runner.main import serve
from vkbench_worker.runtime.null import NullDevice
from vkbench_worker.runtime.vulkan.pipelines import Pipelines

begun = threading.Event()

def hang(program):
    begun.set()
    threading.Event().wait()

def lose(device, bundle, job):
    assert begun.wait(10)
    return Result(job=job.id, token=job.token, outcome=Outcome.DEVICE_LOST)

device = NullDevice()
device.makes_ahead, device.make_ahead = True, Pipelines(hang, 2).make_ahead
out, into = os.pipe()
job = Job(id=1, token=1, case="copy/f32/n31", mode=Mode.CORRECTNESS)
os.write(into, line_of(job) + line_of(replace(job, id=2)))
serve(device, Inbox(out), sys.stdout.buffer, lambda sha: packaged(), lose)
"""


class Pipe:
    """A planted pipeline."""

    def close(self) -> None:
        """Nothing is held."""


class SlowDriver(NullDevice):
    """A NullDevice whose pipelines take a while, and which notes what it does meanwhile."""

    def __init__(self, refused: str = "") -> None:
        super().__init__()
        self.makes_ahead = True
        self.refused = refused
        self.timing = False
        self.compiling = 0
        self.seen: set[tuple[bool, bool]] = set()  # (timing, compiling) at launches
        self.early = 0  # pipelines made by other threads
        self._main = threading.get_ident()
        self._lock = threading.Lock()
        self.pipelines = Pipelines(self._make, 4)

    def pipeline(self, program: Program) -> Program:
        self.pipelines.get(program)
        return program

    def make_ahead(self, program: Program) -> None:
        self.pipelines.make_ahead(program)

    def stop_making(self) -> None:
        self.pipelines.stop_making()

    def dispatch(self, program: Program, buffers: Sequence[NullBuffer]) -> None:
        self.seen.add((self.timing, self.compiling > 0))
        super().dispatch(program, buffers)

    def _make(self, program: Program) -> Pipe:
        with self._lock:
            self.compiling += 1
            self.early += threading.get_ident() != self._main
        time.sleep(0.03)
        with self._lock:
            self.compiling -= 1
        assert program.problem
        if program.problem.case.name == self.refused:
            raise Unsupported(f"the driver refuses {self.refused}")
        return Pipe()


def jobs(*modes: Mode) -> list[Job]:
    return [
        Job(id=number, token=1, case=case, mode=mode, measure_seconds=0.01)
        for number, (case, mode) in enumerate(((c, m) for m in modes for c in CASES), 1)
    ]


def watched(used: Any, bundle: Bundle, job: Job) -> Result:
    """Do a job on an observed device; note there whether the job times or checks."""
    used.timing = job.mode != Mode.CORRECTNESS
    return execute(used, bundle, job)


def answers(
    device: NullDevice, work: Sequence[Job], done: Callable[..., Result] = watched
) -> list[Result]:
    """What a runner says to these jobs."""
    said, given = BytesIO(), device
    out, into = os.pipe()
    os.write(into, b"".join(map(line_of, work)))
    os.close(into)
    used: Any = given
    assert serve(used, Inbox(out), said, lambda sha: packaged(), done) == 0
    os.close(out)
    return [read_line(line, Result) for line in said.getvalue().splitlines()]


def timeless(result: Result) -> Result:
    return replace(result, started=0, seconds=0, timings=(), telemetry={})


def test_the_answers_are_the_same_and_in_order() -> None:
    device, work = SlowDriver(), jobs(Mode.CORRECTNESS)
    found = answers(device, work)
    assert list(map(timeless, found)) == list(map(timeless, answers(NullDevice(), work)))
    assert [result.job for result in found] == [job.id for job in work]
    assert (False, True) in device.seen  # something was compiled while a job ran
    assert device.early >= 5
    device.pipelines.close()


def test_nothing_is_compiled_while_a_job_is_timed() -> None:
    device, work = SlowDriver(), jobs(Mode.PERFORMANCE, Mode.CORRECTNESS)
    found = answers(device, work)
    assert [r.outcome for r in found].count(Outcome.PASSED) == 2 * (len(CASES) - 1)
    assert sum(bool(r.timings) for r in found) == len(CASES) - 1
    assert (True, False) in device.seen
    assert (True, True) not in device.seen
    assert device.early >= 4
    device.pipelines.close()


class Observed(NullDevice):
    """A NullDevice that notes at measured launches what the processes do that prepare cases."""

    def __init__(self) -> None:
        super().__init__()
        self.measuring = False
        self.seen: list[str] = []  # letters of Linux, of those that have something to do

    def dispatch(self, program: Program, buffers: Sequence[NullBuffer]) -> None:
        if self.measuring:
            self.seen += [state(each.pid) for each in SHELF.preparers if not each.is_idle]
        super().dispatch(program, buffers)


def is_preparing(cases: Sequence[str]) -> bool:
    """Whether another process has begun to prepare the first of these cases."""
    SHELF.expect(None, [Need(problem=problem(case)) for case in cases])
    return bool(SHELF.preparers[0].making)


@pytest.mark.slow
def test_nothing_is_prepared_while_a_job_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    device, own = Observed(), []

    def told(measure: Callable[..., object]) -> Callable[..., object]:
        def measured(*given: object) -> object:
            device.measuring = True
            found = measure(*given)
            device.measuring = False
            return found

        return measured

    def noted(posed: Problem, source: Source | None, path: str) -> Prepared:
        own.append(posed.case.name)
        return prepare(posed, source, path)

    def done(used: Any, bundle: Bundle, job: Job) -> Result:
        """Long cases are only fetched: the NullDevice would take as long as their references."""
        if job.case in short:
            return execute(used, bundle, job)
        SHELF.get(problem(job.case))
        return Result(job=job.id, token=job.token, outcome=Outcome.PASSED)

    for name in ("measure_hot", "measure_rounds"):
        monkeypatch.setattr(timed, name, told(getattr(timed, name)))
    monkeypatch.setattr(shelf, "prepare", noted)
    short = [f"copy/f32/n{count}" for count in (31, 32, 33)]
    long = [f"softmax/f32/b1_c1_h2048_w{width}" for width in (4093, 4094, 4095)]
    work = [
        Job(id=number, token=1, case=case, mode=Mode.PERFORMANCE, measure_seconds=0.05)
        for number, case in enumerate(chain(*zip(short, long, strict=True)), 1)
    ]
    with SHELF.helped_by(2):
        wait_until(lambda: is_preparing(long))
        found = answers(device, work, done)
    assert [result.outcome for result in found] == [Outcome.PASSED] * len(work)
    assert set(device.seen) == {"T"}
    assert not set(own) & set(long)


def test_a_refusal_is_told_by_its_own_job() -> None:
    refused = "dequantize/q8_0/m1_k32"
    device, work = SlowDriver(refused), jobs(Mode.CORRECTNESS)
    found = {result.case: result for result in answers(device, work)}
    assert found[refused].outcome is Outcome.SKIPPED
    assert found[refused].reason == f"the driver refuses {refused}"
    assert found["no_such/f32/n1"].outcome is Outcome.ERROR
    assert [r.outcome for r in found.values()].count(Outcome.PASSED) == len(CASES) - 2
    device.pipelines.close()


def test_a_lost_device_ends_it_whatever_is_being_compiled() -> None:
    done = subprocess.run([sys.executable, "-c", LOSING], capture_output=True, timeout=20)
    assert done.returncode == DEVICE_LOST_STATUS, done.stderr
    assert read_line(done.stdout, Result).outcome is Outcome.DEVICE_LOST
