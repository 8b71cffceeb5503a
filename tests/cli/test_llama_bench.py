"""Timings of whole models as llama-bench of llama.cpp prints its own."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import replace

import pytest

from planted_runs import CASES, Past
from vkbench.result import MODEL_BYTES, MODEL_WEIGHTS, Result, pack_samples
from vkbench_cli import main as cli

Captured = pytest.CaptureFixture[str]

MODEL = "model/llama-3-8b-q4_K_M-0123456789ab"
PHASES = ("pp512", "tg128", "tg64/cache=q8_0", "pp512/batch=8")
FORMS = ("llama-bench", "llama-bench-json", "llama-bench-sql")


def timed(past: Past, *samples: float) -> Result:
    done = past.done(sum(samples) / len(samples))
    hot, cold = done.timings
    hot = replace(hot, samples=pack_samples(samples))
    sizes = {MODEL_BYTES: 4.92e9, MODEL_WEIGHTS: 8.03e9}
    return replace(done, timings=(hot, cold), telemetry=sizes, bundle="ab" * 32)


@pytest.fixture
def models(past: Past) -> Past:
    """A run of a model, beside those of kernels."""
    endings = (timed(past, 0.25, 0.5), timed(past, 0.002, 0.004), timed(past, 0.01), past.done(1))
    past.run("models", *endings, cases=[f"{MODEL}/{phase}" for phase in PHASES])
    return past


def printed(capsys: Captured, form: str, *words: str) -> str:
    assert cli.main(["results", "--as", form, *words]) == 0
    return capsys.readouterr().out


def test_the_table_has_its_columns(models: Past, capsys: Captured) -> None:
    heading, rule, *rows = printed(capsys, "llama-bench").splitlines()
    cells = [each.strip() for each in heading.strip("|").split("|")]
    assert cells == ["model", "size", "params", "backend", "ngl", "type_k", "type_v", "test", "t/s"]
    assert re.fullmatch(r"\|( -+[-:] \|)+", rule)
    assert len(heading) == len(rule) == len(rows[0])
    found = [[each.strip() for each in row.strip("|").split("|")] for row in rows[:3]]
    assert found[0] == [
        *("llama-3-8b-q4_K_M", "4.58 GiB", "8.03 B", "Vulkan", "-1", "f16", "f16"),
        *("pp512", "1536.00 ± 724.08"),
    ]
    assert [row[-2] for row in found] == ["pp512", "tg128", "tg64"]
    assert rows[3:] == ["", f"build: {'ab' * 6} (0)"]


def test_several_sequences_at_once_are_left_out(models: Past, capsys: Captured) -> None:
    cli.main(["results", "--as", "llama-bench"])
    said = "left out 1 timing of several sequences at once"
    assert said in " ".join(capsys.readouterr().err.split())


def test_json_has_the_samples_of_whole_tests(models: Past, capsys: Captured) -> None:
    prompt, generated, cached = json.loads(printed(capsys, "llama-bench-json"))
    assert prompt["samples_ns"] == [250_000_000, 500_000_000]
    assert prompt["avg_ns"] == 375_000_000
    assert prompt["samples_ts"] == pytest.approx([2048, 1024])
    assert (prompt["n_prompt"], prompt["n_gen"]) == (512, 0)
    assert (generated["n_prompt"], generated["n_gen"]) == (0, 128)
    assert generated["samples_ns"] == pytest.approx([256_000_000, 512_000_000])
    assert generated["avg_ts"] == pytest.approx(375)
    assert (cached["type_k"], cached["type_v"], cached["stddev_ns"]) == ("q8_0", "q8_0", 0)
    assert prompt["gpu_info"] == models.device.name
    assert prompt["model_filename"] == "llama-3-8b-q4_K_M.gguf"


def test_sql_has_a_table_of_models_and_one_of_kernels(models: Past, capsys: Captured) -> None:
    with sqlite3.connect(":memory:") as found:
        for _ in range(2):
            found.executescript(printed(capsys, "llama-bench-sql"))
        rows = found.execute("SELECT n_prompt, n_gen, model_size, no_host FROM llama_bench")
        kernels = found.execute("SELECT count(*) FROM test_backend_ops").fetchone()[0]
    assert list(rows)[:2] == [(512, 0, 4_920_000_000, 0), (0, 128, 4_920_000_000, 0)]
    assert kernels == 2 * len(CASES)
    only = printed(capsys, "llama-bench-sql", "--kernel", "model")
    assert "test_backend_ops" not in only


def test_names_of_others_stay_text(models: Past, capsys: Captured) -> None:
    nasty = replace(models.device, key="ab" * 6, name="it's | \x1b[31m'); --", uuid="1" * 32)
    models.add_device(nasty)
    models.run("nasty", timed(models, 1.0), device=nasty.key, cases=[f"{MODEL}/pp5"])
    (one,) = json.loads(printed(capsys, "llama-bench-json", "--run", "nasty"))
    assert one["gpu_info"] == nasty.name
    with sqlite3.connect(":memory:") as found:
        found.executescript(printed(capsys, "llama-bench-sql", "--run", "nasty"))
        assert found.execute("SELECT gpu_info FROM llama_bench").fetchone()[0] == nasty.name
    table = printed(capsys, "llama-bench")
    assert "\x1b" not in table
    assert len({row.count("|") for row in table.splitlines() if row.startswith("|")}) == 1
    assert " dev " in table


@pytest.mark.parametrize("form", FORMS)
def test_without_models_nothing_breaks(past: Past, capsys: Captured, form: str) -> None:
    text = printed(capsys, form, "--state", "failed")
    empty = {"llama-bench": 3, "llama-bench-json": 1}
    assert len(text.splitlines()) == empty.get(form, len(text.splitlines()))
    if form == "llama-bench-sql":
        sqlite3.connect(":memory:").executescript(text)
