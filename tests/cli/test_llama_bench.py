"""Timings of whole models as llama-bench of llama.cpp prints its own."""

from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from commands import Captured, read_rows, run_command
from planted_runs import CASES, Past
from vkbench.result import MODEL_BYTES, MODEL_WEIGHTS, Result, pack_samples
from vkbench_cli import main as cli
from vkbench_shaders.models.making.seeded import SEEDED

MODEL = "model/llama-3-8b-q4_K_M-0123456789ab"
PHASES = ("pp512", "tg128", "tg64/cache=q8_0", "pp512/batch=8")
LONG = f"{MODEL}/pp2048"
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


def test_the_table_has_its_columns(models: Past, capsys: Captured) -> None:
    heading, rule, *rows = run_command(capsys, "results", "--as", "llama-bench")[0].splitlines()
    cells = [cell.strip() for cell in heading.strip("|").split("|")]
    assert cells == ["model", "size", "params", "backend", "ngl", "type_k", "type_v", "test", "t/s"]
    assert re.fullmatch(r"\|( -+[-:] \|)+", rule)
    assert len(heading) == len(rule) == len(rows[0])
    table = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[:3]]
    assert table[0] == [
        *("llama-3-8b-q4_K_M", "4.58 GiB", "8.03 B", "Vulkan", "-1", "f16", "f16"),
        *("pp512", "1536.00 ± 724.08"),
    ]
    assert [row[-2] for row in table] == ["pp512", "tg128", "tg64"]
    assert rows[3:] == ["", f"build: {'ab' * 6} (0)"]


def test_several_sequences_at_once_are_left_out(models: Past, capsys: Captured) -> None:
    cli.main(["results", "--as", "llama-bench"])
    note = "left out 1 timing of several sequences at once"
    assert note in " ".join(capsys.readouterr().err.split())


def test_json_has_the_samples_of_whole_tests(models: Past, capsys: Captured) -> None:
    prompt, generated, cached = json.loads(
        run_command(capsys, "results", "--as", "llama-bench-json")[0]
    )
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


@pytest.mark.parametrize("form", ["llama-bench-json", "llama-bench"])
def test_the_time_of_a_peer_is_not_given_as_ours(models: Past, capsys: Captured, form: str) -> None:
    """A job that compares with a peer has the peer's time as its hot one."""
    case = f"{MODEL}/pp512"
    run = models.run("beside", timed(models, 0.5), timed(models, 0.125), cases=[case, case])
    change = "UPDATE job SET mode = 'peer', variant = 'ggml' WHERE run_id = {} AND position = 1"
    with models.database.transaction() as tx:
        tx.execute(text(change.format(run)))
    out = run_command(capsys, "results", "--as", form, "--run", "beside")[0]
    assert ("1024" in out, "4096" in out) == (True, False)  # tokens a second


def test_a_long_prompt_is_read_in_parts(models: Past, capsys: Captured) -> None:
    models.run("long", timed(models, 1.0), cases=[LONG])
    (long,) = json.loads(
        run_command(capsys, "results", "--as", "llama-bench-json", "--run", "long")[0]
    )
    assert (long["n_batch"], long["n_ubatch"]) == (2048, 512)


def test_sql_has_a_table_of_models_and_one_of_kernels(models: Past, capsys: Captured) -> None:
    with sqlite3.connect(":memory:") as connection:
        for _ in range(2):
            connection.executescript(run_command(capsys, "results", "--as", "llama-bench-sql")[0])
        rows = connection.execute("SELECT n_prompt, n_gen, model_size, no_host FROM llama_bench")
        kernels = connection.execute("SELECT count(*) FROM test_backend_ops").fetchone()[0]
    assert list(rows)[:2] == [(512, 0, 4_920_000_000, 0), (0, 128, 4_920_000_000, 0)]
    assert kernels == 2 * len(CASES)
    only = run_command(capsys, "results", "--as", "llama-bench-sql", "--kernel", "model")[0]
    assert "test_backend_ops" not in only


def test_names_of_others_stay_text(models: Past, capsys: Captured) -> None:
    nasty = replace(models.device, key="ab" * 6, name="it's | \x1b[31m'); --", uuid="1" * 32)
    models.add_device(nasty)
    models.run("nasty", timed(models, 1.0), device=nasty.key, cases=[f"{MODEL}/pp5"])
    (one,) = json.loads(
        run_command(capsys, "results", "--as", "llama-bench-json", "--run", "nasty")[0]
    )
    assert one["gpu_info"] == nasty.name
    with sqlite3.connect(":memory:") as connection:
        connection.executescript(
            run_command(capsys, "results", "--as", "llama-bench-sql", "--run", "nasty")[0]
        )
        assert connection.execute("SELECT gpu_info FROM llama_bench").fetchone()[0] == nasty.name
    table = run_command(capsys, "results", "--as", "llama-bench")[0]
    assert "\x1b" not in table
    assert len({row.count("|") for row in table.splitlines() if row.startswith("|")}) == 1
    assert " dev " in table


def test_a_suite_of_gpus_can_be_asked_for_where_the_first_device_is_a_cpu(
    past: Past, capsys: Captured
) -> None:
    past.add_device(replace(past.device, type="cpu"))
    gpu_case = f"model/{SEEDED[-1].name}/pp512"
    past.run("seeded", timed(past, 0.25), cases=[gpu_case])
    (row,) = read_rows(capsys, "results", "--suite", "models")
    assert row["case"] == gpu_case


@pytest.mark.parametrize("form", FORMS)
def test_without_models_nothing_breaks(past: Past, capsys: Captured, form: str) -> None:
    text = run_command(capsys, "results", "--as", form, "--state", "failed")[0]
    empty = {"llama-bench": 3, "llama-bench-json": 1}
    assert len(text.splitlines()) == empty.get(form, len(text.splitlines()))
    if form == "llama-bench-sql":
        sqlite3.connect(":memory:").executescript(text)


@pytest.fixture
def bench(models: Past, tmp_path: Path) -> Path:
    """What llama-bench would print of the same model and device."""
    path = tmp_path / "bench.jsonl"
    test = {
        "gpu_info": models.device.name,
        "model_filename": "llama-3-8b-q4_K_M.gguf",
        "n_prompt": 512,
        "n_gen": 0,
        "test_time": "2026-11-22T10:00:00Z",
        "avg_ns": 500_000_000,
        "samples_ns": [500_000_000, 500_000_001],
    }
    path.write_text("".join(json.dumps(test | more) + "\n" for more in ({}, {"n_depth": 4})))
    return path


def test_llama_cpp_stands_beside_our_own(bench: Path, capsys: Captured) -> None:
    for new in ("1 job new", "0 jobs new"):
        out, err = run_command(capsys, "import", "--llama-bench", str(bench))
        assert new in out
        assert "left out 1 test behind a filled cache" in err
    rows = read_rows(capsys, "results", "--kernel", "model", "--shape", "pp=512")
    (theirs,) = [row for row in rows if row["variant"] == "llama.cpp"]
    (own,) = [row for row in rows if row["case"] == theirs["case"] and row != theirs]
    assert theirs["tokens_per_second"] == pytest.approx(1024)
    assert theirs["hot_series"] not in (None, own["hot_series"])
    assert "not judged" in theirs["remark"]
    assert (
        len(json.loads(run_command(capsys, "results", "--as", "llama-bench-json")[0])) == 3
    )  # what came from there does not go back


def test_a_series_of_llama_cpp_grows(bench: Path, capsys: Captured) -> None:
    assert cli.main(["import", "--llama-bench", str(bench)]) == 0
    bench.write_text(bench.read_text().replace("2026-11-22", "2026-11-23"))
    assert cli.main(["import", "--llama-bench", str(bench)]) == 0
    capsys.readouterr()
    words = ["--kernel", "model", "--history", "--shape", "pp=512", "--json"]
    rows = json.loads(run_command(capsys, "results", *words)[0])["rows"]
    theirs = [row["hot_series"] for row in rows if row["variant"] == "llama.cpp"]
    assert len(theirs) == 2
    assert len(set(theirs)) == 1


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "give one file: of an export, or by --llama-bench, --ggml, --google-benchmark"),
        (["a", "--llama-bench", "b"], "give one file: of an export"),
        (["a", "--device", "x"], "--device and --model are of other programs"),
        (["--llama-bench", "nowhere"], "cannot read nowhere"),
        (["--llama-bench", "BENCH", "--device", "nothing"], "unknown device 'nothing'"),
        (["--llama-bench", "BENCH", "--model", "nowhere"], "cannot read nowhere"),
    ],
)
def test_a_wrong_import_is_one_line(
    bench: Path, capsys: Captured, words: list[str], complaint: str
) -> None:
    given = [str(bench) if word == "BENCH" else word for word in words]
    err = run_command(capsys, "import", *given, code=2)[1]
    assert complaint in " ".join(err.split())
