"""Kernels are right on Mesa's newer CPU driver, which whole commands run on: see its script."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
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
def test_the_quick_suite_passes(ran: Callable[..., Rows]) -> None:
    rows = ran("--suite", "quick", "--seconds", "0.02")
    assert not [row for row in other_than_passed(rows) if not REFUSED.match(row["reason"])]
    assert Counter(row["mode"] for row in rows).keys() == {"correctness", "performance"}
    assert all(int(row["driver_version"].split(".")[0]) >= 26 for row in rows)


def test_products_of_cooperative_matrices_are_right(ran: Callable[..., Rows]) -> None:
    rows = ran("--kernel", "matrix_rate_8", "--seconds", "0.02")
    assert not other_than_passed(rows)
    assert {row["variant"] for row in rows} == {"f16_f16", "f16_f32", "i8_i32"}


# why cooperative matrices do not multiply some small products, under `--variant all`
REFUSED = re.compile(r"variant coopmat\w*: (rounds its factors|has no tiles of)")
# How factors lie and are packed, ragged tiles, batches, parts of k, y in f16, and kinds of blocks.
COOPERATIVE = (
    "matmul/f16:b=f16:y=f16/b2_m13_n9_k3",
    "matmul/f16:b=f16/b2_m130_n33_k96/layout=transposed_b",
    "matmul/f16:b=f16/b2_m36_n44_k20/layout=strided",
    "matmul/f16/b6_m9_n20_k64/layout=transposed_b,repeat_a=3,repeat_b=2",
    "matmul/f16/b1_m40_n36_k1100/layout=transposed_b,split=3",
    "matmul/f16:b=f16/b1_m64_n64_k64/layout=transposed_b",
    "mul_mat/f32/m61_n67_k1021",
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


@pytest.mark.timeout(300)
def test_any_order_of_elements_is_right(new_lavapipe: Path) -> None:
    done = subprocess.run(
        [
            *(new_lavapipe / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-o", "addopts=", "--import-mode=importlib", "tests/gpu/test_fragments.py"),
        ],
        cwd=ROOT,
        env={**os.environ, "VKBENCH_REQUIRE": "gpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_the_newer_validation_layer_has_nothing_to_say(new_lavapipe: Path) -> None:
    done = subprocess.run(
        [
            *(new_lavapipe / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"),
            *("-o", "addopts=", "--import-mode=importlib", "tests/gpu/test_validation.py"),
        ],
        cwd=ROOT,
        env={**os.environ, "VKBENCH_REQUIRE": "gpu,validation"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
