"""What test-backend-ops of llama.cpp prints: read in each of its forms, or refused in one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import damaged, fuzz, understood_or
from planted_forms import in_csv, require_refusal, written
from planted_forms import in_sql as in_sql_table
from planted_runs import DEVICE
from vkbench.errors import UsageError
from vkbench_local.peers.ggml import PEER, ggml_timing
from vkbench_local.peers.imported import PeerFile, PeerRun, peer_run
from vkbench_shaders.catalogue import problem
from vkbench_worker.peers.llama_cpp import ggml_file, printed
from vkbench_worker.peers.llama_cpp.ggml_file import OpTest, read_ops

PRODUCT = "type_a=q4_0,type_b=f32,m=4096,n={n},k=14336,bs=[1,1],nr=[1,1],per=[0,1,2,3],k_v=0,o=1"
FIELDS: dict[str, str] = {
    "test_time": "2026-11-22T10:00:00Z",
    "build_commit": "79c1160b0",
    "backend_name": "Vulkan0",
    "op_name": "MUL_MAT",
    "op_params": PRODUCT.format(n=1),
    "test_mode": "perf",
    "supported": "1",
    "passed": "1",
    "error_message": "",
    "time_us": "14.100000",
    "flops": "8331000000000.000000",
    "bandwidth_gb_s": "0.000000",
    "memory_kb": "32305",
    "n_runs": "17060",
    "device_description": "NVIDIA H200",
    "backend_reg_name": "Vulkan",
}
SOFTMAX = FIELDS | {
    "op_name": "SOFT_MAX",
    "op_params": "type=f32,ne=[77,1024,10,1],mask=0,sinks=0,scale=1.000000,max_bias=0.000000",
    "time_us": "8.880000",
}
PEOPLE = """ggml_vulkan: Found 1 Vulkan devices:
Testing 2 devices

Backend 1/2: Vulkan0
  Device description: NVIDIA H200
  Device memory: 143771 MB (143000 MB free)

  MUL_MAT({product}):     17060 runs -    14.10 us/run - 117.44 MFLOP/run - \033[1;34m8.33 TFLOPS
  SOFT_MAX({softmax}):    5000 runs -     8.88 us/run -     6160 kB/run - \033[1;34m661.57 GB/s
  RWKV_WKV6(type=f32,head_count=32): not supported
  Backend Vulkan0: \033[1;32mOK\033[0m
Backend 2/2: CPU
  Skipping CPU backend
2/2 backends passed
"""
H200 = replace(DEVICE, name="NVIDIA H200")


def for_people(tests: list[dict[str, str]]) -> str:
    return PEOPLE.format(product=tests[0]["op_params"], softmax=tests[-1]["op_params"])


in_sql = partial(in_sql_table, "test_backend_ops")
FORMS: dict[str, Callable[[list[dict[str, str]]], str]] = {
    "people": for_people,
    "csv": in_csv,
    "sql": in_sql,
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_says_the_same(form: str, tmp_path: Path) -> None:
    product, softmax = read_ops(written(tmp_path, FORMS[form]([FIELDS, SOFTMAX])))
    assert (product.op, softmax.op) == ("MUL_MAT", "SOFT_MAX")
    assert (product.params["type_a"], product.params["bs"]) == ("q4_0", "[1,1]")
    assert [product.seconds, softmax.seconds] == pytest.approx([14.1e-6, 8.88e-6])
    assert product.runs == 17060
    assert product.device == softmax.device == "NVIDIA H200"
    assert product.settings["backend"] == "Vulkan0"
    assert (product.finished_at == 0.0) is (form == "people")


def test_checks_and_what_a_backend_has_not_are_passed_over(tmp_path: Path) -> None:
    others = [FIELDS | {"test_mode": "test"}, FIELDS | {"supported": "0", "time_us": "0.0"}]
    [found] = read_ops(written(tmp_path, in_sql([*others, FIELDS])))
    assert found.number == 3
    with pytest.raises(UsageError, match="it holds no timing"):
        read_ops(written(tmp_path, in_sql(others)))


def run_of(tests: list[OpTest], device: Any = None, moment: float = 5.0) -> PeerRun:
    file = PeerFile(peer=PEER, label="x", moment=moment)
    return peer_run(file, tests, ggml_timing, [DEVICE, H200], device)


def run(*tests: dict[str, str], tmp_path: Path, device: Any = None) -> PeerRun:
    return run_of(read_ops(written(tmp_path, in_sql(list(tests)))), device)


def test_a_test_is_a_result_of_our_case(tmp_path: Path) -> None:
    many = FIELDS | {"op_params": PRODUCT.format(n=512)}
    jobs = [
        line.record
        for line in run(FIELDS, many, SOFTMAX, tmp_path=tmp_path).records
        if line.kind == "job"
    ]
    assert [job.case for job in jobs] == [
        "mul_mat_vec/q4_0/m4096_n1_k14336",
        "mul_mat/q4_0/m4096_n512_k14336",
        "softmax/f32/b1_c10_h1024_w77",
    ]
    assert {(job.device, job.variant) for job in jobs} == {(H200.key, PEER)}
    (timing,) = jobs[0].timings
    assert timing.seconds == pytest.approx(14.1e-6)
    assert timing.flops == problem(jobs[0].case).flops
    assert jobs[0].attempts[0].settings == "backend=Vulkan0,build=79c1160b0"


@pytest.mark.parametrize(
    ("op", "params", "case"),
    [
        ("RMS_NORM", "type=f32,ne=[64,5,4,3],v=0,eps=0.000001", "b3_c4_h5_w64/eps=1e-06"),
        ("ARGSORT", "type=f32,ne=[65000,16,1,1],order=1", "h16_w65000/order=descending"),
        ("GELU", "type=f16,ne_a=[128,2,2,2],v=0", "gelu/f16/b2_c2_h2_w128"),
        ("ADD", "type=f32,ne=[4096,2,1,1],nr=[1,1,1,1],nf=1", "add/f32/b1_c1_h2_w4096"),
        (
            "MUL",
            "type=f32,ne=[4096,2,1,1],nr=[1,1,1,1],nf=1,perm1=0,src_overlap=0",
            "mul/f32/b1_c1_h2_w4096",
        ),
        ("SUM_ROWS", "type=f32,ne=[33,2,1,1]", "sum/f32/b1_c1_h2_w33"),
        ("CUMSUM", "type=f32,ne=[128,128,4,4]", "cumsum/f32/h2048_w128"),
        (
            "CONV_2D",
            "ne_input=[58,57,32,8],ne_kernel=[3,5,32,64],type_kernel=f16,stride0=1,stride1=2,"
            "padding0=0,padding1=0,dilation0=1,dilation1=1,cwhn=0",
            "conv2d/f16/n8_c32_h57_w58_o64_r5_s3/stride_h=2",
        ),
        (
            "FLASH_ATTN_EXT",
            "hsk=128,hsv=128,nh=8,nr23=[4,1],kv=4096,nb=1,mask=0,type_KV=q8_0",
            "flash_attn/q8_0/s1_h32_g8_q1_n4096_d128_e128",
        ),
    ],
)
def test_operations_and_their_sizes(op: str, params: str, case: str, tmp_path: Path) -> None:
    found = run(FIELDS | {"op_name": op, "op_params": params}, tmp_path=tmp_path)
    [job] = [line.record for line in found.records if line.kind == "job"]
    assert case in job.case
    assert problem(job.case).case.name == job.case


@pytest.mark.parametrize(
    ("op", "params", "reason"),
    [
        ("SSM_SCAN", "type=f32", "of SSM_SCAN at all"),
        ("SOFT_MAX", "type=f32,ne=[4,4,1,1],mask=1", "of SOFT_MAX with mask=1"),
        ("ADD", "type=f32,ne=[4,1,1,1],nr=[1,512,1,1],nf=1", "of ADD with nr=[1,512,1,1]"),
        ("ADD", "type=f32,ne=[4,1,1,1],new=1", "of ADD with new=1"),
        ("ADD", "type=f32,ne=[4,1,1,1],perm1=1", "of ADD with perm1=1"),
        ("MUL_MAT", "type_a=q4_0,m=1,n=1", "of MUL_MAT of other sizes or formats"),
        ("MUL_MAT", "type_a=q9_9,m=1,n=1,k=1", "of MUL_MAT of other sizes or formats"),
        ("SILU", f"type=f32,ne_a=[{10**9},{10**9},1,1],v=0", "of SILU of other sizes or formats"),
        ("RMS_NORM", "type=f32,ne=[0,x,1,1]", "of RMS_NORM of other sizes or formats"),
    ],
)
def test_what_is_no_case_of_ours_is_counted(
    op: str, params: str, reason: str, tmp_path: Path
) -> None:
    found = run(FIELDS, FIELDS | {"op_name": op, "op_params": params}, tmp_path=tmp_path)
    assert found.left_out == {reason: 1}
    assert sum(line.kind == "job" for line in found.records) == 1


def test_a_file_of_no_time_is_the_same_run_whenever_it_is_read(tmp_path: Path) -> None:
    tests = read_ops(written(tmp_path, for_people([FIELDS, SOFTMAX])))
    runs = [run_of(tests, moment=moment) for moment in (5.0, 7.0)]
    one, other = (next(line.record for line in run.records if line.kind == "run") for run in runs)
    assert one.uuid == other.uuid
    assert (one.created_at, other.created_at) == (5.0, 7.0)


def test_the_device_has_to_be_known(tmp_path: Path) -> None:
    elsewhere = FIELDS | {"device_description": "Apple M4"}
    with pytest.raises(UsageError, match="no device here is 'Apple M4', which test 1 ran on"):
        run(elsewhere, tmp_path=tmp_path)
    assert run(elsewhere, tmp_path=tmp_path, device=H200).records
    with pytest.raises(UsageError, match="none of the tests has a case here: 1 of X at all"):
        run(FIELDS | {"op_name": "X"}, tmp_path=tmp_path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "neither its lines of `us/run`, SQL nor CSV"),
        ("op_params\n", "it holds no timing"),
        (in_sql([FIELDS | {"time_us": "nan"}]), "test 1: time_us is 'nan', no number above 0"),
        (in_sql([FIELDS | {"time_us": "-1"}]), "time_us is '-1', no number above 0"),
        (in_sql([FIELDS | {"time_us": "1e999"}]), "time_us is '1e999', no number above 0"),
        (in_csv([FIELDS | {"op_params": "m=1,,"}]), "op_params is 'm=1,,', no list of parameters"),
        (in_csv([FIELDS | {"op_params": "m=1,m=2"}]), "no list of parameters"),
        (in_csv([FIELDS | {"op_name": "\x1b[31m"}]), "op_name is '\\x1b[31m'"),
        (in_csv([FIELDS | {"n_runs": "x"}]), "n_runs is 'x', no whole number"),
        (in_csv([FIELDS | {"test_time": "now"}]), "test_time is 'now', no moment such as"),
        ("INSERT INTO llama_bench (a) VALUES (1);", "a statement inserts no test"),
    ],
)
def test_what_is_wrong_is_one_line(text: str, complaint: str, tmp_path: Path) -> None:
    require_refusal(read_ops, written(tmp_path, text), complaint)


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, in_csv([FIELDS] * 3))
    monkeypatch.setattr(ggml_file, "MOST_TESTS", 2)
    with pytest.raises(UsageError, match="more than 2 tests"):
        read_ops(path)
    monkeypatch.setattr(printed, "MOST_BYTES", 100)
    with pytest.raises(UsageError, match="more than 100 bytes"):
        read_ops(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_ops(tmp_path / "none")


@pytest.mark.parametrize("form", FORMS)
def test_damaged_files(form: str, tmp_path: Path) -> None:
    path = tmp_path / "ops"

    @fuzz
    @given(damaged(FORMS[form]([FIELDS, SOFTMAX]).encode()) | st.binary(max_size=64))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with understood_or():
            run_of(read_ops(path), H200)

    check()
