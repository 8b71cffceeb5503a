"""ggml's own libraries on a device: what they are given, how they are judged, and how they end.

Debian's lavapipe frees buffers twice where a graph has hundreds of launches, so that these run in
the Python of scripts/new-lavapipe: see test_new_lavapipe.py. They choose what ggml compiles there
within a second.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np
import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result, unpack_samples
from vkbench.settings import settings
from vkbench_shaders.bundle import packaged
from vkbench_shaders.catalogue import problem
from vkbench_worker.peers.device import PeerDevice
from vkbench_worker.peers.execute import execute_peer
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp import gauge as gauge_module
from vkbench_worker.peers.llama_cpp.api import Tensor
from vkbench_worker.peers.llama_cpp.gauge import make_gauge
from vkbench_worker.peers.llama_cpp.ggml_library import GgmlLibrary
from vkbench_worker.peers.llama_cpp.launches import Graph, Launch
from vkbench_worker.peers.processes import Peers
from vkbench_worker.protocol import Ready
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.null import NullDevice
from vkbench_worker.runtime.vulkan.device import VulkanDevice

PRODUCT = "mul_mat_vec/q4_0/m64_n1_k256"
SUM = "add/f32/b1_c2_h3_w4"


@pytest.fixture(scope="module")
def library(lavapipe: VulkanDevice, ggml_folder: Path) -> GgmlLibrary:
    if not Path(sys.prefix, "driver.json").exists():
        pytest.skip("runs in the Python of scripts/new-lavapipe: see test_new_lavapipe.py")
    return GgmlLibrary(lavapipe.facts, str(ggml_folder))


def run(
    library: GgmlLibrary, lavapipe: VulkanDevice, case: str, mode: Mode = Mode.CORRECTNESS
) -> Result:
    device = PeerDevice(library, lavapipe.facts, lavapipe.environment)
    job = Job(id=4, token=2, case=case, mode=mode, hot_only=True, measure_seconds=0.02)
    return execute_peer(library, device, packaged(), job)


@pytest.mark.parametrize("case", [SUM, "clamp/f32/b1_c2_h3_w40", PRODUCT])  # others: _rows.py
def test_ggml_is_right_by_our_inputs_and_our_judge(
    library: GgmlLibrary, lavapipe: VulkanDevice, case: str
) -> None:
    result = run(library, lavapipe, case)
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    assert result.verdict
    assert result.verdict.compared == result.verdict.total > 0


def test_a_peer_of_rows_of_launches_is_timed_by_the_host(
    library: GgmlLibrary, lavapipe: VulkanDevice
) -> None:
    result = run(library, lavapipe, SUM, Mode.PERFORMANCE)
    [timing] = result.timings
    assert (timing.metric, timing.clock) == ("hot", "host")
    assert timing.launches > 1
    assert timing.seconds == pytest.approx(np.median(unpack_samples(timing.samples)), rel=1e-6)
    assert timing.bytes_moved == problem(SUM).bytes_moved
    version, commit, digits = result.settings.removeprefix("version=").split(":")
    assert (version, commit) == (library.api.build["version"], library.api.build["commit"])
    assert len(digits) == 12


def test_variables_that_change_what_ggml_does_are_told(
    lavapipe: VulkanDevice, library: GgmlLibrary, ggml_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GGML_VK_DISABLE_COOPMAT", "1")
    told = GgmlLibrary(lavapipe.facts, str(ggml_folder)).version
    assert told == f"{library.version}:GGML_VK_DISABLE_COOPMAT_1"


def test_a_build_is_known_by_the_hash_of_its_library(
    library: GgmlLibrary, ggml_folder: Path
) -> None:
    file = ggml_folder / "libggml-vulkan.so"
    done = subprocess.run(["sha256sum", file], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(library.api.build["vulkan_sha256"])


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("exp2/f32/b1_c1_h1_w8", "ggml has no exp2"),
        ("round/f32/b1_c1_h1_w8", "ggml has no round of halves to even numbers"),
        ("elu/f32/b1_c2_h3_w4/alpha=0.5", "ggml has no elu with alpha"),
        ("cont/i64/b1_c2_h3_w4", "ggml has no cont of i64"),  # which aborts
        ("mul_mat/q4_0:x=q8_1/m32_n32_k32", "ggml has no mul_mat of x in q8_1"),
        ("quantize/q4_K/b1_m1_k256", "ggml has no quantize to q4_K with the same search"),
        ("rms_norm/f16/b1_c2_h3_w4", "ggml has no rms_norm of f16"),
        ("get_rows/f16:y=f16/m9_n3_k32", "ggml has no such operation to f16"),
        ("argmax/f32/b1_c2_h3_w4", "ggml has no argmax of several matrices"),
        ("sum/f32/b1_c2_h3_w4/axes=hw", "ggml has no sum along hw"),
        ("rope/f32/b2_n3_h2_k8", "ggml has no rope of several sequences"),
        (
            "rope/f32/b1_n3_h2_k48/mode=vision,sections=8.6.4.6",
            "ggml has no rope by more than two positions with mode=vision",
        ),
        ("add/f32/b1_c2_h3_w4/layout=permuted", "ggml is asked for whole arrays, and this case"),
        ("concat/f32/b2_c3_h5_w7_n0", "ggml is asked for no empty arrays"),
        ("sub/i32:b=i32:y=i32/b1_c2_h3_w4", "ggml's Vulkan backend does not support sub of"),
    ],
)
def test_what_ggml_does_not_do_is_skipped_with_the_reason(
    library: GgmlLibrary, lavapipe: VulkanDevice, case: str, reason: str
) -> None:
    result = run(library, lavapipe, case)
    assert result.outcome is Outcome.SKIPPED
    assert result.reason.startswith(reason)


def test_a_wrong_operation_is_found_and_not_timed(
    library: GgmlLibrary, lavapipe: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {**library.functions, "add": library.functions["sub"]}
    monkeypatch.setattr(library, "functions", MappingProxyType(wrong))
    result = run(library, lavapipe, SUM, Mode.PERFORMANCE)
    assert (result.outcome, result.timings) == (Outcome.WRONG, ())
    assert "of y are not exactly the reference" in result.reason


def test_what_is_written_outside_a_result_is_found(
    library: GgmlLibrary, lavapipe: VulkanDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node lies as far behind its result as a number is long."""
    placed = library.api.__call__

    def call(function: str, *arguments: object) -> object:
        if function == "ggml_backend_tensor_alloc" and arguments[1] in nodes:
            buffer, node, at = arguments
            return placed(function, buffer, node, int(str(at)) + 256)
        return placed(function, *arguments)

    nodes: list[object] = []
    made = library.functions["add"]

    def add(*arguments: object) -> object:
        nodes.append(made(*arguments))
        return nodes[-1]

    monkeypatch.setattr(library, "functions", MappingProxyType({**library.functions, "add": add}))
    monkeypatch.setattr(type(library.api), "__call__", lambda self, *given: call(*given))
    result = run(library, lavapipe, SUM)
    assert result.outcome is Outcome.WRONG
    assert result.verdict
    assert result.verdict.guard_bytes
    assert result.verdict.unwritten


def test_every_launch_names_another_tensor_of_x_than_the_one_before(library: GgmlLibrary) -> None:
    """The backend converts x once for all launches beside each other that name one."""
    posed = problem(PRODUCT)
    size = {name: posed.layout(name).storage * posed.item_bytes(name) for name in posed.types}
    views = {
        name: library.view(library.memory(size[name]), 0, posed.format(name), posed.layout(name))
        for name in posed.types
    }
    launch = Launch(library, "mul_mat", (views["weights"], views["x"], views["y"]))
    nodes = [Tensor.from_address(node) for [node] in launch.chains]
    x = [Tensor.from_address(node.src[1]) for node in nodes]
    assert len({node.src[1] for node in nodes}) == 2
    assert len({each.data for each in x}) == 1


def test_a_function_that_a_build_lacks_is_the_reason(library: GgmlLibrary) -> None:
    with pytest.raises(CannotDo, match="this build of ggml has no ggml_invert"):
        library.api.make_node("ggml_invert", "t", 0, ())


def test_a_device_that_ggml_does_not_see_is_the_reason(
    library: GgmlLibrary, lavapipe: VulkanDevice, ggml_folder: Path
) -> None:
    card = replace(lavapipe.facts, name="Card")
    with pytest.raises(CannotDo, match=f"ggml sees {lavapipe.facts.name[:8]}.* where Card is"):
        GgmlLibrary(card, str(ggml_folder))


@pytest.fixture
def peers(ggml_folder: Path) -> Iterator[Peers]:
    with ThreadPoolExecutor(1) as parent:
        made = Peers(replace(settings(), ggml=str(ggml_folder)), parent)
        yield made
        made.close()


@pytest.mark.usefixtures("library")
def test_a_build_that_aborts_costs_one_case(
    lavapipe: VulkanDevice, peers: Peers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no such sums in halves; here nothing keeps a case from asking for them."""
    (tmp_path / "sitecustomize.py").write_text(
        "from vkbench_worker.peers.llama_cpp import ggml_library\nggml_library.OF_SINGLES = ()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    null = NullDevice()
    ours = partial(execute, null, packaged())
    ready = Ready(facts=lavapipe.facts, environment=lavapipe.environment)
    job = Job(id=7, token=3, case="cumsum/f16/h3_w20", mode=Mode.PEER, variant="ggml")
    crashed = peers.in_turns(job, ready, ours, lambda: False)
    assert crashed
    assert crashed.outcome is Outcome.SKIPPED
    assert crashed.reason.startswith("ggml crashed: SIGABRT: ")
    assert crashed.reason.endswith("GGML_ASSERT(a->type == GGML_TYPE_F32) failed")
    again = peers.in_turns(replace(job, case=SUM, measure_seconds=0.1), ready, ours, lambda: False)
    assert again
    assert (again.outcome, again.reason) == (Outcome.PASSED, "")


def test_a_gauge_is_the_same_work_each_time(library: GgmlLibrary) -> None:
    """Its first reading is no longer than those after it: nothing is compiled by then."""
    gauge = make_gauge(library)
    first, *others = [gauge() for _ in range(3)]
    assert first < 2 * max(others)
    assert min(others) > 0


def test_a_gauge_is_long_whatever_its_first_launch_took(
    library: GgmlLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the host does for a new graph says nothing of how long it takes later."""
    calls: Counter[int] = Counter()

    def compute(graph: Graph) -> None:
        calls[id(graph)] += 1
        clock[0] += 0.05 if calls[id(graph)] < 3 else len(graph) * 1e-4

    clock = [0.0]
    monkeypatch.setattr(gauge_module, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(Graph, "__call__", compute)
    assert make_gauge(library)() == pytest.approx(0.01, rel=0.02)
