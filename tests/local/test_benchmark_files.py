"""JSON of Google Benchmark and nvbench: timings of the cases that they name."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import damaged, fuzz, understood_or
from planted_forms import require_refusal, written
from planted_runs import DEVICE
from vkbench.errors import UsageError
from vkbench.result import unpack_samples
from vkbench_local.peers.benchmark_files import EXAMPLE, check_peer, named_timing
from vkbench_local.peers.imported import PeerFile, peer_run
from vkbench_worker.peers.programs import benchmark_files
from vkbench_worker.peers.programs.benchmark_files import (
    NamedTest,
    read_google,
    read_nvbench,
)

H200 = replace(DEVICE, name="NVIDIA H200")
CASE = "sum/f32/b1_c1_h8_w1024"


def repetition(number: int, time: float, name: str = f"BM_{CASE}") -> dict[str, Any]:
    return {
        "name": f"{name}/real_time/repeats:2",
        "run_name": f"{name}/real_time/repeats:2",
        "run_type": "iteration",
        "repetitions": 2,
        "repetition_index": number,
        "threads": 1,
        "iterations": 1000,
        "real_time": time,
        "cpu_time": time,
        "time_unit": "us",
    }


GOOGLE = {
    "context": {"date": "2026-11-22T12:00:00+02:00", "library_build_type": "release"},
    "benchmarks": [
        repetition(0, 2.0),
        repetition(1, 4.0),
        repetition(0, 3.0) | {"run_type": "aggregate", "aggregate_name": "mean"},
        repetition(0, 9.0, "softmax/f32/b1_c1_h2_w64/scale=0.5"),
        repetition(0, 9.0, "BM_other"),
        repetition(0, 9.0, "broken") | {"error_occurred": True},
    ],
}


def summary(tag: str, value: object) -> dict[str, Any]:
    return {"tag": tag, "data": [{"name": "value", "type": "float64", "value": value}]}


def state(case: str, *summaries: dict[str, Any], **more: Any) -> dict[str, Any]:
    axes = [{"name": "case", "type": "string", "value": case}]
    return {"name": "s", "device": 0, "axis_values": axes, "summaries": summaries} | more


COLD = summary("nv/cold/time/gpu/mean", "2.5e-05")
NVBENCH = {
    "devices": [{"id": 0, "name": "NVIDIA H200"}],
    "benchmarks": [
        {
            "name": "reduce",
            "states": [
                state(CASE, COLD, summary("nv/batch/time/gpu/mean", "2e-05")),
                state(CASE, COLD, summary("nv/cold/time/gpu/stdev/relative", "0.1")),
                state(CASE, is_skipped=True),
                state(CASE, summary("nv/cold/time/cpu/mean", "1")),
                state("no case", COLD),
            ],
        }
    ],
}
READERS: dict[str, tuple[Callable[[Path], list[NamedTest]], dict[str, Any]]] = {
    "google": (read_google, GOOGLE),
    "nvbench": (read_nvbench, NVBENCH),
}


def jobs(tests: list[NamedTest], device: Any = None) -> tuple[list[Any], Any]:
    file = PeerFile(peer="cub", label="x", moment=5.0, example=EXAMPLE)
    found = peer_run(file, tests, partial(named_timing, "a program"), [DEVICE, H200], device)
    return [line.record for line in found.records if line.kind == "job"], found.left_out


def test_repetitions_are_samples_of_one_result(tmp_path: Path) -> None:
    tests = read_google(written(tmp_path, json.dumps(GOOGLE)))
    (one, other), left_out = jobs(tests, H200)
    assert (one.case, one.variant, one.device) == (CASE, "cub", H200.key)
    assert other.case == "softmax/f32/b1_c1_h2_w64/scale=0.5"
    assert unpack_samples(one.timings[0].samples) == pytest.approx([2e-6, 4e-6])
    assert one.finished_at == 1_795_341_600.0
    assert left_out == {"whose name is no case": 1}
    assert one.timings[0].warnings == ("told by a file of a program, and not judged",)


def test_states_are_hot_by_batches_and_else_cold(tmp_path: Path) -> None:
    tests = read_nvbench(written(tmp_path, json.dumps(NVBENCH)))
    (hot, cold), left_out = jobs(tests)
    assert [(job.timings[0].metric, job.timings[0].seconds) for job in (hot, cold)] == [
        ("hot", pytest.approx(2e-5)),
        ("cold", pytest.approx(2.5e-5)),
    ]
    assert cold.timings[0].mad == pytest.approx(2.5e-6)
    assert (hot.device, hot.finished_at) == (H200.key, 5.0)
    assert left_out == {"whose name is no case": 1}


def test_google_benchmark_names_no_device(tmp_path: Path) -> None:
    tests = read_google(written(tmp_path, json.dumps(GOOGLE)))
    with pytest.raises(UsageError, match="does not say which device it ran on: give --device"):
        jobs(tests)


def test_no_benchmark_is_a_case(tmp_path: Path) -> None:
    file = {"benchmarks": [repetition(0, 1.0, "BM_x")]}
    with pytest.raises(
        UsageError, match="here: 1 whose name is no case; a case is named such as mul"
    ):
        jobs(read_google(written(tmp_path, json.dumps(file))), H200)


@pytest.mark.parametrize("name", ["", "a b", "x" * 41, "portable", "AUTO", "-x", "\x1b"])
def test_a_peer_s_name_is_no_code_path_s(name: str) -> None:
    with pytest.raises(UsageError, match="--peer"):
        check_peer(name)
    assert check_peer("cub-2.7") == "cub-2.7"


@pytest.mark.parametrize(
    ("reader", "text", "complaint"),
    [
        ("google", "", "malformed"),
        ("google", "[]", "expected a JSON object, found []"),
        ("google", "{}", "it holds no timing"),
        ("google", '{"benchmarks": 1}', "benchmarks is no list"),
        ("google", '{"benchmarks": [{}]}', "test 1 has no run_name"),
        ("google", '{"benchmarks": [{"name": "x"}]}', "test 1 has no real_time"),
        ("google", '{"context": {"date": "x"}}', "malformed"),
        (
            "google",
            '{"benchmarks": [{"name": "x", "real_time": 1, "time_unit": "h"}]}',
            "time_unit is 'h', none of ns, us, ms, s",
        ),
        ("google", "[" * 100_000, "malformed"),
        ("nvbench", '{"benchmarks": [{"states": {}}]}', "states is no list"),
        ("nvbench", '{"devices": [{"id": []}], "benchmarks": []}', "it holds no timing"),
        (
            "nvbench",
            json.dumps({"benchmarks": [{"states": [state(CASE, summary(COLD["tag"], "x"))]}]}),
            "test 1: time is 'x', no number above 0",
        ),
        (
            "nvbench",
            json.dumps({"benchmarks": [{"states": [state("\x1b[0m", COLD)]}]}),
            "name is '\\x1b[0m', no text that can be shown",
        ),
    ],
)
def test_what_is_wrong_is_one_line(reader: str, text: str, complaint: str, tmp_path: Path) -> None:
    require_refusal(READERS[reader][0], written(tmp_path, text), complaint)


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_files, "MOST_TESTS", 1)
    with pytest.raises(UsageError, match="more than 1 benchmarks"):
        read_google(written(tmp_path, json.dumps(GOOGLE)))


@pytest.mark.parametrize("reader", READERS)
def test_damaged_files(reader: str, tmp_path: Path) -> None:
    read, file = READERS[reader]
    path = tmp_path / "bench"

    @fuzz
    @given(damaged(json.dumps(file).encode()) | st.binary(max_size=64))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with understood_or():
            jobs(read(path), H200)

    check()
