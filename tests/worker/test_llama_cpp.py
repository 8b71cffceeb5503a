"""llama.cpp's programs as a peer: whole models by llama-bench."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import climbing_bench
from cluster import until
from vkbench.device import NVIDIA, DeviceFacts
from vkbench.job import Job, Mode, Outcome, Source
from vkbench.process import system
from vkbench.result import unpack_samples
from vkbench.settings import settings
from vkbench_worker.peers.kept import KeptBench
from vkbench_worker.peers.llama_cpp.execute import Ggml
from vkbench_worker.peers.llama_cpp.models import BENCH
from vkbench_worker.peers.llama_cpp.program import environ
from vkbench_worker.protocol import Ready
from vkbench_worker.runtime.null import NullDevice

RECORDED = Path(__file__).parents[1] / "planted" / "recorded" / "llama_bench"
NULL = NullDevice()
LAVAPIPE = replace(NULL.facts, name="llvmpipe (LLVM 21.1.8, 256 bits)", type="cpu")
MODEL = "model/tiny-llama-09330859b246/tg8"

Plant = Callable[..., Ggml]


@pytest.mark.skipif(not system.IS_LINUX, reason="elsewhere the peer ends, and not what it started")
def test_a_program_ends_with_the_peer_that_started_it(tmp_path: Path) -> None:
    script, pid = tmp_path / "slow", tmp_path / "pid"
    script.write_text(f"#!/bin/sh\necho $$ > {pid}\nexec sleep 60\n")
    script.chmod(0o755)
    module = "vkbench_worker.peers.llama_cpp.program"
    words = f"from {module} import run; run([{str(script)!r}], {{}}, 60)"
    peer = subprocess.Popen([sys.executable, "-c", words])
    until(lambda: pid.exists() and pid.read_text().strip(), "it does not start", 20)
    peer.kill()
    peer.wait()
    told = Path(f"/proc/{int(pid.read_text())}/cmdline")
    until(lambda: not (told.exists() and told.read_bytes()), "it lives on", 20)


def test_backends_see_the_device_alone() -> None:
    card = replace(NULL.facts, type="discrete", vendor_id=NVIDIA, index=2, uuid="0c" * 16)
    found = environ(card)
    assert found["GGML_VK_VISIBLE_DEVICES"] == "2"
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-0c0c0c0c-0c0c-0c0c-0c0c-0c0c0c0c0c0c"
    assert "CUDA_VISIBLE_DEVICES" not in environ(LAVAPIPE)


@pytest.fixture
def plant_bench(tmp_path: Path) -> Callable[..., Ggml]:
    """Makes a llama-bench that answers as the real one did, and the peer that runs it."""

    def planted(facts: DeviceFacts = LAVAPIPE) -> Ggml:
        folder = RECORDED
        program = tmp_path / BENCH
        program.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
            f"[ $1 = --list-devices ] && exec cat {folder}/devices.txt\n"
            f"exec cat {folder}/tg8.json\n"
        )
        program.chmod(0o755)
        ready = Ready(facts=facts, environment=NULL.environment)
        return Ggml(ready, replace(settings(), ggml=str(tmp_path)), KeptBench())

    return planted


@pytest.mark.parametrize(
    ("phase", "tokens", "about"), [("tg128", 51, "-n 51 -d 102"), ("pp512", 1, "-p 512 -n 0")]
)
def test_a_gpu_is_sampled_once_its_clock_is_up(
    tmp_path: Path, phase: str, tokens: int, about: str
) -> None:
    ggml = plant_climbing(tmp_path)
    job = of_model(f"model/tiny-llama-09330859b246/{phase}")
    for _ in range(2):
        result = ggml(job)
        assert (result.outcome, result.reason) == (Outcome.PASSED, "")
        [timing] = result.timings
        samples = unpack_samples(timing.samples)
        assert max(samples) == pytest.approx(climbing_bench.TOKEN_SECONDS, rel=1e-6)
        assert len(samples) * tokens * climbing_bench.TOKEN_SECONDS >= job.measure_seconds
        assert timing.launches == tokens
    commands = (tmp_path / "asked").read_text().splitlines()
    assert about in commands[-1]
    assert len(commands) == 4  # its devices, how long a token takes, and the two visits


def test_a_clock_that_does_not_come_up_in_time_gives_no_timing(tmp_path: Path) -> None:
    ggml = plant_climbing(tmp_path, token_seconds="1e-9")
    result = ggml(replace(of_model(), limit_seconds=1.0))
    assert (result.outcome, result.timings) == (Outcome.TIMED_OUT, ())
    assert "llama-bench" in result.reason


def plant_climbing(folder: Path, token_seconds: str = "2e-3") -> Ggml:
    """Make a llama-bench on a GPU whose clock climbs, and the peer that runs it."""
    program = folder / BENCH
    script = Path(climbing_bench.__file__).read_text().replace("2e-3", token_seconds)
    program.write_text(script.replace("/usr/bin/env python3", sys.executable, 1))
    program.chmod(0o755)
    card = replace(NULL.facts, name="a card", type="discrete")
    ready = Ready(facts=card, environment=NULL.environment)
    return Ggml(ready, replace(settings(), ggml=str(folder)), KeptBench())


def of_model(case: str = MODEL) -> Job:
    source = Source(path="/models/tiny.gguf", tensor="")
    return Job(id=7, token=3, case=case, mode=Mode.PERFORMANCE, source=source)


def test_a_model_is_timed_by_llama_bench(plant_bench: Plant, tmp_path: Path) -> None:
    result = plant_bench()(of_model())
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    assert result.settings.startswith("backend=Vulkan0,build=Debian,")
    [timing] = result.timings
    [told] = json.loads((RECORDED / "tg8.json").read_text())
    assert unpack_samples(timing.samples) == pytest.approx(
        [each * 1e-9 for each in told["samples_ns"]]
    )
    assert timing.warnings[0] == "timed by llama-bench, by the host's clock, and not judged"
    [_, command] = (tmp_path / "asked").read_text().splitlines()
    assert command == (
        "-m /models/tiny.gguf -p 0 -n 1 -d 7 -ctk f16 -ctv f16 -ngl 999 -dev Vulkan0 -r 5 -o json"
    )


def test_a_prompt_is_read_on_the_processor_where_no_backend_has_the_device(
    plant_bench: Plant, tmp_path: Path
) -> None:
    plant_bench(facts=replace(LAVAPIPE, name="SwiftShader Device"))(
        of_model("model/tiny-llama-09330859b246/pp32/cache=q8_0")
    )
    [_, command] = (tmp_path / "asked").read_text().splitlines()
    assert " -p 32 -n 0 -ctk q8_0 -ctv q8_0 -ngl 0 -r 5 " in command


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (f"{MODEL}/batch=8", "llama-bench has no batch of sequences"),
        (
            f"{MODEL}/context=64",
            "llama-bench has caches of the tokens it reads, and of no other size",
        ),
    ],
)
def test_what_llama_bench_cannot_do_is_skipped(plant_bench: Plant, case: str, reason: str) -> None:
    result = plant_bench()(of_model(case))
    assert (result.outcome, result.reason) == (Outcome.SKIPPED, reason)
