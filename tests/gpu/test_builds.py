"""Builds of ggml as things under test: checked, timed and paired, whatever was planted in one.

They run in the Python of scripts/new-lavapipe, as test_ggml.py does and says why.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from planted_builds import add_planted, add_shipped
from vkbench.job import Arm, ArmKind, Job, Mode, Outcome, Pair
from vkbench.programs.build import Build
from vkbench.programs.program import GGML_VULKAN
from vkbench.programs.sources import open_in_place
from vkbench.programs.store import BuildStore
from vkbench.result import HOT, Result, Side, WrongArm
from vkbench.settings import Settings
from vkbench_worker.peers.processes import Peers
from vkbench_worker.protocol import Ready
from vkbench_worker.runtime.vulkan.device import VulkanDevice

PRODUCT = "mul_mat_vec/q4_0/m64_n1_k1024"
PROGRAM = "ggml-vulkan"
ROUNDED = f"{PROGRAM}:round/f32/h132_w320"  # no case of the catalogue

Add = Callable[[str], Build]
Do = Callable[[Job], Result]


@pytest.fixture(scope="module")
def host(gpu_settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Settings:
    if not Path(sys.prefix, "driver.json").exists():
        pytest.skip("runs in the Python of scripts/new-lavapipe: see test_new_lavapipe.py")
    return replace(gpu_settings, data=tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def add(host: Settings, ggml_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Add:
    """A build of the host: as it is shipped, or with a fault."""
    store, folder = BuildStore(host.build_folder()), tmp_path_factory.mktemp("planted")

    def add_build(name: str) -> Build:
        if name == "shipped":
            return add_shipped(store, ggml_folder)
        place = folder / name
        shutil.rmtree(place, ignore_errors=True)
        return add_planted(store, ggml_folder, name, place)

    return add_build


@pytest.fixture(scope="module")
def do(host: Settings, lavapipe: VulkanDevice) -> Iterator[Do]:
    """Have builds do a job, each in its process."""
    ready = Ready(facts=lavapipe.facts, environment=lavapipe.environment)
    with ThreadPoolExecutor(1) as parent:
        peers = Peers(host, parent)

        def do_job(job: Job) -> Result:
            result = peers.do_builds(job, ready, lambda: False)
            assert result
            return result

        yield do_job
        peers.close()


def job_of(build: Build, mode: Mode = Mode.PERFORMANCE, old: Build | None = None) -> Job:
    pair = Pair(old=Arm(name=old.sha, kind=ArmKind.BUILD), metric=HOT) if old else None
    return Job(
        id=7,
        token=3,
        case=PRODUCT,
        mode=Mode.PAIRED if old else mode,
        variant=PROGRAM,
        bundle=build.sha,
        arm_kind=ArmKind.BUILD,
        pair=pair,
        measure_seconds=0.2,
    )


@pytest.mark.parametrize("mode", [Mode.CORRECTNESS, Mode.PERFORMANCE])
def test_a_build_is_judged_by_our_reference_and_timed_if_asked(
    add: Add, do: Do, mode: Mode
) -> None:
    build = add("shipped")
    result = do(job_of(build, mode))
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    assert result.verdict
    assert result.verdict.nmse
    assert result.verdict.nmse < 1e-12
    assert (result.variant, result.bundle, result.kernel_sha) == (PROGRAM, build.sha, build.sha)
    metrics = [(timing.metric, timing.clock) for timing in result.timings]
    assert metrics == ([(HOT, "host")] if mode is Mode.PERFORMANCE else [])


def test_a_pair_tells_how_much_slower_a_build_is(add: Add, do: Do) -> None:
    result = do(job_of(add("slow"), old=add("shipped")))
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    old, new = result.timings
    assert (old.side, new.side) == (Side.OLD, Side.NEW)
    assert 3 < new.seconds / old.seconds < 20
    assert result.bundle == add("slow").sha


@pytest.mark.parametrize("new_first", [False, True])
def test_a_pair_names_the_build_that_is_wrong(add: Add, do: Do, new_first: bool) -> None:
    for old, new, wrong in (
        ("shipped", "wrong", WrongArm.NEW),
        ("wrong", "shipped", WrongArm.OLD),
        ("wrong", "wrong", WrongArm.BOTH),
    ):
        job = job_of(add(new), old=add(old))
        assert job.pair
        result = do(replace(job, pair=replace(job.pair, new_first=new_first)))
        assert (result.outcome, result.timings) == (Outcome.WRONG, ())
        assert result.verdict
        assert result.verdict.wrong_arm is wrong


def test_a_wrong_build_is_not_timed(add: Add, do: Do) -> None:
    result = do(job_of(add("wrong")))
    assert (result.outcome, result.timings) == (Outcome.WRONG, ())


def test_a_case_of_ggml_alone_is_judged_by_its_cpu_backend_which_the_result_says(
    add: Add, do: Do, host: Settings, ggml_folder: Path, tmp_path: Path
) -> None:
    result = do(replace(job_of(add("shipped")), case=ROUNDED))
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    assert result.settings.endswith(",judge=libggml-cpu-x64.so")
    [timing] = result.timings
    assert "judged by ggml's CPU backend of the same build" in timing.warnings
    assert result.verdict
    assert result.verdict.compared == 132 * 320
    result = do(replace(job_of(add("wrong")), case=ROUNDED))
    assert (result.outcome, result.timings) == (Outcome.WRONG, ())
    assert result.reason.endswith("(judged by ggml's CPU backend of the same build)")
    for name in ("libggml-base.so", "libggml-vulkan.so"):
        shutil.copy(ggml_folder / name, tmp_path)
    alone = add_shipped(BuildStore(host.build_folder()), tmp_path, "alone")
    result = do(replace(job_of(alone), case=ROUNDED))
    assert result.outcome is Outcome.SKIPPED
    assert result.reason.startswith("this build has no ggml-cpu for this host")
    assert do(job_of(alone)).outcome is Outcome.PASSED


def test_a_build_that_crashes_costs_its_case(add: Add, do: Do) -> None:
    for job in (job_of(add("crash")), job_of(add("crash"), old=add("shipped"))):
        result = do(job)
        assert result.outcome is Outcome.CRASHED
        assert result.reason.startswith("SIGSEGV" if not job.pair else "new: SIGSEGV")
    assert do(job_of(add("shipped"))).outcome is Outcome.PASSED


def test_a_build_that_hangs_ends_at_the_limit(add: Add, do: Do) -> None:
    result = do(replace(job_of(add("hang")), limit_seconds=5.0))
    assert (result.outcome, result.reason) == (Outcome.TIMED_OUT, "no answer within 5 s")


def test_a_build_runs_where_it_lies_while_it_is_what_it_was(
    add: Add, do: Do, host: Settings, ggml_folder: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "bin"
    shutil.copytree(ggml_folder, folder, symlinks=False)
    (folder / "libggml-cpu-mine.so").write_bytes(b"so that it is another build")
    with open_in_place(folder, GGML_VULKAN) as (root, opens):
        mine = BuildStore(host.build_folder()).add(PROGRAM, opens, folder=root)
    assert mine.folder == str(folder)
    assert do(job_of(mine)).outcome is Outcome.PASSED
    assert do(job_of(add("shipped"))).outcome is Outcome.PASSED  # the other process ends
    (folder / "libggml-cpu-mine.so").write_bytes(b"rebuilt")
    result = do(job_of(mine))
    assert result.outcome is Outcome.ERROR
    assert result.reason.startswith("libggml-cpu-mine.so of the build was changed, in ")
    (folder / "libggml-cpu-mine.so").unlink()
    assert do(job_of(mine)).reason.startswith("libggml-cpu-mine.so of the build is gone from ")
    assert do(job_of(add("shipped"))).outcome is Outcome.PASSED


def test_a_build_that_is_not_kept_is_an_error(add: Add, do: Do, host: Settings) -> None:
    build = replace(add("shipped"), files=())
    assert do(job_of(build)).reason.startswith(f"unknown build '{build.sha}'")
    kept = host.build_folder() / "files" / add("shipped").files[0].sha
    content = kept.read_bytes()
    kept.chmod(0o755)
    kept.write_bytes(b"other")
    try:
        assert "of the build was changed" in do(job_of(add_nothing(host))).reason
    finally:
        kept.write_bytes(content)


def add_nothing(host: Settings) -> Build:
    """The shipped build as it is kept."""
    return BuildStore(host.build_folder()).find("shipped")
