"""A kernel that changes an array in place: its input is there before every run that is judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from planted_clock import Clock
from vkbench.case import parse
from vkbench.job import Arm, Job, Mode, Pair
from vkbench.result import Side, Verdict, unpack_samples
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Check,
    Forms,
    Kernel,
    Layout,
    Param,
    Problem,
    Work,
)
from vkbench_shaders.launch import PackedLaunch
from vkbench_worker.judging.judge import judge
from vkbench_worker.judging.preparation import prepare
from vkbench_worker.runner.variants import LaunchPlan
from vkbench_worker.runtime.device import Copy, Step
from vkbench_worker.runtime.null import (
    Function,
    NullDevice,
    NullRecording,
    Shown,
    run_reference,
)
from vkbench_worker.runtime.program import POISON_A, POISON_B, Program
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.paired import ArmBench, time_pair
from vkbench_worker.timing.summary import Timed
from vkbench_worker.timing.timed import Judged, judge_again, time_work

ROWS, COLUMNS = 5, 7


def layout(problem: Problem, binding: str) -> Layout:
    shape = problem.full_shape(binding)
    if binding == "x" or problem.params["layout"] == "contiguous":
        return Layout.contiguous(shape)
    return Layout(shape=shape, strides=(COLUMNS + 2, 1), offset=3, storage=3 + ROWS * 9)


def inputs(problem: Problem) -> dict[str, Array]:
    y = np.arange(ROWS * COLUMNS, dtype=np.float32).reshape(ROWS, COLUMNS)
    return {"y": y, "x": np.full((1, COLUMNS), -1, np.float32)}


def second_row(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    y = inputs["y"].copy()
    y[1] = inputs["x"][0]
    return {"y": y}


SET_ROW = Kernel(
    name="set_row",
    group="index",
    description="Sets the second row of y to x.",
    dims=("m", "n", "k"),
    bindings=(
        Binding(name="y", access="inout", types=("f32",), dims=("m", "k")),
        Binding(name="x", access="in", types=("f32",), dims=("n", "k")),
    ),
    variants=(),
    inputs=inputs,
    check=Check(reference=second_row),
    work=Work(flops=lambda problem: 0),
    forms=Forms(infer=lambda shapes, types: {}, layout=layout),
    cases=(),
    timed=(),
    params={"layout": Param(default="contiguous", choices=("contiguous", "strided"))},
)


def added(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    return {"y": inputs["y"] + inputs["x"]}


ADD = replace(
    SET_ROW,
    description="y = y + x",
    check=replace(SET_ROW.check, reference=added),
    work=replace(SET_ROW.work, idempotent=False),
)


class Posed:
    """The kernel on a NullDevice that computes with a function."""

    def __init__(
        self,
        function: Function,
        how: str,
        stack: ExitStack,
        kernel: Kernel = SET_ROW,
        device: NullDevice | None = None,
    ) -> None:
        params = "/layout=strided" if how == "strided" else ""
        self.problem = Problem(kernel, parse(f"set_row/f32/m{ROWS}_n1_k{COLUMNS}{params}"))
        self.device = device or NullDevice(function)
        self.prepared = prepare(self.problem)
        made = Program(
            code=b"", sha="", bindings=(0, 1), push_bytes=0, constants=(), problem=self.problem
        )
        launch = PackedLaunch(groups=(1, 1, 1), push=b"", constants=())
        plan = LaunchPlan(
            problem=self.problem, passes=[(made, launch)], scratch=(), counters=0, table=None
        )
        self.bench: Bench = Bench(self.device, plan, self.prepared.storages, stack)
        self.stack = stack

    def judged(self) -> Judged:
        first, second = self.bench.run(POISON_A), self.bench.run(POISON_B)
        verdict = judge(self.problem, "exact", first, second, self.prepared.expected)
        return Judged(verdict=verdict, first=first, second=second, expected=self.prepared.expected)

    def timed(self) -> Timed:
        job = Job(id=1, token=1, case="", mode=Mode.PERFORMANCE, measure_seconds=0.05)
        return time_work(self.device, self.bench, self.judged(), job, self.stack)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def verdict_on(function: Function, how: str, stack: ExitStack) -> Verdict:
    return Posed(function, how, stack).judged().verdict


each_layout = pytest.mark.parametrize("how", ["contiguous", "strided"])


@each_layout
def test_rows_that_are_left_alone_are_right(how: str, stack: ExitStack) -> None:
    verdict = verdict_on(run_reference, how, stack)
    assert verdict.passed, verdict.reason
    assert verdict.compared == verdict.total == ROWS * COLUMNS


@each_layout
def test_every_checked_run_finds_the_input(how: str, stack: ExitStack) -> None:
    found: list[Array] = []

    def function(posed: Problem, shown: Shown) -> None:
        found.append(posed.layout("y").view(shown["y"]).copy())
        run_reference(posed, shown)

    posed = Posed(function, how, stack)
    posed.judged()
    assert len(found) == 2
    assert all(np.array_equal(y, inputs(posed.problem)["y"]) for y in found)


@each_layout
def test_a_row_that_should_have_stayed_is_found(how: str, stack: ExitStack) -> None:
    def function(posed: Problem, shown: Shown) -> None:
        run_reference(posed, shown)
        posed.layout("y").view(shown["y"])[4, 6] = 99

    verdict = verdict_on(function, how, stack)
    assert not verdict.passed
    assert verdict.first_bad == "y[4,6]: found 99, expected 34"


def test_a_row_that_was_not_set_is_found(stack: ExitStack) -> None:
    verdict = verdict_on(lambda posed, shown: None, "contiguous", stack)
    assert not verdict.passed
    assert verdict.first_bad == "y[1,0]: found 7, expected -1"


def test_a_write_in_a_gap_is_found(stack: ExitStack) -> None:
    def function(posed: Problem, shown: Shown) -> None:
        run_reference(posed, shown)
        shown["y"][3 + COLUMNS] = 1

    verdict = verdict_on(function, "strided", stack)
    assert not verdict.passed
    assert "gaps of y" in verdict.reason


def test_a_write_behind_it_is_found(stack: ExitStack) -> None:
    def function(posed: Problem, shown: Shown) -> None:
        run_reference(posed, shown)
        shown["y"][ROWS * COLUMNS] = 1

    verdict = verdict_on(function, "contiguous", stack)
    assert not verdict.passed
    assert "guard bytes of y were overwritten" in verdict.reason


@each_layout
def test_it_is_timed_hot_and_cold(how: str, stack: ExitStack) -> None:
    timed = Posed(run_reference, how, stack).timed()
    assert timed.verdict.passed, timed.verdict.reason
    assert [timing.metric for timing in timed.timings] == ["hot", "cold"]


@pytest.mark.parametrize("lazy", ["hot", "cold"])
def test_right_bits_after_timing_come_from_the_timed_launches(lazy: str, stack: ExitStack) -> None:
    """Sets of buffers hold the input, not the output, before the launches that are timed."""
    judged_on: list[int] = []

    def function(posed: Problem, shown: Shown) -> None:
        address = shown["y"].__array_interface__["data"][0]
        if len(judged_on) < 2:
            judged_on.append(address)
            run_reference(posed, shown)
        elif (address in judged_on) != (lazy == "hot"):
            run_reference(posed, shown)

    timed = Posed(function, "contiguous", stack).timed()
    assert not timed.verdict.passed
    assert "changed while it was timed" in timed.verdict.reason
    assert timed.timings == ()


@each_layout
@pytest.mark.parametrize("clock", ["gpu", "host"])
def test_a_kernel_that_changes_its_input_finds_it_before_every_launch(
    how: str, clock: str, stack: ExitStack
) -> None:
    odd: list[Array] = []

    def function(posed: Problem, shown: Shown) -> None:
        y = posed.layout("y").view(shown["y"])
        if not np.array_equal(y, inputs(posed)["y"]):
            odd.append(y.copy())
        run_reference(posed, shown)

    posed = Posed(function, how, stack, ADD)
    posed.device.clock = clock
    timed = posed.timed()
    assert timed.verdict.passed, timed.verdict.reason
    assert [timing.metric for timing in timed.timings] == ["hot", "cold"]
    assert min(timing.count for timing in timed.timings) > 3
    assert not odd


def test_a_kernel_that_is_said_to_leave_its_output_is_wrong_if_it_does_not(
    stack: ExitStack,
) -> None:
    again = replace(ADD, work=replace(ADD.work, idempotent=True))
    timed = Posed(run_reference, "contiguous", stack, again).timed()
    assert not timed.verdict.passed
    assert "changed while it was timed" in timed.verdict.reason


def test_bringing_inputs_back_takes_none_of_a_sample(clock: Clock, stack: ExitStack) -> None:
    """A second for each array that is copied, and a millisecond for each launch."""

    class Slow(NullDevice):
        def record(self, steps: Sequence[Step]) -> NullRecording:
            return Copying(self, steps)

    class Copying(NullRecording):
        def run(self) -> list[float]:
            clock.now += sum(isinstance(step, Copy) for step in self._steps)
            return super().run()

    def function(posed: Problem, shown: Shown) -> None:
        clock.now += 1e-3
        run_reference(posed, shown)

    posed = Posed(function, "contiguous", stack, ADD, Slow(function))
    posed.device.clock = "gpu"
    for timing in posed.timed().timings:
        assert unpack_samples(timing.samples) == pytest.approx([1e-3] * timing.count)


@pytest.mark.parametrize("metric", ["hot", "cold"])
def test_pairs_find_their_input_before_every_launch(metric: str, stack: ExitStack) -> None:
    posed = Posed(run_reference, "contiguous", stack, ADD)
    judged = posed.judged()
    arm = ArmBench(bench=posed.bench, again=partial(judge_again, posed.bench, judged))
    job = Job(
        id=1,
        token=1,
        case="",
        mode=Mode.PAIRED,
        pair=Pair(old=Arm(name=""), metric=metric),
        measure_seconds=0.05,
        noise=0.0,
    )
    timed = time_pair(posed.device, {Side.OLD: arm, Side.NEW: arm}, job, stack)
    assert timed.verdict.passed, timed.verdict.reason
    assert [(timing.metric, timing.side) for timing in timed.timings] == [
        (metric, "old"),
        (metric, "new"),
    ]
