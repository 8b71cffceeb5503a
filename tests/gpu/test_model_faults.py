"""What a model's job says when it is killed or its file is touched; that nothing else is hurt."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from planted_model import Tiny, write_model
from vkbench.job import Job, Mode, Outcome, Source
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.cases import name_of
from vkbench_shaders.models.graph import Weight
from vkbench_worker.models.execute import execute_model
from vkbench_worker.models.trial import Trial
from vkbench_worker.models.weights import Weights
from vkbench_worker.owner.supervisor import Supervisor
from vkbench_worker.runtime.vulkan.device import VulkanDevice

KERNEL = "add/f32/b1_c2_h3_w5"
MATRIX = "blk.1.ffn_down.weight"
CRASHED = Outcome.CRASHED, "SIGKILL"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny.gguf", Tiny())


def job_of(path: Path, number: int = 1) -> Job:
    return Job(
        id=number,
        token=1,
        case=f"model/{name_of(open_gguf(path))}/tg20",
        mode=Mode.PERFORMANCE,
        source=Source(path=str(path), tensor=""),
        measure_seconds=0.3,
    )


def cut(path: Path) -> None:
    os.truncate(path, open_gguf(path).tensor(MATRIX).offset + 8)


def change(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(open_gguf(path).tensor(MATRIX).offset)
        file.write(bytes(4096))


def replace_by_another(path: Path) -> None:
    write_model(path, Tiny(layers=3))


Fault = tuple[type, str, Callable[..., object]]  # the method of a class that does harm


def check(device: VulkanDevice, bundle: Bundle, path: Path, reason: str, fault: Fault) -> None:
    """A job ends as an error with the reason, leaves nothing on the device, and its next passes."""
    kinds = ("buffer", "CommandBuffer", "DescriptorPool", "QueryPool")
    before = {kind: device.live[kind] for kind in kinds}
    data, job = path.read_bytes(), job_of(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*fault)
        result = execute_model(device, bundle, job)
    assert result.outcome is Outcome.ERROR, result.reason
    assert reason in result.reason
    assert str(path) in result.reason
    assert result.timings == ()
    assert {kind: device.live[kind] for kind in kinds} == before
    path.write_bytes(data)
    assert execute_model(device, bundle, job).outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("harm", "reason"),
    [(cut, "became shorter while it was read"), (Path.unlink, "cannot read")],
    ids=["cut", "gone"],
)
def test_a_file_that_is_touched_while_it_is_loaded(
    lavapipe: VulkanDevice, bundle: Bundle, path: Path, harm: Callable[[Path], None], reason: str
) -> None:
    stored = Weights._storage_of

    def harmed(self: Weights, weight: Weight) -> object:
        if MATRIX in weight.name:
            harm(path)
        return stored(self, weight)

    check(lavapipe, bundle, path, reason, (Weights, "_storage_of", harmed))


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (cut, "became shorter while it was read"),
        (Path.unlink, "cannot read"),
        (change, "was changed while it was in use"),
        (replace_by_another, "was changed while it was in use"),
    ],
    ids=["cut", "gone", "changed", "replaced"],
)
def test_a_file_that_is_touched_before_it_is_judged(
    lavapipe: VulkanDevice, bundle: Bundle, path: Path, harm: Callable[[Path], None], reason: str
) -> None:
    """The weights on the device are right then, and the reference's are others."""
    left_again = Trial.left_again

    def harmed(self: Trial, poison: int) -> object:
        harm(path)
        return left_again(self, poison)

    check(lavapipe, bundle, path, reason, (Trial, "left_again", harmed))


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_a_runner_that_is_killed_at_any_point(gpu_settings: Settings, path: Path) -> None:
    """Costs that job, which says so; those after it pass, the same model's too."""
    kernel = Job(id=2, token=1, case=KERNEL, mode=Mode.CORRECTNESS)

    def run(supervisor: Supervisor) -> list[Result]:
        found: list[Result] = []
        supervisor.run([job_of(path), kernel, job_of(path, 3)], found.append)
        return found

    with Supervisor("llvmpipe", replace(gpu_settings, host="here")) as supervisor:
        supervisor.start()
        undisturbed = [*run(supervisor), *run(supervisor)]
        assert {each.outcome for each in undisturbed} == {Outcome.PASSED}
        seconds, killed = undisturbed[3].seconds, []
        for share in (0.02, 0.2, 0.4, 0.6, 0.8):
            killer = threading.Timer(share * seconds, kill, (supervisor.runner_pid,))
            killer.start()
            hurt = [each for each in run(supervisor) if each.outcome is not Outcome.PASSED]
            killer.join()
            assert [(each.outcome, each.reason) for each in hurt] in ([], [CRASHED])
            killed += hurt
    assert sum(each.job == 1 for each in killed) >= 2


def kill(pid: int | None) -> None:
    assert pid
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
