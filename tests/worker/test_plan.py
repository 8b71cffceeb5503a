"""Code paths of several dispatches: their order, their buffers, and who they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.bundle import Bundle, Entry
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.compile.build import units_of
from vkbench_shaders.kernel import Launch, Memory, Problem, Stage, Variant
from vkbench_shaders.launch import Interface, PushField, SpecConstant
from vkbench_worker.judging.judge import judge
from vkbench_worker.judging.preparation import prepare
from vkbench_worker.runner.variants import LaunchPlan, choose, plan
from vkbench_worker.runtime.device import as_own
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.null import NullBuffer, NullDevice, Shown, run_reference
from vkbench_worker.runtime.program import GUARD, POISON_A, POISON_B, SCRATCH_POISON
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.rotation import rotation
from vkbench_worker.timing.timed import check, judge_again

SCRATCH = (100, 12)
TUNED = {"THREADS": 64, "COLUMNS": 3}
TAKEN = Interface(
    push=(PushField(name="number", type="u32", offset=0),),
    constants=(
        SpecConstant(name="COLUMNS", id=0, type="u32"),
        SpecConstant(name="THREADS", id=7, type="u32"),
    ),
    sized_by=("THREADS", "", ""),
    dropped=(),
)


def launches(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    return (
        Launch(groups=(3, 1, 1), push={"number": 1}, constants=TUNED, entry="parts"),
        Launch(groups=(1, 1, 1), push={"number": 2}, constants=TUNED),
    )


VARIANT = Variant(
    name="staged", module="staged", entry="whole", arguments=lambda types: (), launch=launches,
    arithmetic="exact", more=(Stage(entry="parts"),),
    own=Memory(scratch=lambda problem, device: SCRATCH),
)  # fmt: skip
KERNEL = replace(kernel_named("copy"), variants=(VARIANT,))
POSED = Problem(KERNEL, KERNEL.cases[5])


@dataclass(frozen=True)
class Bundled:
    """A bundle with as much of the two entries as a NullDevice looks at."""

    names: tuple[str, ...] = ("parts", "whole")
    local_size: tuple[int, int, int] = (32, 1, 1)
    taken: Interface = TAKEN
    is_packaged: bool = True  # so that nobody examines its code

    def entry(self, key: str) -> Entry:
        module, _, name = key.partition("/")
        assert module == "staged"
        assert name in self.names
        return Entry(
            key=key, module=module, entry=name, arguments=(), sha256=name[0] * 64, bytes=0,
            local_size=self.local_size, capabilities=(),
        )  # fmt: skip

    def interface(self, key: str) -> Interface:
        return self.taken

    def code(self, key: str) -> bytes:
        return key.encode()


def planned(device: NullDevice, bundled: Bundled | None = None) -> LaunchPlan:
    bundle: Bundle = bundled or Bundled()  # type: ignore[assignment]
    return plan(bundle, choose(POSED, "auto", device.facts), device.facts)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def test_launches_name_their_stages_in_order() -> None:
    made = planned(NullDevice())
    assert [program.sha[0] for program, _ in made.passes] == ["p", "w"]
    assert [program.is_last for program, _ in made.passes] == [False, True]
    assert [program.bindings for program, _ in made.passes] == [(0, 1, 2, 3)] * 2
    assert made.sha not in [program.sha for program, _ in made.passes]
    assert len(made.sha) == 64


def test_launches_are_packed_as_their_code_takes_them() -> None:
    made = planned(NullDevice())
    assert [launch.push for _, launch in made.passes] == [b"\1\0\0\0", b"\2\0\0\0"]
    assert [program.push_bytes for program, _ in made.passes] == [4, 4]
    assert [program.constants for program, _ in made.passes] == [((0, 3), (7, 64))] * 2


def test_code_that_takes_something_else_is_not_launched() -> None:
    """As that of an old bundle may: the reason says which names it is about."""
    field = PushField(name="amount", type="u32", offset=0)
    with pytest.raises(Unsupported) as refused:
        planned(NullDevice(), Bundled(taken=replace(TAKEN, push=(field,))))
    assert "shaders do not fit this vkbench's kernels: staged/parts: push constants" in str(
        refused.value
    )
    assert "amount" in str(refused.value)


def test_scratch_holds_poison_and_is_guarded(stack: ExitStack) -> None:
    seen: list[int] = []

    def function(problem: Problem, shown: Shown) -> None:
        run_reference(problem, shown)
        scratch = as_own(NullBuffer, bench.buffers[2])
        seen.append(int(scratch.bytes.view(np.uint32)[5000 // 4]))
        scratch.bytes[4096 + SCRATCH[0] + 7] ^= 1  # behind its end

    device, prepared = NullDevice(function), prepare(POSED)
    bench = Bench(device, planned(device), prepared.storages, stack)
    assert [buffer.size for buffer in bench.buffers[2:]] == list(SCRATCH)
    assert bench.fills(POISON_A) == [None, POISON_A, *[SCRATCH_POISON[POISON_A]] * 2]
    first, second = bench.run(POISON_A), bench.run(POISON_B)
    poisons = [SCRATCH_POISON[POISON_A], SCRATCH_POISON[POISON_B]]
    assert seen == poisons  # once a run: the last launch does the work
    verdict = judge(POSED, "exact", first, second, prepared.expected)
    assert "guard bytes of scratch 0 were overwritten" in verdict.reason


def test_a_launch_on_another_set_of_buffers_leaves_the_same(stack: ExitStack) -> None:
    device, prepared = NullDevice(run_reference), prepare(POSED)
    bench = Bench(device, planned(device), prepared.storages, stack)
    judged = check(bench, "exact", prepared)
    sets = rotation(device, bench.buffers, bench.fills(POISON_A), 3, 0, stack).sets
    assert len(sets) >= 3
    for buffers in sets:
        device.record([*bench.work.launch(buffers)]).run()
    bench.reset(POISON_A)
    device.record([*bench.work.launch(bench.buffers)]).run()
    assert judge_again(bench, judged, sets).reason == ""


def test_counters_are_zero_before_a_launch_and_have_to_be_after_it(stack: ExitStack) -> None:
    counting = replace(VARIANT, own=replace(VARIANT.own, counters=lambda problem, device: 3))
    posed = Problem(replace(KERNEL, variants=(counting,)), POSED.case)
    seen: list[list[int]] = []
    left = [0, 5, 0, 0]

    def function(problem: Problem, shown: Shown) -> None:
        run_reference(problem, shown)
        counters = as_own(NullBuffer, bench.buffers[4]).bytes[GUARD : GUARD + 12].view(np.uint32)
        seen.append(counters.tolist())
        counters[1] = left.pop(0)

    device, prepared = NullDevice(function), prepare(posed)
    bundle: Bundle = Bundled()  # type: ignore[assignment]
    made = plan(bundle, choose(posed, "auto", device.facts), device.facts)
    assert [program.bindings for program, _ in made.passes] == [(0, 1, 2, 3, 4)] * 2
    bench = Bench(device, made, prepared.storages, stack)
    assert bench.fills(POISON_A) == [None, POISON_A, *[SCRATCH_POISON[POISON_A]] * 2, None]
    runs = [bench.run(poison) for poison in (POISON_A, POISON_A, POISON_A, POISON_B)]
    assert seen == [[0, 0, 0]] * 4
    found = [
        judge(posed, "exact", one, other, prepared.expected).reason
        for one, other in (runs[:2], runs[1:3], runs[2:])
    ]
    assert found == [*["1 of 3 counters are not zero after a launch"] * 2, ""]


def test_a_workgroup_that_is_too_large_is_refused() -> None:
    with pytest.raises(Unsupported, match="workgroups of 2048 threads; the device's limit is 1024"):
        planned(NullDevice(), Bundled(local_size=(32, 32, 1)))


def test_all_stages_are_compiled() -> None:
    assert [unit.entry for unit in units_of([KERNEL])] == ["parts", "whole"]


@pytest.mark.parametrize(
    "name", ["mul_mat_vec/q4_0/m5_n2_k512", "mul_mat_vec_id/q4_0/e4_u2_m5_n1_k256"]
)
def test_what_rounds_its_input_runs_only_by_name(name: str) -> None:
    posed = problem(name)
    facts = NullDevice(features=("int_dot", "subgroup_arithmetic")).facts
    assert choose(posed, "auto", facts).variant.name == "subgroup"
    assert choose(posed, "via_q8_1", facts).variant.name == "via_q8_1"
    assert choose(posed, "via_q8_1", NullDevice(features=()).facts).variant.name == "via_q8_1"
