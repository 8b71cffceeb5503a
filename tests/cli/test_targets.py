"""The plans' success metrics say what they are, what was measured, and what cannot be."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vkbench.job import Mode, PlannedJob
from vkbench_cli import cpu
from vkbench_cli import main as cli
from vkbench_db import store

Captured = pytest.CaptureFixture[str]

SQUARE = "matmul/f32/b1_m256_n256_k256"
ADD = "add/f32/b1_c1_h4096_w4096"
PARITY = "matmul/f32/b1_m128_n128_k128"


def said(capsys: Captured, *words: str, code: int = 0) -> tuple[str, str]:
    """What a command prints on stdout and stderr."""
    found = cli.main(["report", "targets", *words])
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err


def rows(capsys: Captured) -> dict[tuple[str, str], dict[str, Any]]:
    found = json.loads(said(capsys, "--json")[0])["rows"]
    return {(row["target"], row["wanted"]): row for row in found}


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time numpy a few times and not for a second each."""
    monkeypatch.setattr(cpu, "SECONDS", 0.01)


def measure(past, case: str, seconds: float, mode: Mode = Mode.PERFORMANCE) -> None:
    with past.database.transaction() as tx:
        run = store.create_run(tx, mode=mode, selection={}, now=time.time())
        store.add_jobs(tx, run.id, [PlannedJob(device=past.device.key, case=case, mode=mode)])
        [picked] = store.pick(tx, past.device.key, 1, time.time())
        ended = replace(past.done(seconds), job=picked.job.id, token=picked.job.token, case=case)
        timings = ended.timings if mode is Mode.PERFORMANCE else ()
        store.record(tx, [replace(ended, timings=timings)], time.time())


@pytest.mark.usefixtures("filled")
def test_every_target_stands_somewhere_and_says_why(capsys: Captured) -> None:
    found = rows(capsys)
    assert len(found) >= 20
    for row in found.values():
        assert row["standing"] in ("met", "missed", "unmeasurable", "no result")
        assert row["how"]
        assert bool(row["measured"]) is (row["standing"] in ("met", "missed"))
    blocks = found["IQ2_XXS size", "16 times smaller"]
    assert (blocks["standing"], round(blocks["value"], 1)) == ("missed", 15.5)
    assert found["Q8_0 size", "3.8 times smaller"]["standing"] == "met"
    assert found["Q4_0 layout", "18 bytes a block of 32"]["standing"] == "met"
    error = found["Q4_0 error", "below 0.5"]
    assert 0.2 < error["value"] < 0.5
    assert found["kernels", "103"]["value"] == 123
    square = found["F32 product 4096²", "50 to 100 times the CPU"]
    assert square["standing"] == "no result"
    assert "vkbench run --case matmul/f32/b1_m4096_n4096_k4096" in square["how"]
    cuda = found["element-wise", "0.9 to 1.1 times CUDA"]
    assert cuda["standing"] == "unmeasurable"
    assert "CUDA" in cuda["how"]


def test_ours_is_held_against_numpy_here_and_now(past, capsys: Captured) -> None:
    measure(past, SQUARE, 1e-9)
    measure(past, ADD, 1e3)
    measure(past, PARITY, 1.0, Mode.CORRECTNESS)
    found = rows(capsys)
    fast = found["F32 products, smaller", "50 to 100 times the CPU"]
    assert fast["standing"] == "met"
    assert fast["value"] > 1000
    assert fast["how"].startswith("Planted 9000: matmul/f32/b1_m256_n256_k256 ")
    slow = found["element-wise", "20 to 50 times the CPU"]
    assert slow["standing"] == "missed"
    assert 0 < slow["value"] < 1e-3
    parity = found["parity with the CPU, 128²", "1e-5"]
    assert (parity["standing"], parity["value"]) == ("met", 1e-7)
    assert found["product sizes", "256² to 4096²"]["measured"] == "1 of 5 sizes timed"
    assert found["tests", "32 of 32; 20 of 20"]["measured"] == "1 of 1 passed, 0 wrong or failed"


def test_results_of_other_hosts_do_not_count(
    past, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vkbench.settings import settings

    measure(past, SQUARE, 1e-9)
    monkeypatch.setenv("VKBENCH_HOST", "elsewhere")
    settings.cache_clear()
    out, err = said(capsys, "--json")
    assert "no results of this host (elsewhere), only of here" in err
    found = {row["target"]: row for row in json.loads(out)["rows"]}
    assert found["F32 products, smaller"]["standing"] == "no result"


@pytest.mark.usefixtures("filled")
def test_text_csv_and_markdown(capsys: Captured) -> None:
    out, err = said(capsys)
    assert out.startswith("plan")
    assert "unmeasurable" in err
    assert len(list(csv.DictReader(io.StringIO(said(capsys, "--csv")[0])))) >= 20
    table = said(capsys, "--markdown")[0]
    assert table.startswith("| plan | target | wanted |")
    assert all(line.count(" | ") == 5 for line in table.splitlines())


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--device", "nothing"], "unknown device 'nothing'"),
        (["--json", "--csv", "--markdown"], "only one of"),
        (["--yaml"], "--yaml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_told(words: list[str], hint: str, capsys: Captured) -> None:
    out, err = said(capsys, *words, code=2)
    assert out == ""
    assert hint in err


def test_numpy_does_the_work_that_kernels_do() -> None:
    assert np.shape(cpu.product(3, 5, 7)()) == (3, 5)
    assert np.shape(cpu.reduction("argmax", 4, 9)()) == (4,)
    x = np.random.default_rng(0).standard_normal(100, np.float32)
    assert np.allclose(cpu.silu(100)(), x / (1 + np.exp(-x)))
    assert np.allclose(cpu.multiply(100)(), x * x)
    measured = cpu.measure(cpu.add(1000))
    assert 0 < measured.best <= measured.seconds
    assert measured.count >= cpu.LEAST
