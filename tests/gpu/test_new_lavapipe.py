"""Kernels are right on Mesa's newer CPU driver, which whole commands run on: see its script."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
Rows = list[dict[str, Any]]


@pytest.fixture
def ran(new_lavapipe: Path) -> Callable[..., Rows]:
    """`ran("--kernel", "copy")` is what `vkbench run` says of each job."""

    def run(*words: str) -> Rows:
        variant = () if "--variant" in words else ("--variant", "all")
        command = [str(new_lavapipe / "vkbench"), "run", *words, *variant, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.stdout, done.stderr
        return list(json.loads(done.stdout)["rows"])

    return run


def other_than_passed(rows: Rows) -> Rows:
    wanted = ("case", "variant", "verdict", "cause", "reason", "remark")
    return [{name: row[name] for name in wanted} for row in rows if row["verdict"] != "passed"]


@pytest.mark.timeout(600)
def test_the_quick_suite_passes(ran: Callable[..., Rows], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GALLIVM_PERF", "nopt")  # sdpa takes 2 s, and with all passes 55
    rows = ran("--suite", "quick", "--mode", "correctness")
    refused = [row["reason"] for row in other_than_passed(rows)]
    assert not [reason for reason in refused if not TILED.match(reason)]
    assert all(int(row["driver_version"].split(".")[0]) >= 26 for row in rows)


def test_products_of_cooperative_matrices_are_right_and_timed(ran: Callable[..., Rows]) -> None:
    rows = ran("--kernel", "matrix_rate_8", "--seconds", "0.02")
    assert not other_than_passed(rows)
    assert Counter(row["mode"] for row in rows).keys() == {"correctness", "performance"}
    assert {row["variant"] for row in rows} == {"f16_f16", "f16_f32", "i8_i32"}


# why cooperative matrices do not multiply some products, under `--variant all`
REFUSED = re.compile(
    r"variant (coopmat\w*: rounds its factors|\w+: has no tiles of|\w+: rows of plain numbers are)"
)
# the same where a case names a tile of larger matrices
TILED = re.compile(
    rf"{REFUSED.pattern}|variant \w+: needs .* for tiles of coop_\w+, which .* lacks"
)
# the same for convolutions, where a case may also name a tile of larger matrices
OTHERS = re.compile(f"{REFUSED.pattern}|lacks$")
# How factors lie and are packed, ragged tiles, batches, parts of k, y in f16, and kinds of blocks.
COOPERATIVE = (
    "matmul/f16:b=f16:y=f16/b2_m13_n9_k3",
    "matmul/f16:b=f16/b2_m130_n33_k96/layout=transposed_b",
    "matmul/f16:b=f16/b2_m36_n44_k20/layout=strided",
    "matmul/f16/b6_m9_n20_k64/layout=transposed_b,repeat_a=3,repeat_b=2",
    "matmul/f16/b1_m40_n36_k1100/layout=transposed_b,split=3",
    "matmul/f16:b=f16/b1_m64_n64_k64/layout=transposed_b",
    "mul_mat/f32/m61_n67_k1021",
    "mul_mat/f32/m256_n40_k96",
    "mul_mat/f16/m17_n33_k127/layout=strided",
    "mul_mat/q4_0/m97_n101_k768",
    "mul_mat/q6_K/m31_n33_k512/layout=strided",
    "mul_mat/iq2_xs/m13_n7_k256/batch2=2,batch3=2,repeat2=3,repeat3=2",
    "mul_mat/iq1_m:x=f16/m31_n33_k512/layout=strided",
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("variant", ["coopmat", "coopmat_f16"])
def test_matrices_multiplied_at_once_are_right(ran: Callable[..., Rows], variant: str) -> None:
    cases = COOPERATIVE if variant == "coopmat" else COOPERATIVE[1::4]
    wanted = [word for case in cases for word in ("--case", case)]
    rows = ran(*wanted, "--mode", "correctness", "--variant", variant)
    assert not other_than_passed(rows)
    assert len(rows) == len(cases)
    assert {row["variant"] for row in rows} == {variant}


# One and two matrices of vectors, ragged ends, batches, parts of k, kinds of weights and vectors.
DECODING = (
    "mul_mat/f16/m31_n9_k104",
    "mul_mat/f32:x=f16/m33_n17_k256",
    "mul_mat/q4_0/m97_n101_k768",
    "mul_mat/q4_0/m3_n17_k32",
    "mul_mat/q5_1/m17_n2_k96",
    "mul_mat/q6_K/m31_n33_k512",
    "mul_mat/iq2_xs/m13_n7_k256/batch2=2,batch3=2,repeat2=3,repeat3=2",
    "mul_mat/iq1_m:x=f16/m31_n5_k512",
    "mul_mat/nvfp4/m5_n3_k14336",
)
# Ragged ends, more vectors than a matrix has, chunks, batches; scales of f16 and others.
LANES = (
    "mul_mat/q4_0/m97_n9_k768",
    "mul_mat/q4_1/m3_n7_k32",
    "mul_mat/q5_1/m17_n2_k96",
    "mul_mat/q4_K/m133_n7_k256/batch2=2,repeat2=3",
    "mul_mat/q6_K:x=f16/m31_n3_k512",
    "mul_mat/iq2_xs/m13_n7_k256/batch2=2,batch3=2,repeat2=3,repeat3=2",
    "mul_mat/nvfp4/m5_n3_k14336",
    "mul_mat_vec/q2_K/m13_n8_k512",
    "mul_mat_vec/mxfp4/m9_n6_k1024",
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("variant", "cases"), [("coopmat_decoding", DECODING), ("coopmat_fragments", LANES)]
)
def test_products_that_decode_weights_are_right(
    ran: Callable[..., Rows], variant: str, cases: Sequence[str]
) -> None:
    wanted = [word for case in cases for word in ("--case", case)]
    rows = ran(*wanted, "--mode", "correctness", "--variant", variant)
    assert not other_than_passed(rows)
    assert len(rows) == len(cases)
    assert {row["variant"] for row in rows} == {variant}


# Pairs that are no whole tiles, experts with several tiles and with none, kinds of blocks and rows.
EXPERTS = (
    "mul_mat_id/q4_0/e5_u2_m37_n21_k256/routing=skewed,tile=coop_16x32",
    "mul_mat_id/q4_0/e5_u2_m37_n13_k256/routing=skewed,tile=coop_8x32",
    "mul_mat_id/f16/e3_u2_m128_n21_k256",
    "mul_mat_id/q6_K/e8_u2_m31_n29_k512/layout=strided,x=expert",
    "mul_mat_id/iq2_xs/e5_u2_m28_n21_k256/layout=strided,tile=coop_16x32,x=expert",
    "mul_mat_id/f32/e5_u4_m7_n101_k256/routing=skewed,x=expert",
    "mul_mat_id/f16/e4_u1_m34_n19_k97/layout=strided,x=expert",
    "mul_mat_id/f16/e3_u2_m13_n17_k37",
    "mul_mat_id/q4_K/e64_u2_m3_n5_k1024",
    "mul_mat_id/q4_K/e2_u1_m2_n3_k14336",
)


@pytest.mark.timeout(600)
def test_experts_matrices_multiplied_at_once_are_right(ran: Callable[..., Rows]) -> None:
    wanted = [word for case in EXPERTS for word in ("--case", case)]
    rows = ran(*wanted, "--mode", "correctness", "--variant", "coopmat")
    assert not other_than_passed(rows)
    assert {row["case"] for row in rows} == set(EXPERTS)
    assert {row["variant"] for row in rows} == {"coopmat"}


@pytest.mark.timeout(600)
def test_attention_by_cooperative_matrices_is_right(ran: Callable[..., Rows]) -> None:
    words = ("--kernel", "flash_attn", "--variant", "coopmat", "--mode", "correctness")
    rows = [row for row in ran(*words) if row["verdict"] != "skipped"]
    assert not other_than_passed(rows)
    assert {row["format"] for row in rows} == {
        *("f16", "q8_0", "q4_0"),
        *("q4_1", "q5_0", "q5_1", "iq4_nl"),
    }
    assert len(rows) >= 46


PARTITIONS = (
    "flash_attn/f16/s1_h8_g2_q1_n96_d64_e64/mask=blocks,part=96,path=split",
    "flash_attn/q8_0/s2_h6_g2_q3_n113_d64_e32/mask=blocks,part=64,path=split,sinks=yes",
    "flash_attn/f16/s2_h6_g2_q3_n113_d40_e23/layout=strided,part=128,path=split",
    "flash_attn/q4_0/s1_h8_g1_q3_n31_d64_e32/path=split,softcap=10.0",
    "flash_attn/f16/s1_h8_g2_q1_n127_d64_e64/mask=blocks,path=short",
    "flash_attn/q8_0/s1_h8_g2_q1_n25_d64_e64/mask=causal,path=short",
    "flash_attn/q4_0/s2_h6_g2_q3_n113_d64_e32/layout=strided,mask=blocks,path=short,sinks=yes",
    "flash_attn/f16/s1_h4_g4_q5_n67_d13_e7/layout=strided,mask=blocks,max_bias=8.0,path=short",
    "flash_attn/q5_1/s1_h8_g2_q1_n1_d64_e64/path=short,softcap=30.0",
    "flash_attn/q8_0/s1_h8_g2_q1_n1000_d64_e64/mask=causal,path=joined",
    "flash_attn/q4_0/s2_h6_g2_q3_n413_d64_e32/layout=strided,mask=blocks,path=joined,sinks=yes",
    "flash_attn/f16/s1_h4_g4_q5_n67_d13_e7/layout=strided,mask=blocks,max_bias=8.0,path=joined",
    "flash_attn/f16/s2_h16_g2_q4_n1500_d40_e48/mask=blocks,part=64,path=joined,softcap=10.0",
    "flash_attn/f16/s1_h16_g1_q1_n20_d64_e64/path=joined,sinks=yes",
    "flash_attn/f16/s1_h16_g1_q1_n1024_d64_e64/part=32,path=joined",
    "flash_attn/f16/s1_h12_g2_q8_n700_d64_e64/mask=blocks,part=16,path=short,sinks=yes",
    "flash_attn/q8_0/s2_h12_g2_q3_n413_d64_e32/layout=strided,mask=causal,part=64,path=short",
    "flash_attn/f16/s1_h4_g4_q5_n67_d13_e7/mask=blocks,max_bias=8.0,part=32,path=short",
)


@pytest.mark.timeout(600)
def test_partitions_of_all_lengths_are_right(ran: Callable[..., Rows]) -> None:
    """Of several steps, with positions past the end, and alone: then it makes results."""
    wanted = [word for case in PARTITIONS for word in ("--case", case)]
    rows = ran(*wanted, "--mode", "correctness", "--variant", "coopmat")
    assert not other_than_passed(rows)
    assert {row["case"] for row in rows} == set(PARTITIONS)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kernel", ["conv1d", "conv2d", "conv3d"])
def test_convolutions_by_cooperative_matrices_are_right(
    ran: Callable[..., Rows], kernel: str
) -> None:
    words = ("--variant", "coopmat", "--mode", "correctness")
    rows = ran("--kernel", kernel, "--format", "f32", "--format", "f16", *words)
    wrong = [row for row in other_than_passed(rows) if row["verdict"] != "skipped"]
    skipped = [row for row in rows if row["verdict"] == "skipped"]
    assert not wrong
    assert all(OTHERS.search(row["reason"]) for row in skipped)
    assert len(rows) - len(skipped) >= {"conv1d": 10, "conv2d": 30, "conv3d": 6}[kernel]


@pytest.mark.timeout(300)
def test_any_order_of_elements_is_right(new_lavapipe: Path) -> None:
    assert "skipped" not in passed_there(new_lavapipe, "test_fragments.py", needs="gpu")


@pytest.mark.timeout(600)
def test_products_of_bytes_are_right(new_lavapipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GALLIVM_PERF", "nopt")  # most of the time would go into compiling
    assert "skipped" not in passed_there(new_lavapipe, "test_byte_product.py", needs="gpu")


@pytest.mark.timeout(300)
def test_mistakes_in_paths_by_matrices_are_seen(
    new_lavapipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GALLIVM_PERF", "nopt")
    ran = passed_there(new_lavapipe, "test_planted_edits.py", "-k", "coopmat", needs="gpu")
    assert "skipped" not in ran


@pytest.mark.timeout(300)
def test_launches_ahead_change_no_bit(new_lavapipe: Path) -> None:
    assert "skipped" not in passed_there(new_lavapipe, "test_ahead.py", needs="gpu")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("ggml_folder")
def test_ggml_gives_what_our_judge_wants(new_lavapipe: Path) -> None:
    assert "skipped" not in passed_there(new_lavapipe, "test_ggml.py", needs="gpu,ggml")


@pytest.mark.timeout(900)
@pytest.mark.usefixtures("ggml_folder", "older_ggml_folder")
def test_two_builds_of_ggml_are_right_in_every_row(new_lavapipe: Path) -> None:
    assert "skipped" not in passed_there(new_lavapipe, "test_ggml_rows.py", needs="gpu,ggml")


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("ggml_folder")
def test_builds_are_checked_timed_and_paired(new_lavapipe: Path) -> None:
    assert "skipped" not in passed_there(new_lavapipe, "test_builds.py", needs="gpu,ggml")


@pytest.mark.timeout(300)
def test_the_newer_validation_layer_has_nothing_to_say(new_lavapipe: Path) -> None:
    passed_there(new_lavapipe, "test_validation.py", needs="gpu,validation")


def passed_there(new_lavapipe: Path, module: str, *words: str, needs: str) -> str:
    """What pytest prints of a module of this folder, whose tests pass on that driver."""
    done = subprocess.run(
        [
            *(new_lavapipe / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-o", "addopts=", "--import-mode=importlib", f"tests/gpu/{module}", *words),
        ],
        cwd=ROOT,
        env={**os.environ, "VKBENCH_REQUIRE": needs},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_no_way_to_the_packages_is_one_clear_line(tmp_path: Path) -> None:
    nowhere = tmp_path / "apt.conf"
    nowhere.write_text('Acquire::http::Proxy "http://127.0.0.1:9";\nAcquire::Retries "0";\n')
    done = subprocess.run(
        [ROOT / "scripts" / "new-lavapipe", sys.prefix],
        env={**os.environ, "VKBENCH_CACHE": str(tmp_path / "cache"), "APT_CONFIG": str(nowhere)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("no newer lavapipe: ")
    assert not any((tmp_path / "cache").glob("*"))
