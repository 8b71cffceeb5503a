"""Code paths of several dispatches: their order, their buffers, and who they are."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import numpy as np
import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.build import units_of
from vkbench_shaders.bundle import Bundle, Entry
from vkbench_shaders.catalogue import kernel_named
from vkbench_shaders.kernel import Launch, Problem, Stage, Variant
from vkbench_worker.bench import Bench
from vkbench_worker.judge import judge
from vkbench_worker.preparation import prepare
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.null import NullDevice, Shown, run_reference
from vkbench_worker.runtime.program import POISON_A, POISON_B
from vkbench_worker.variants import Plan, choose, plan

SCRATCH = (100, 12)


def launches(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    return (
        Launch(groups=(3, 1, 1), push=struct.pack("<I", 1), entry="parts"),
        Launch(groups=(1, 1, 1), push=struct.pack("<I", 2)),
    )


VARIANT = Variant(
    name="staged", module="staged", entry="whole", arguments=lambda types: (), launch=launches,
    path="exact", more=(Stage(entry="parts"),), scratch=lambda problem, device: SCRATCH,
)  # fmt: skip
KERNEL = replace(kernel_named("copy"), variants=(VARIANT,))
POSED = Problem(KERNEL, KERNEL.cases[5])


@dataclass(frozen=True)
class Bundled:
    """A bundle with as much of the two entries as a NullDevice looks at."""

    names: tuple[str, ...] = ("parts", "whole")
    local_size: tuple[int, int, int] = (64, 1, 1)

    def entry(self, key: str) -> Entry:
        module, _, name = key.partition("/")
        assert module == "staged"
        assert name in self.names
        return Entry(
            key=key, module=module, entry=name, arguments=(), sha256=name[0] * 64, bytes=0,
            local_size=self.local_size, capabilities=(), push_bytes=4,
        )  # fmt: skip

    def code(self, key: str) -> bytes:
        return key.encode()


def planned(device: NullDevice, bundled: Bundled | None = None) -> Plan:
    bundle: Bundle = bundled or Bundled()  # type: ignore[assignment]
    return plan(bundle, POSED, choose(POSED, "auto", device.facts), device.facts)


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


def test_scratch_holds_poison_and_is_guarded(stack: ExitStack) -> None:
    seen: list[int] = []

    def function(problem: Problem, shown: Shown) -> None:
        run_reference(problem, shown)
        scratch = bench.buffers[2]
        seen.append(int(scratch.bytes.view(np.uint32)[5000 // 4]))
        scratch.bytes[4096 + SCRATCH[0] + 7] ^= 1  # behind its end

    device, prepared = NullDevice(function), prepare(POSED)
    bench = Bench(device, planned(device), prepared.storages, stack)
    assert [buffer.size for buffer in bench.buffers[2:]] == list(SCRATCH)
    assert bench.is_poisoned == [False, True, True, True]
    first, second = bench.run(POISON_A), bench.run(POISON_B)
    assert seen == [POISON_A, POISON_B]  # once a run: the last launch does the work
    verdict = judge(POSED, "exact", first, second, prepared.expected)
    assert "guard bytes of scratch 0 were overwritten" in verdict.reason


def test_a_workgroup_that_is_too_large_is_refused() -> None:
    with pytest.raises(Unsupported, match="workgroups of 2048 threads; the device's limit is 1024"):
        planned(NullDevice(), Bundled(local_size=(2048, 1, 1)))


def test_all_stages_are_compiled() -> None:
    assert [unit.entry for unit in units_of([KERNEL])] == ["parts", "whole"]
