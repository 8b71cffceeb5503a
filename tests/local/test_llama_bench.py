"""What llama-bench of llama.cpp prints: read in each of its forms, or refused in one line."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import damaged, fuzz, understood_or
from planted_forms import in_csv, in_sql, require_refusal, written
from planted_runs import DEVICE
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench.result import unpack_samples
from vkbench_local.peers.imported import PeerFile, PeerRun, peer_run
from vkbench_local.peers.llama_bench import PEER, check_one_model, llama_timing
from vkbench_shaders.models.making.seeded import seeded_of
from vkbench_worker.peers.llama_cpp import llama_bench_file, printed
from vkbench_worker.peers.llama_cpp.llama_bench_file import PeerTest, read_tests

# fields of llama-bench in their order, with what an H200 said of Llama 3 8B
FIELDS: dict[str, Any] = {
    "build_commit": "79c1160b0",
    "build_number": 7123,
    "cpu_info": "AMD EPYC 9654 96-Core Processor",
    "gpu_info": "NVIDIA H200",
    "backends": "Vulkan",
    "model_filename": "/models/llama-3-8b-q4_K_M.gguf",
    "model_type": "llama 8B Q4_K - Medium",
    "model_size": 4912898048,
    "model_n_params": 8030261312,
    "n_batch": 2048,
    "n_ubatch": 512,
    "type_k": "f16",
    "type_v": "f16",
    "n_gpu_layers": -1,
    "flash_attn": True,
    "n_prompt": 512,
    "n_gen": 0,
    "n_depth": 0,
    "test_time": "2026-11-22T10:00:00Z",
    "avg_ns": 45_600_000,
    "stddev_ns": 120_000,
    "avg_ts": 11228.07,
    "stddev_ts": 29.5,
}
PROMPT = FIELDS | {"samples_ns": [45_500_000, 45_600_000, 45_700_000]}
GENERATED = FIELDS | {
    "n_prompt": 0,
    "n_gen": 128,
    "avg_ns": 563_200_000,
    "stddev_ns": 1_280_000,
    "samples_ns": [563_200_000, 576_000_000, 550_400_000],
}
MODEL = "llama-3-8b-q4_K_M-0123456789ab"
H200 = replace(DEVICE, name="NVIDIA H200")


def plain(test: dict[str, Any]) -> dict[str, Any]:
    """As CSV and SQL have it: no samples, and numbers for booleans."""
    told = {name: value for name, value in test.items() if name != "samples_ns"}
    return {name: int(value) if value is True else value for name, value in told.items()}


FORMS = {
    "json": lambda tests: json.dumps(tests, indent=2),
    "jsonl": lambda tests: "".join(json.dumps(test) + "\n" for test in tests),
    "csv": lambda tests: in_csv([plain(test) for test in tests]),
    "sql": lambda tests: in_sql("llama_bench", [plain(test) for test in tests]),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_says_the_same(form: str, tmp_path: Path) -> None:
    prompt, generated = read_tests(written(tmp_path, FORMS[form]([PROMPT, GENERATED])))
    assert (prompt.prompt, prompt.generated, prompt.depth) == (512, 0, 0)
    assert (generated.prompt, generated.generated) == (0, 128)
    assert prompt.model == "llama-3-8b-q4_K_M"
    assert prompt.device == "NVIDIA H200"
    assert prompt.model_weights == 8030261312
    assert prompt.settings["build"] == "79c1160b0"
    assert prompt.settings["fa"] == "1"
    assert prompt.settings["ngl"] == "-1"
    whole = (0.0455, 0.0456, 0.0457) if "json" in form else (0.0456,)
    assert prompt.seconds == pytest.approx(whole)


def test_a_statement_s_text_may_have_quotes(tmp_path: Path) -> None:
    text = (
        FORMS["sql"]([FIELDS]).replace("'Vulkan'", "'it''s, (Vulkan);'").replace("'7123'", "7123")
    )
    (test,) = read_tests(written(tmp_path, text))
    assert test.settings["backend"] == "it_s_Vulkan_"
    assert test.settings["number"] == "7123"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "neither its JSON"),
        ("| model | size |", "a table for people; have it printed with `-o json`"),
        ("[]", "it holds no test"),
        ("[1]", "a test is no object"),
        ("[{", "malformed"),
        ("[" * 100_000, "malformed"),
        ("{}", "test 1 has no model_filename"),
        (json.dumps([PROMPT, FIELDS | {"avg_ns": 0}]), "test 2: avg_ns is '0', no time"),
        (json.dumps([FIELDS | {"avg_ns": -1}]), "avg_ns is '-1', no whole number from 0"),
        (json.dumps([FIELDS | {"avg_ns": 1e300}]), "avg_ns is '1e+300'"),
        (json.dumps([FIELDS | {"samples_ns": [float("nan")]}]), "samples_ns is '[nan]', no time"),
        (json.dumps([FIELDS | {"samples_ns": []}]), "samples_ns is '[]'"),
        (json.dumps([FIELDS | {"n_prompt": "x"}]), "n_prompt is 'x'"),
        (json.dumps([FIELDS | {"n_gen": True}]), "n_gen is 'True'"),
        (json.dumps([FIELDS | {"test_time": "today"}]), "test_time is 'today', no moment such as"),
        (json.dumps([FIELDS | {"gpu_info": "\x1b[31m"}]), "gpu_info is '\\x1b[31m'"),
        (json.dumps([FIELDS | {"model_filename": "x" * 2000}]), "no text that can be shown"),
        ("CREATE TABLE x (y);\nINSERT INTO other (a) VALUES (1);", "inserts no test"),
        ("INSERT INTO llama_bench (a, b) VALUES (1);", "1 values for 2 columns"),
        ("INSERT INTO llama_bench (a) VALUES ('1);", "values cannot be read"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, complaint: str, tmp_path: Path) -> None:
    require_refusal(read_tests, written(tmp_path, text), complaint)


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, json.dumps([FIELDS] * 3))
    monkeypatch.setattr(llama_bench_file, "MOST_TESTS", 2)
    with pytest.raises(UsageError, match="more than 2 tests"):
        read_tests(path)
    monkeypatch.setattr(printed, "MOST_BYTES", 100)
    with pytest.raises(UsageError, match="more than 100 bytes"):
        read_tests(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_tests(tmp_path / "none")


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files(form: str, tmp_path: Path) -> None:
    path = tmp_path / "bench"

    @fuzz
    @given(damaged(FORMS[form]([PROMPT]).encode()) | st.binary(max_size=64))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with understood_or():
            read_tests(path)

    check()


def run_of(
    tests: list[PeerTest],
    devices: list[DeviceFacts],
    models: list[str],
    device: DeviceFacts | None = None,
    model: str = "",
) -> PeerRun:
    timing_of = partial(llama_timing, models, model)
    return peer_run(PeerFile(peer=PEER, label="x"), tests, timing_of, devices, device)


def read_back(tmp_path: Path, *tests: dict[str, Any]) -> list[PeerTest]:
    return read_tests(written(tmp_path, json.dumps(tests)))


def test_a_peer_s_times_are_those_of_our_cases(tmp_path: Path) -> None:
    """Seconds of a whole prompt, and of one token."""
    found = run_of(read_back(tmp_path, PROMPT, GENERATED), [DEVICE, H200], [MODEL])
    jobs = [line.record for line in found.records if line.kind == "job"]
    assert [job.case for job in jobs] == [f"model/{MODEL}/pp512", f"model/{MODEL}/tg128"]
    assert {(job.device, job.variant) for job in jobs} == {(H200.key, PEER)}
    prompt, token = (job.timings[0] for job in jobs)
    assert prompt.seconds == pytest.approx(0.0456)
    assert token.seconds == pytest.approx(0.0044)
    assert (prompt.count, token.launches) == (3, 1)
    assert unpack_samples(token.samples) == pytest.approx([0.0044, 0.0045, 0.0043])
    assert token.low < token.seconds < token.high


def test_a_mean_has_the_deviation_that_the_file_tells(tmp_path: Path) -> None:
    (test,) = read_tests(written(tmp_path, FORMS["csv"]([GENERATED])))
    found = run_of([test], [], [], H200, MODEL)
    [job] = [line.record for line in found.records if line.kind == "job"]
    (timing,) = job.timings
    assert timing.seconds == pytest.approx(0.0044)
    assert (timing.mad, timing.high) == pytest.approx((1e-5, 0.00441))


def test_tests_without_a_case_are_counted(tmp_path: Path) -> None:
    others = [
        PROMPT | {"n_gen": 128},
        PROMPT | {"n_depth": 512},
        PROMPT | {"type_k": "q8_0"},
        PROMPT | {"type_k": "q5_1", "type_v": "q5_1"},
    ]
    cached = PROMPT | {"type_k": "q8_0", "type_v": "q8_0"}
    found = run_of(read_back(tmp_path, cached, *others), [H200], [MODEL])
    [job] = [line.record for line in found.records if line.kind == "job"]
    assert job.case.endswith("/pp512/cache=q8_0")
    assert sum(found.left_out.values()) == len(found.left_out) == 4
    with pytest.raises(UsageError, match="none of the tests has a case here: 1 behind a filled"):
        run_of(read_back(tmp_path, others[1]), [H200], [MODEL])


def test_a_model_that_vkbench_makes_is_known_without_a_result(tmp_path: Path) -> None:
    found = run_of(read_back(tmp_path, PROMPT), [H200], [])
    [job] = [line.record for line in found.records if line.kind == "job"]
    assert seeded_of(job.case)


def test_what_ran_has_to_be_known(tmp_path: Path) -> None:
    tests = read_back(tmp_path, PROMPT | {"model_filename": "C:\\other.gguf"})
    with pytest.raises(UsageError, match=re.escape("no model here is called 'other', as in test")):
        run_of(tests, [H200], [MODEL])
    tests = read_back(tmp_path, PROMPT)
    with pytest.raises(UsageError, match="no device here is 'NVIDIA H200', which test 1 ran on"):
        run_of(tests, [DEVICE], [MODEL])
    with pytest.raises(UsageError, match=r"2 devices here are 'NVIDIA H200'.*: give --device"):
        run_of(tests, [H200, replace(H200, key="ab" * 6)], [MODEL])
    two = [MODEL, MODEL.replace("0123", "abcd")]
    of_another = replace(tests[0], model="other")
    with pytest.raises(UsageError, match="--model names one file, and the tests are of several"):
        check_one_model([*tests, of_another])
    with pytest.raises(UsageError, match=r"2 models here are called.*: give --model FILE"):
        run_of(tests, [H200], two)
