"""Peers on this host: judged by the limits of our kernels before they are timed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from math import prod
from types import MappingProxyType, SimpleNamespace
from typing import NoReturn

import numpy as np
import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result, unpack_samples
from vkbench_shaders.bundle import packaged
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_worker.peers.device import PeerDevice
from vkbench_worker.peers.execute import execute_peer
from vkbench_worker.peers.kept import KeptBench
from vkbench_worker.peers.library import CannotDo, Library
from vkbench_worker.peers.numpy_library import FUNCTIONS, NumpyLibrary
from vkbench_worker.peers.table import ROWS, row_of
from vkbench_worker.peers.torch_library import TorchLibrary, require_cudnn, torch_for
from vkbench_worker.runtime.null import NullDevice

PRODUCT = "mul_mat/f32/m65_n33_k96"


def run(library: Library[np.ndarray], case: str, mode: Mode = Mode.CORRECTNESS) -> Result:
    null = NullDevice()
    device = PeerDevice(library, null.facts, null.environment)
    job = Job(id=4, token=2, case=case, mode=mode, hot_only=True, measure_seconds=0.05)
    return execute_peer(library, device, packaged(), job)


def does(library: Library[np.ndarray], case: str) -> bool:
    try:
        row_of(problem(case), library)
    except CannotDo:
        return False
    return True


def small(kernel: str, library: Library[np.ndarray]) -> str:
    """The largest checked case of few bytes and usual numbers that a library can do."""
    usual = [
        case
        for case in kernel_named(kernel).cases
        if case.params.get("values", "noise") == "noise"
        and prod(case.shape.values()) < 1 << 18
        and does(library, case.name)
    ]
    return max(usual, key=lambda case: prod(case.shape.values())).name


@pytest.mark.parametrize(
    "kernel", [name for name, row in ROWS.items() if row.function in FUNCTIONS]
)
def test_numpy_does_what_the_table_says(kernel: str) -> None:
    library = NumpyLibrary()
    result = run(library, small(kernel, library))
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    assert result.variant == "numpy"


def test_a_peer_is_timed_by_the_steps_of_a_kernel() -> None:
    result = run(NumpyLibrary(), PRODUCT, Mode.PERFORMANCE)
    assert result.outcome is Outcome.PASSED
    (timing,) = result.timings
    assert (timing.metric, timing.clock) == ("hot", "host")
    assert timing.seconds == pytest.approx(np.median(unpack_samples(timing.samples)), rel=1e-6)
    assert timing.flops == problem(PRODUCT).flops
    assert result.settings.startswith(f"version={np.__version__}")


class Counting(NumpyLibrary):
    """numpy, which counts the memory that lives."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def memory(self, nbytes: int) -> np.ndarray:
        self.made += nbytes > 0
        return super().memory(nbytes)


def test_what_was_checked_stays_between_the_visits_of_a_job() -> None:
    library, null, kept = Counting(), NullDevice(), KeptBench()
    device = PeerDevice(library, null.facts, null.environment)
    job = Job(id=4, token=2, case=PRODUCT, mode=Mode.CORRECTNESS, measure_seconds=0.05)

    def visit(job: Job, mode: Mode = Mode.PERFORMANCE, *, stays: bool = True) -> int:
        before, kept.stays = library.made, stays
        asked = replace(job, mode=mode, hot_only=True)
        result = execute_peer(library, device, packaged(), asked, kept=kept)
        assert (result.outcome, len(result.timings)) == (
            Outcome.PASSED,
            0 if mode is Mode.CORRECTNESS else 1,
        )
        return library.made - before

    buffers = visit(job, Mode.CORRECTNESS)
    assert buffers >= 3  # w, x and y
    assert visit(job) == 0
    assert visit(replace(job, token=3)) == buffers
    assert visit(replace(job, token=3), stays=False) == 0
    assert visit(replace(job, token=3)) == buffers
    kept.let_go()
    assert visit(replace(job, token=3)) == buffers


def test_an_output_that_changes_in_a_later_visit_is_wrong() -> None:
    library, null, kept = NumpyLibrary(), NullDevice(), KeptBench()
    device = PeerDevice(library, null.facts, null.environment)
    kept.stays = True
    case = "add/f32/b1_c1_h1_w4096"
    job = Job(id=4, token=2, case=case, mode=Mode.PERFORMANCE, hot_only=True, measure_seconds=0.05)

    def ask() -> Result:
        return execute_peer(library, device, packaged(), job, kept=kept)

    assert ask().outcome is Outcome.PASSED
    with kept.have(job, lambda stack: pytest.fail("the bench was let go")) as checked:
        checked.bench.buffer("a").upload(np.ones(4096, np.float32))
    result = ask()
    assert result.outcome is Outcome.WRONG
    assert "while it was timed" in result.reason


class Gpu(NumpyLibrary):
    """numpy as if it multiplied on a GPU, in the narrowest format of the factors."""

    widens = False


@pytest.mark.parametrize(
    ("library", "off", "outcome"),
    [
        (NumpyLibrary, 2e-3, Outcome.WRONG),
        (Gpu, 2e-3, Outcome.PASSED),
        (Gpu, 1e-2, Outcome.WRONG),
    ],
)
def test_sums_of_gpu_libraries_may_have_fewer_bits(
    library: type[NumpyLibrary], off: float, outcome: Outcome
) -> None:
    def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        np.matmul(a, b, out=out)
        out[0, 0] += off * np.sqrt(np.square(out).mean())

    made = library()
    made.functions = MappingProxyType({**FUNCTIONS, "matmul": product})
    assert run(made, PRODUCT).outcome is outcome


@pytest.mark.parametrize(("off", "outcome"), [(1.5, Outcome.PASSED), (8, Outcome.WRONG)])
def test_results_of_gpu_libraries_are_rounded_like_narrow_factors(
    off: float, outcome: Outcome
) -> None:
    """Elements are off by up to half a step of f16, and by what rounding factors does to them."""

    def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        np.matmul(a.astype(np.float32), b, out=out)
        out *= 1 + off * 2**-11

    library = Gpu()
    library.working = "f16"
    library.functions = MappingProxyType({**FUNCTIONS, "matmul": product})
    assert run(library, "mul_mat/f16/m65_n33_k96").outcome is outcome


def test_factors_of_gpu_libraries_are_not_rounded_to_tf32() -> None:
    def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        np.matmul(tf32(a), tf32(b), out=out)

    def tf32(numbers: np.ndarray) -> np.ndarray:
        return (numbers.view(np.uint32) + 0x1000 & 0xFFFFE000).view(np.float32)

    library = Gpu()
    library.functions = MappingProxyType({**FUNCTIONS, "matmul": product})
    assert run(library, PRODUCT).reason.startswith("NMSE of y is ")


@pytest.mark.parametrize(("repeats", "outcome"), [(True, Outcome.WRONG), (False, Outcome.PASSED)])
def test_a_library_may_say_that_its_bits_differ(repeats: bool, outcome: Outcome) -> None:
    rng = np.random.default_rng(1)

    def product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        np.matmul(a, b, out=out)
        out *= 1 + rng.uniform(-1e-7, 1e-7, out.shape).astype(np.float32)

    library = Gpu()
    library.repeats = repeats
    library.functions = MappingProxyType({**FUNCTIONS, "matmul": product})
    result = run(library, PRODUCT, Mode.PERFORMANCE)
    assert result.outcome is outcome, result.reason


def test_a_wrong_peer_is_not_timed() -> None:
    def off(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        np.matmul(a, b, out=out)
        out[0, 0] += 1

    library = NumpyLibrary()
    library.functions = MappingProxyType({**FUNCTIONS, "matmul": off})
    result = run(library, PRODUCT, Mode.PERFORMANCE)
    assert (result.outcome, result.timings) == (Outcome.WRONG, ())
    assert "NMSE of y" in result.reason


def test_a_peer_that_writes_nothing_is_wrong() -> None:
    library = NumpyLibrary()
    nothing: Callable[..., object] = lambda *given: None  # noqa: E731
    library.functions = MappingProxyType({**FUNCTIONS, "matmul": nothing})
    result = run(library, PRODUCT)
    assert "were never written" in result.reason


def test_blocks_become_singles_before_the_timing() -> None:
    result = run(NumpyLibrary(), "mul_mat/q4_0/m65_n33_k96")
    assert result.outcome is Outcome.PASSED
    assert result.settings.endswith(",weights=f32")
    assert result.verdict
    assert result.verdict.path == "f32"  # of exact numbers: the limits are not wider


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("conv2d/f32/n1_c1_h5_w5_o1_r3_s3", "numpy has no conv2d"),
        ("exp/bf16/b1_c1_h1_w8", "numpy has no exp of bf16"),
        ("softmax/f32/b1_c2_h3_w4/mask=all", "numpy has no softmax with mask"),
        ("mul_mat/q4_0:x=q8_1/m32_n32_k32", "numpy has no mul_mat of q8_1"),
        ("argmax/f32/b1_c2_h3_w4/axes=hw", "numpy has no argmax along hw"),
    ],
)
def test_what_a_peer_cannot_do_is_skipped_with_the_reason(case: str, reason: str) -> None:
    result = run(NumpyLibrary(), case)
    assert (result.outcome, result.reason) == (Outcome.SKIPPED, reason)


@pytest.fixture(scope="module")
def torch(need: Callable[[str, str], NoReturn]) -> None:
    """torch is here: an extra of hundreds of MB, which no set-up installs."""
    if not find_spec("torch"):
        need("torch", "it is not installed: pip install 'vkbench[peers]'")


@pytest.mark.skipif(bool(find_spec("torch")), reason="torch is installed")
def test_torch_that_is_not_installed_is_the_reason() -> None:
    with pytest.raises(CannotDo, match=r"not installed here: pip install 'vkbench\[peers\]'"):
        torch_for(NullDevice().facts)


@pytest.mark.usefixtures("torch")
def test_torch_computes_where_the_device_is() -> None:
    facts = NullDevice().facts
    assert torch_for(facts).clock == "host"
    with pytest.raises(CannotDo, match="torch does not see a card on this host"):
        torch_for(replace(facts, type="discrete", name="a card"))


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("kernel", ROWS)
def test_torch_does_what_the_table_says(kernel: str) -> None:
    library = TorchLibrary("cpu")
    if ROWS[kernel].function not in library.functions:
        assert kernel in ("gelu_quick", "step", "xielu")
        return
    result = run(library, small(kernel, library))
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")


def test_torch_without_its_cudnn_is_not_timed() -> None:
    """It would run slower kernels instead, and say nothing."""

    def find_another() -> int:
        raise RuntimeError("cuDNN version incompatibility: found (9, 14, 0). One option: another.")

    shadowed = SimpleNamespace(
        backends=SimpleNamespace(cudnn=SimpleNamespace(version=find_another))
    )
    with pytest.raises(CannotDo, match=r"which another one hides: cuDNN .* found \(9, 14, 0\)$"):
        require_cudnn(shadowed)
