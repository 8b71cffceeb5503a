"""ggml as a peer: cases as tests of its program, and what becomes of its answers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import climbing_bench
import recorded_ggml
from cluster import until
from vkbench import system
from vkbench.device import NVIDIA, DeviceFacts
from vkbench.job import Job, Mode, Outcome, Source
from vkbench.result import Result, unpack_samples
from vkbench.settings import settings
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.execute import LEAST_RUNS, Ggml
from vkbench_worker.peers.llama_cpp.models import BENCH
from vkbench_worker.peers.llama_cpp.operations import ROWS, operation_of
from vkbench_worker.peers.llama_cpp.program import TESTS, environ
from vkbench_worker.protocol import Ready
from vkbench_worker.runtime.null import NullDevice

RECORDED = Path(recorded_ggml.__file__).parent / "recorded" / "test_backend_ops"
NULL = NullDevice()
LAVAPIPE = replace(NULL.facts, name="llvmpipe (LLVM 21.1.8, 256 bits)", type="cpu")
PRODUCT = "mul_mat/q4_0/m64_n17_k256"
MODEL = "model/tiny-llama-09330859b246/tg8"
GLU = "geglu/f16/b13_c11_h7_w5"

Plant = Callable[..., Ggml]


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Makes a program that answers as the real one did on lavapipe, and the peer that runs it."""

    def planted(
        facts: DeviceFacts = LAVAPIPE, number: str = "29", code: str = "", **answers: str
    ) -> Ggml:
        script = Path(recorded_ggml.__file__).read_text()
        program = tmp_path / TESTS
        program.write_text(script.replace("/usr/bin/env python3", sys.executable, 1))
        program.chmod(0o755)
        files = {"test": "right", "perf": "perf", "backends": "backends"} | answers
        told = {name: str(RECORDED / f"{file}.txt") for name, file in files.items()}
        numbers = {"number": number, "code": code}
        (tmp_path / "answers.json").write_text(json.dumps(told | numbers))
        ready = Ready(facts=facts, environment=NULL.environment)
        return Ggml(ready, replace(settings(), ggml=str(tmp_path)))

    return planted


def asked(folder: Path) -> list[str]:
    """The modes of all calls of the planted program."""
    return (folder / "asked").read_text().split()


def run(ggml: Ggml, case: str = PRODUCT, token: int = 3) -> Result:
    job = Job(id=7, token=token, case=case, mode=Mode.PERFORMANCE, measure_seconds=0.01)
    return ggml(job)


def test_a_right_case_is_timed_by_the_program(plant: Plant) -> None:
    result = run(plant())
    assert (result.outcome, result.reason, result.variant) == (Outcome.PASSED, "", "ggml")
    assert result.settings == "backend=Vulkan0,build=unknown,op=MUL_MAT"
    [timing] = result.timings
    assert (timing.metric, timing.clock, timing.launches) == ("hot", "host", 8192)
    assert timing.seconds == pytest.approx(1018.064453e-6)
    assert len(unpack_samples(timing.samples)) == timing.count == LEAST_RUNS
    assert timing.flops == problem(PRODUCT).flops
    assert timing.warnings[0].endswith("judged by its own test")


def test_each_job_is_judged_once_and_each_visit_timed(plant: Plant, tmp_path: Path) -> None:
    ggml = plant()
    run(ggml)
    run(ggml)
    assert asked(tmp_path).count("test") == 1
    run(ggml, token=4)
    assert asked(tmp_path).count("test") == 2
    assert asked(tmp_path).count("perf") == 3 * LEAST_RUNS
    assert asked(tmp_path).count("support") == 2  # its backends, and the number of MUL_MAT


def test_what_its_own_test_finds_wrong_is_not_timed(plant: Plant, tmp_path: Path) -> None:
    result = run(plant(number="100", code="1", test="wrong"), GLU)
    assert (result.outcome, result.timings) == (Outcome.WRONG, ())
    assert result.reason == "[GEGLU] ERR = 0.000000115 > 0.000000100"
    assert "perf" not in asked(tmp_path)


def test_a_timing_that_makes_no_sense_is_an_error(plant: Plant, tmp_path: Path) -> None:
    text = (RECORDED / "perf.txt").read_text()
    garbled = tmp_path / "garbled"
    garbled.with_suffix(".txt").write_text(text.replace("'1018.064453'", "'soon'"))
    result = run(plant(perf=str(garbled)))
    assert (result.outcome, result.timings) == (Outcome.ERROR, ())
    assert "time_us is 'soon', no number above 0" in result.reason


def test_what_a_backend_does_not_have_is_skipped(plant: Plant) -> None:
    result = run(plant(test="unsupported"))
    assert result.outcome is Outcome.SKIPPED
    assert result.reason == "ggml's Vulkan0 has no MUL_MAT of this case"


@pytest.mark.parametrize(
    ("case", "number", "code"),
    [(PRODUCT, "24", ""), (PRODUCT, "33", ""), (GLU, "100", "3"), (GLU, "98", "1")],
)
def test_operations_are_found_under_the_numbers_of_other_versions(
    plant: Plant, case: str, number: str, code: str
) -> None:
    assert run(plant(number=number, code=code), case).outcome is Outcome.PASSED


def test_an_operation_that_a_version_lacks_is_the_reason(plant: Plant) -> None:
    result = run(plant(number="0"))
    assert result.reason == "this test-backend-ops has no operation MUL_MAT"


def test_a_program_that_takes_too_long_is_ended(plant: Plant) -> None:
    ggml = plant()
    job = Job(id=7, token=3, case=PRODUCT, mode=Mode.PERFORMANCE, limit_seconds=0.001)
    result = ggml(job)
    assert result.outcome is Outcome.TIMED_OUT
    assert "test-backend-ops took more than" in result.reason


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


def test_a_program_that_dies_is_the_reason(plant: Plant, tmp_path: Path) -> None:
    ggml = plant()
    run(ggml)
    (tmp_path / TESTS).write_text("#!/bin/sh\necho 'GGML_ASSERT(a) failed' >&2\nkill -ABRT $$\n")
    result = run(ggml)
    assert result.outcome is Outcome.SKIPPED
    assert result.reason == "test-backend-ops ended with SIGABRT: GGML_ASSERT(a) failed"


def test_a_program_that_reads_no_tests_is_too_old(plant: Plant, tmp_path: Path) -> None:
    ggml = plant()
    (tmp_path / TESTS).write_text("#!/bin/sh\necho 'Usage: test-backend-ops'\nexit 1\n")
    assert run(ggml).reason == "this test-backend-ops is too old: it reads no tests from a file"


def test_where_there_is_no_program_the_setting_is_named(tmp_path: Path) -> None:
    ready = Ready(facts=LAVAPIPE, environment=NULL.environment)
    ggml = Ggml(ready, replace(settings(), ggml=str(tmp_path)))
    said = f"is not in {tmp_path}: VKBENCH_GGML names its folder"
    assert run(ggml).reason == f"llama.cpp's test-backend-ops {said}"
    assert run(ggml, MODEL).reason == f"llama.cpp's llama-bench {said}"


def test_the_backend_is_that_of_the_device(plant: Plant) -> None:
    card = replace(LAVAPIPE, name="NVIDIA H200", type="discrete")
    refused = run(plant(facts=card))
    assert refused.outcome is Outcome.SKIPPED
    assert refused.reason == "ggml has no backend for NVIDIA H200: it has Vulkan0, CPU"
    other = replace(LAVAPIPE, name="SwiftShader Device")
    assert run(plant(facts=other)).settings.startswith("backend=CPU,")


def test_backends_see_the_device_alone() -> None:
    card = replace(NULL.facts, type="discrete", vendor_id=NVIDIA, index=2, uuid="0c" * 16)
    found = environ(card)
    assert found["GGML_VK_VISIBLE_DEVICES"] == "2"
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-0c0c0c0c-0c0c-0c0c-0c0c-0c0c0c0c0c0c"
    assert "CUDA_VISIBLE_DEVICES" not in environ(LAVAPIPE)


@pytest.mark.parametrize(
    ("case", "line"),
    [
        (PRODUCT, "29 0 64 17 1 1 0 2 2 256 64 1 1 0 0 0 0 0 256 17 1 1 0 0 0 0 t"),
        (
            "mul_mat_id/f16/e4_u2_m33_n37_k256",
            "30 0 33 2 37 1 0 3 1 256 33 4 1 0 0 0 0 0 256 1 37 1 0 0 0 0 26 2 37 1 1 0 0 0 0 t",
        ),
        (
            "flash_attn/f16/s2_h6_g2_q3_n64_d128_e96/scale=0.5",
            f"74 0 96 6 3 2 4 {0x3F000000} 0 0 10 3 0 128 3 6 2 0 0 0 0 1 128 64 2 2 0 0 0 0 "
            "1 96 64 2 2 0 0 0 0 t",
        ),
        (
            "conv2d/f32/n1_c3_h9_w8_o4_r3_s2/padding=1,stride=2,stride_h=1",
            "56 0 5 9 4 1 6 2 1 1 1 1 1 2 0 2 3 3 4 0 0 0 0 0 8 9 3 1 0 0 0 0 t",
        ),
        ("silu/f16/b1_c2_h3_w4", "91 1 4 3 2 1 1 10 1 1 4 3 2 1 0 0 0 0 t"),
        (
            "swiglu/f32/b1_c2_h3_w4/gate=second",
            "100 0 4 3 2 1 2 2 1 1 0 8 3 2 1 0 0 0 0 t",
        ),
        (
            "rope/f32/b1_n3_h2_k8/freq_base=1.0,mode=neox",
            f"48 0 8 2 3 1 11 0 8 2 0 4096 {0x3F800000} {0x3F800000} 0 {0x3F800000} {0x42000000} "
            f"{0x3F800000} 2 0 8 2 3 1 0 0 0 0 26 3 1 1 1 0 0 0 0 t",
        ),
        ("argmax/f32/b1_c1_h5_w7", "18 26 5 1 1 1 0 1 0 7 5 1 1 0 0 0 0 t"),
        (
            "concat/f32/b2_c3_h5_w7_n4/axis=b",
            "22 0 7 5 3 6 1 3 2 0 7 5 3 2 0 0 0 0 0 7 5 3 4 0 0 0 0 t",
        ),
        ("sum/f32/b1_c2_h3_w4", "15 0 1 3 2 1 0 1 0 4 3 2 1 0 0 0 0 t"),
    ],
)
def test_a_case_is_a_line_of_the_programs_file(case: str, line: str) -> None:
    assert operation_of(problem(case)).line("t") == line


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("exp2/f32/b1_c1_h1_w8", "ggml has no exp2"),
        ("softmax/f32/b1_c2_h3_w4/mask=all", "ggml has no softmax with mask=all"),
        ("mul_mat/q4_0:x=q8_1/m32_n32_k32", "ggml has no mul_mat of q8_1"),
        ("get_rows/f16:y=f16/m9_n3_k32", "ggml has no get_rows to f16"),
        ("argmax/f32/b1_c2_h3_w4", "ggml has no argmax of several matrices"),
        ("sum/f32/b1_c2_h3_w4/axes=hw", "ggml has no sum with axes=hw"),
        ("rope/f32/b2_n3_h2_k8", "ggml has no rope of several sequences"),
        ("rope/f32/b1_n3_h2_k8/mode=mrope", "ggml has no rope with mode=mrope"),
        ("add/f32/b1_c2_h3_w4/layout=permuted", "ggml has no add with layout=permuted"),
        (
            "sqrt/f32/b1_c1_h1_w8",
            "ggml has no sqrt that its test can judge: half of its numbers are negative",
        ),
    ],
)
def test_what_ggml_does_otherwise_has_a_reason(case: str, reason: str) -> None:
    with pytest.raises(CannotDo) as refused:
        operation_of(problem(case))
    assert str(refused.value) == reason


@pytest.mark.parametrize("name", sorted(ROWS.keys() - {"sqrt", "log"}))
def test_each_row_of_the_table_has_cases(name: str) -> None:
    def is_done(case: str) -> bool:
        try:
            operation_of(problem(case))
        except CannotDo:
            return False
        return True

    assert any(is_done(case.name) for case in kernel_named(name).cases)


@pytest.fixture
def plant_bench(tmp_path: Path) -> Callable[..., Ggml]:
    """Makes a llama-bench that answers as the real one did, and the peer that runs it."""

    def planted(facts: DeviceFacts = LAVAPIPE) -> Ggml:
        folder = RECORDED.parent / "llama_bench"
        program = tmp_path / BENCH
        program.write_text(
            f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
            f"[ $1 = --list-devices ] && exec cat {folder}/devices.txt\n"
            f"exec cat {folder}/tg8.json\n"
        )
        program.chmod(0o755)
        ready = Ready(facts=facts, environment=NULL.environment)
        return Ggml(ready, replace(settings(), ggml=str(tmp_path)))

    return planted


@pytest.mark.parametrize(
    ("phase", "tokens", "about"), [("tg128", 51, "-n 51 -d 102"), ("pp512", 1, "-p 512 -n 0")]
)
def test_a_gpu_is_sampled_once_its_clock_is_up(
    tmp_path: Path, phase: str, tokens: int, about: str
) -> None:
    program = tmp_path / BENCH
    script = Path(climbing_bench.__file__).read_text()
    program.write_text(script.replace("/usr/bin/env python3", sys.executable, 1))
    program.chmod(0o755)
    card = replace(NULL.facts, name="a card", type="discrete")
    ready = Ready(facts=card, environment=NULL.environment)
    ggml = Ggml(ready, replace(settings(), ggml=str(tmp_path)))
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
    program = tmp_path / BENCH
    script = Path(climbing_bench.__file__).read_text()
    slow = script.replace("/usr/bin/env python3", sys.executable, 1).replace("2e-3", "1e-9")
    program.write_text(slow)
    program.chmod(0o755)
    card = replace(NULL.facts, name="a card", type="discrete")
    ready = Ready(facts=card, environment=NULL.environment)
    ggml = Ggml(ready, replace(settings(), ggml=str(tmp_path)))
    result = ggml(replace(of_model(), limit_seconds=1.0))
    assert (result.outcome, result.timings) == (Outcome.TIMED_OUT, ())
    assert "llama-bench" in result.reason


def of_model(case: str = MODEL) -> Job:
    source = Source(path="/models/tiny.gguf", tensor="")
    return Job(id=7, token=3, case=case, mode=Mode.PERFORMANCE, source=source)


def test_a_model_is_timed_by_llama_bench(plant_bench: Plant, tmp_path: Path) -> None:
    result = plant_bench()(of_model())
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    assert result.settings.startswith("backend=Vulkan0,build=Debian,")
    [timing] = result.timings
    [told] = json.loads((RECORDED.parent / "llama_bench" / "tg8.json").read_text())
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
