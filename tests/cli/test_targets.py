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

from planted_accuracy import of_model
from planted_runs import Past
from vkbench.accuracy import Accuracy
from vkbench.device import DeviceFacts
from vkbench.job import Mode, PlannedJob
from vkbench_cli import main as cli
from vkbench_db.ask import queries
from vkbench_db.work import store
from vkbench_db.work.accuracies import add_accuracies
from vkbench_local.peers import cpu
from vkbench_local.peers.standings import Evidence, faster_than_cpu
from vkbench_shaders.rocm_grid import GRID

pytestmark = pytest.mark.slow

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


def measure(
    past: Past,
    case: str,
    seconds: float,
    mode: Mode = Mode.PERFORMANCE,
    device: DeviceFacts | None = None,
) -> None:
    """A job that passed, of this host's planted device if not of another."""
    key = (device or past.device).key
    with past.database.transaction() as tx:
        run = store.create_run(tx, mode=mode, selection={}, now=time.time())
        store.add_jobs(tx, run.id, [PlannedJob(device=key, case=case, mode=mode)])
        [picked] = store.pick(tx, key, 1, time.time())
        ended = replace(past.done(seconds), job=picked.job.id, token=picked.job.token, case=case)
        timings = ended.timings if mode is Mode.PERFORMANCE else ()
        store.record(tx, [replace(ended, timings=timings)], time.time())


def check(past: Past, *cases: str) -> None:
    for case in cases:
        measure(past, case, 1.0, Mode.CORRECTNESS)


@pytest.mark.usefixtures("filled")
def test_every_target_stands_somewhere_and_says_why(capsys: Captured) -> None:
    found = rows(capsys)
    assert len(found) >= 26
    for row in found.values():
        assert row["standing"] in ("met", "missed", "not measured")
        assert row["how"]
        assert bool(row["measured"]) is (row["standing"] in ("met", "missed"))
        assert row["standing"] != "not measured" or "`" in row["how"]  # a command
    error = found["Q4_0 error", "below 0.5"]
    assert 0.2 < error["value"] < 0.5


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("target", "wanted", "standing", "value"),
    [
        ("Q4_0 size", "7.1 times smaller", "met", 7.1),
        ("Q4_0 size", "85.9 % saved", "met", 85.9),
        ("Q4 size", "8 times smaller", "missed", 7.1),
        ("Q8_0 size", "3.8 times smaller", "met", 3.8),
        ("IQ2_XXS size", "16 times smaller", "missed", 15.5),
    ],
)
def test_sizes_are_counted(
    target: str, wanted: str, standing: str, value: float, capsys: Captured
) -> None:
    row = rows(capsys)[target, wanted]
    assert (row["standing"], round(row["value"], 1)) == (standing, value)


@pytest.mark.usefixtures("filled")
def test_without_a_model_losses_are_those_of_products(capsys: Captured) -> None:
    found = rows(capsys)
    for target, wanted, least, most in (
        ("Q4_0 loss", "below 2 %", 8, 9),
        ("Q8_0 loss", "below 0.5 %", 0.52, 0.55),
        ("IQ2_XXS loss", "below 5 %", 31, 35),
    ):
        row = found[target, wanted]
        assert row["standing"] == "missed"
        assert least < row["value"] < most
        assert row["measured"].startswith("products are off by ")
        format = target.removesuffix(" loss").lower()
        assert f"`vkbench accuracy --model FILE --format {format} --text FILE`" in row["how"]


def test_losses_are_those_of_models_that_read_a_text(past: Past, capsys: Captured) -> None:
    """The greatest of all models against numbers that are no blocks; the newest reading counts."""
    keep(past, of_model("f16"), of_model("q4_0", 0.05), of_model("q8_0", 0.001))
    later = {"measured_at": 1_700_000_100.0}
    keep(
        past,
        of_model("f16", **later),
        of_model("q4_0", 0.019, **later),
        of_model("q4_0", 0.015, model="other-f16-0123456789ab"),
        of_model("iq2_xxs", 0.9, base_format="q8_0"),  # itself quantised
    )
    found = rows(capsys)
    row = found["Q4_0 loss", "below 2 %"]
    assert (row["standing"], row["measured"]) == ("met", "perplexity is 1.9 ± 0.1 % higher")
    assert row["value"] == pytest.approx(1.9)
    assert "tiny-f16-0123456789ab 1.9 % above f16, 1020 tokens in run 4" in row["how"]
    assert "other-f16-0123456789ab 1.5 %" in row["how"]
    assert found["Q8_0 loss", "below 0.5 %"]["standing"] == "met"
    assert found["IQ2_XXS loss", "below 5 %"]["measured"].startswith("products are off by ")
    keep(past, of_model("q8_0", 0.0051, measured_at=1_700_000_200.0))
    assert rows(capsys)["Q8_0 loss", "below 0.5 %"]["standing"] == "missed"


def keep(past: Past, *found: Accuracy) -> None:
    """An accuracy run."""
    with past.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.ACCURACY, selection={}, now=time.time())
        add_accuracies(tx, run.id, dict(enumerate(found)))


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize(
    ("target", "wanted", "command"),
    [
        ("Q4_0 layout", "18 bytes a block of 32", "--kernel quantize --format q4_0"),
        ("tests", "32 of 32; 20 of 20", "`vkbench run`"),
        ("quantisation shaders", "35 or more", "--suite quant`"),
        ("kernels", "103", "--suite quant`"),
        ("product sizes", "256² to 4096²", "--case matmul/f32/b1_m2048_n2048_k2048"),
        ("parity with the CPU, 128²", "1e-5", "--case matmul/f32/b1_m128_n128_k128"),
        ("F32 product 4096²", "50 to 100 times the CPU", "--case matmul/f32/b1_m4096"),
        ("GPU and CPU", "faster on large products, said when slower on small", "with a GPU"),
    ],
)
def test_without_a_result_nothing_is_met(
    target: str, wanted: str, command: str, capsys: Captured
) -> None:
    row = rows(capsys)[target, wanted]
    assert row["standing"] == "not measured"
    assert command in row["how"]


def test_ours_is_held_against_numpy_here_and_now(past: Past, capsys: Captured) -> None:
    measure(past, SQUARE, 1e-9)
    measure(past, ADD, 1e3)
    check(past, PARITY)
    found = rows(capsys)
    fast = found["F32 products, smaller", "50 to 100 times the CPU"]
    assert fast["standing"] == "met"
    assert fast["value"] > 1000
    assert fast["how"].startswith("Planted 9000: matmul/f32/b1_m256_n256_k256 ")
    slow = found["element-wise", "20 to 50 times the CPU"]
    assert slow["standing"] == "missed"
    assert 0 < slow["value"] < 1e-3
    sizes = found["product sizes", "256² to 4096²"]
    assert sizes["how"].startswith("1 of 5 timed so far: run `vkbench run --case matmul/f32/")


def test_parity_counts_in_the_rms_of_the_reference(past: Past, capsys: Captured) -> None:
    """The planted error is 1e-7; the case's products have an RMS of about 15."""
    check(past, PARITY)
    row = rows(capsys)["parity with the CPU, 128²", "1e-5"]
    assert row["standing"] == "met"
    assert row["value"] == pytest.approx(1e-7 / 15, rel=0.1)


def test_the_layout_is_met_by_kernels_that_write_it(past: Past, capsys: Captured) -> None:
    check(past, "quantize/q4_0/b1_m1_k32")
    row = rows(capsys)["Q4_0 layout", "18 bytes a block of 32"]
    assert (row["standing"], row["measured"]) == ("met", "1 of 1 results are gguf's bytes")


def test_as_many_checks_as_the_plans_count_have_to_pass(past: Past, capsys: Captured) -> None:
    check(past, *(f"copy/f32/n{n}" for n in range(1, 52)))
    key = ("tests", "32 of 32; 20 of 20")
    row = rows(capsys)[key]
    assert (row["standing"], row["how"][:34]) == (
        "not measured",
        "51 of 52 checks passed so far: run",
    )
    check(past, "copy/f32/n52")
    row = rows(capsys)[key]
    assert (row["standing"], row["measured"]) == ("met", "52 of 52 passed, 0 wrong or failed")


def test_shaders_and_names_count_where_they_passed(past: Past, capsys: Captured) -> None:
    """Of the 123 names those that a passed result is of; a kernel and a format are one shader."""
    check(past, *(kernel.case.name for kernel in GRID[:103]))
    check(past, "mul_mat_vec/q4_0/m7_n1_k256")  # the same shader and name again
    row = rows(capsys)["kernels", "103"]
    assert (row["standing"], row["measured"]) == ("missed", "103 passed, 1 wrong")
    measure(past, "mul_mat_vec/q8_0/m64_n1_k256", 1e-6)  # which had been wrong
    found = rows(capsys)
    row = found["kernels", "103"]
    assert (row["standing"], row["measured"]) == ("met", "103 passed, 0 wrong")
    shaders = {(kernel.kernel, kernel.format) for kernel in GRID[:103]}
    row = found["quantisation shaders", "35 or more"]
    assert row["standing"] == ("met" if len(shaders) >= 35 else "not measured")
    assert str(len(shaders)) in row["measured"] + row["how"]


def test_a_gpu_is_held_against_the_cpu_and_slower_is_said(past: Past) -> None:
    """On a smaller size than the target's, since numpy does it as well."""
    find = faster_than_cpu(SQUARE, PARITY)
    cpu_driver = replace(past.device, key="c" * 12, type="cpu", name="llvmpipe")
    past.add_device(cpu_driver)
    for case in (SQUARE, PARITY):
        measure(past, case, 1e-9, device=cpu_driver)
    assert find(evidence(past)).standing == "not measured"  # no GPU did that
    measure(past, SQUARE, 1e-9)
    measure(past, PARITY, 1e3)
    found = find(evidence(past))
    assert found.standing == "met"
    assert "slower on small" in found.measured
    assert found.how.startswith("Planted 9000")


def evidence(past: Past) -> Evidence:
    with past.database.reading() as tx:
        gpus = {row.key for row in queries.devices(tx) if row.facts.type != "cpu"}
        results = queries.results(tx, latest=True, limit=None)
    return Evidence(results=results, gpus=frozenset(gpus))


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    ("target", "wanted", "least", "most"),
    [
        ("F32 product 4096²", "0.8 to 1.2 times CUDA", 0.7, 0.8),
        ("Q4_0 product 4096²", "1.0 to 1.5 times CUDA f16", 0.07, 0.1),
    ],
)
def test_cuda_is_what_was_recorded_beside_it(
    target: str, wanted: str, least: float, most: float, capsys: Captured
) -> None:
    row = rows(capsys)[target, wanted]
    assert row["standing"] == "missed"
    assert least < row["value"] < most
    assert row["how"].startswith("recorded on NVIDIA H200, driver NVIDIA 580.159.04: ")


def test_results_of_other_hosts_do_not_count(
    past: Past, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vkbench.settings import settings

    measure(past, SQUARE, 1e-9)
    monkeypatch.setenv("VKBENCH_HOST", "elsewhere")
    settings.cache_clear()
    out, err = said(capsys, "--json")
    assert "no results of this host (elsewhere), only of here" in err
    found = {row["target"]: row for row in json.loads(out)["rows"]}
    assert found["F32 products, smaller"]["standing"] == "not measured"


@pytest.mark.usefixtures("filled")
def test_text_csv_and_markdown(capsys: Captured) -> None:
    out, err = said(capsys)
    assert out.startswith("plan")
    assert "not measured" in err
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
