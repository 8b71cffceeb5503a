"""Whole models by a build: its own llama-bench times them, contained, and reads their file."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from vkbench.job import Arm, ArmKind, Job, Mode, Outcome, Pair, Source
from vkbench.programs.build import Build
from vkbench.programs.program import GGML_VULKAN
from vkbench.programs.sources import open_build
from vkbench.programs.store import BuildStore
from vkbench.result import HOT, Side, unpack_samples
from vkbench.settings import Settings, settings
from vkbench_worker.containment.support import support
from vkbench_worker.peers.processes import Peers
from vkbench_worker.protocol import Ready
from vkbench_worker.runtime.null import NullDevice

NULL = NullDevice()
READY = Ready(facts=replace(NULL.facts, name="llvmpipe", type="cpu"), environment=NULL.environment)
# Says of its caller what files it can read: the model's (-m), and one beside it.
BENCH = """#!/bin/sh
if [ "$1" = --list-devices ]; then
  echo "  Vulkan0: llvmpipe (1 MiB, 1 MiB free)"
  exit
fi
head -c 4 "$2" >/dev/null || exit 3
seen=contained
head -c 1 SECRET >/dev/null 2>&1 && seen=escaped
cat <<EOF
[{"model_filename": "tiny", "n_prompt": 0, "n_gen": 1, "n_depth": 7, "stddev_ns": 0,
  "test_time": "2026-11-20T10:00:00Z", "samples_ns": [SAMPLES], "build_commit": "$seen"}]
EOF
"""


@pytest.fixture
def host(tmp_path: Path) -> Settings:
    return replace(settings(), data=tmp_path / "data", cache=tmp_path / "cache")


@pytest.fixture
def peers(host: Settings) -> Iterator[Peers]:
    with ThreadPoolExecutor(1) as parent:
        made = Peers(host, parent)
        yield made
        made.close()


def add_build(
    host: Settings, folder: Path, *, samples: str, has_bench: bool = True, bench: str = BENCH
) -> Build:
    """A build whose llama-bench takes so many nanoseconds."""
    folder.mkdir()
    for name in ("libggml-base.so", "libggml-vulkan.so"):
        (folder / name).write_text(samples)
    if has_bench:
        script = bench.replace("SECRET", str(folder.parent / "secret"))
        (folder / "llama-bench").write_text(script.replace("SAMPLES", samples))
        (folder / "llama-bench").chmod(stat.S_IRWXU)
    with open_build(folder, GGML_VULKAN) as opens:
        return BuildStore(host.build_folder()).add(GGML_VULKAN.name, opens, folder.name)


def job_of(build: Build, model: Path, old: Build | None = None) -> Job:
    pair = Pair(old=Arm(name=old.sha, kind=ArmKind.BUILD), metric=HOT) if old else None
    return Job(
        id=7,
        token=3,
        case="model/tiny-llama-09330859b246/tg8",
        mode=Mode.PAIRED if old else Mode.PERFORMANCE,
        variant=GGML_VULKAN.name,
        bundle=build.sha,
        arm_kind=ArmKind.BUILD,
        pair=pair,
        source=Source(path=str(model), tensor=""),
    )


@pytest.mark.skipif(not support().landlock, reason="this kernel has no Landlock")
def test_a_build_s_own_llama_bench_reads_the_model_and_nothing_beside_it(
    host: Settings, peers: Peers, tmp_path: Path
) -> None:
    build = add_build(
        host, tmp_path / "build", samples="2000000, 2000000, 2000000, 2000000, 2000000"
    )
    (tmp_path / "secret").write_text("key")
    for name in ("one.gguf", "two.gguf"):  # another file is another process
        (tmp_path / name).write_text("GGUF")
        result = peers.do_builds(job_of(build, tmp_path / name), READY, lambda: False)
        assert result
        assert (result.outcome, result.reason) == (Outcome.PASSED, "")
        assert (result.variant, result.bundle) == (GGML_VULKAN.name, build.sha)
        assert "build=contained" in result.settings
        [timing] = result.timings
        assert unpack_samples(timing.samples) == pytest.approx([2e-3] * 5)


def test_builds_of_llama_bench_are_paired(host: Settings, peers: Peers, tmp_path: Path) -> None:
    (tmp_path / "one.gguf").write_text("GGUF")
    old = add_build(host, tmp_path / "old", samples=", ".join(["2000000"] * 6))
    new = add_build(host, tmp_path / "new", samples=", ".join(["3000000"] * 6))
    result = peers.do_builds(job_of(new, tmp_path / "one.gguf", old), READY, lambda: False)
    assert result
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    seconds = {timing.side: timing.seconds for timing in result.timings}
    assert seconds == {Side.OLD: pytest.approx(2e-3), Side.NEW: pytest.approx(3e-3)}


def test_a_build_without_llama_bench_is_skipped_with_the_reason(
    host: Settings, peers: Peers, tmp_path: Path
) -> None:
    (tmp_path / "one.gguf").write_text("GGUF")
    build = add_build(host, tmp_path / "build", samples="1", has_bench=False)
    result = peers.do_builds(job_of(build, tmp_path / "one.gguf"), READY, lambda: False)
    assert result
    assert result.outcome is Outcome.SKIPPED
    assert result.reason == "this build has no llama-bench, which runs whole models"


def test_a_build_that_sees_no_vulkan_device_is_not_timed_on_the_processor(
    host: Settings, peers: Peers, tmp_path: Path
) -> None:
    (tmp_path / "one.gguf").write_text("GGUF")
    blind = BENCH.replace("  Vulkan0: llvmpipe (1 MiB, 1 MiB free)", "Available devices:")
    build = add_build(host, tmp_path / "build", samples="2000000, 2000000", bench=blind)
    result = peers.do_builds(job_of(build, tmp_path / "one.gguf"), READY, lambda: False)
    assert result
    assert result.outcome is Outcome.SKIPPED
    assert result.reason == "ggml has no backend for llvmpipe: it has none"


def test_a_build_whose_llama_bench_dies_has_crashed(
    host: Settings, peers: Peers, tmp_path: Path
) -> None:
    (tmp_path / "one.gguf").write_text("GGUF")
    dying = BENCH.replace("head -c 4", "echo last words >&2\nkill -SEGV $$\nhead -c 4")
    build = add_build(host, tmp_path / "build", samples="1", bench=dying)
    result = peers.do_builds(job_of(build, tmp_path / "one.gguf"), READY, lambda: False)
    assert result
    assert result.outcome is Outcome.CRASHED
    assert result.reason == "llama-bench ended with SIGSEGV: last words"
