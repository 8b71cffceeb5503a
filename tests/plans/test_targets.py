"""The plans' success metrics say what they are, what was measured, and what cannot be."""

from __future__ import annotations

import csv
import io
import json
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import select, update

from plans import __main__ as plans
from plans import cases, numpy_times
from plans.cuda import times_cuda
from plans.evidence import Evidence, read_evidence
from plans.rocm_grid import GRID
from plans.standings import faster_than_cpu, identity
from plans.workgroups import NVIDIA
from planted_accuracy import of_model
from planted_runs import Past, timing
from vkbench.accuracy import Accuracy
from vkbench.device import DeviceFacts
from vkbench.job import PEERS, Mode, PlannedJob
from vkbench.settings import settings
from vkbench_db import schema
from vkbench_db.ask import queries
from vkbench_db.ask.results import ResultFilter
from vkbench_db.ask.results import results as results_of_past
from vkbench_db.database import Database
from vkbench_db.upkeep import tuning
from vkbench_db.upkeep.tuning import Found
from vkbench_db.work import store
from vkbench_db.work.runs import add_accuracies, case_ids
from vkbench_scheduler.planning.plan import plan
from vkbench_scheduler.planning.selection import Selection
from vkbench_worker.runtime.null import NullDevice

pytestmark = pytest.mark.slow

Captured = pytest.CaptureFixture[str]

SQUARE = "matmul/f32/b1_m256_n256_k256"
PARITY = "matmul/f32/b1_m128_n128_k128"


def said(capsys: Captured, *words: str, code: int = 0) -> tuple[str, str]:
    """What a command prints on stdout and stderr."""
    found = plans.main([*words])
    out, err = capsys.readouterr()
    assert found == code, err
    return out, err


def rows(capsys: Captured) -> dict[tuple[str, str], dict[str, Any]]:
    found = json.loads(said(capsys, "--json")[0])["rows"]
    return {(row["target"], row["wanted"]): row for row in found}


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time numpy a few times and not for a second each."""
    monkeypatch.setattr(numpy_times, "SECONDS", 0.01)


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
    assert len(found) >= 24
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
def test_without_a_model_no_loss_is_measured(capsys: Captured) -> None:
    """What a format loses of products of normal numbers is another figure, in other units."""
    found = rows(capsys)
    for target, wanted in (
        ("Q4_0 loss", "below 2 %"),
        ("Q8_0 loss", "below 0.5 %"),
        ("IQ2_XXS loss", "below 5 %"),
    ):
        row = found[target, wanted]
        assert (row["standing"], row["value"]) == ("not measured", None)
        format = target.removesuffix(" loss").lower()
        assert row["how"] == f"run `vkbench accuracy --model FILE --format {format} --text FILE`"


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
    assert "tiny-f16-0123456789ab 1.9 % above f16's, 10.19 over 1020 tokens in run 4" in row["how"]
    assert "other-f16-0123456789ab 1.5 %" in row["how"]
    assert found["Q8_0 loss", "below 0.5 %"]["standing"] == "met"
    assert found["IQ2_XXS loss", "below 5 %"]["standing"] == "not measured"
    keep(past, of_model("q8_0", 0.0051, measured_at=1_700_000_200.0))
    assert rows(capsys)["Q8_0 loss", "below 0.5 %"]["standing"] == "missed"


def test_losses_count_where_no_device_is_known(database: Database, capsys: Captured) -> None:
    """Also if a fleet is asked for that has none yet."""
    with database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.ACCURACY, selection={}, now=time.time())
        add_accuracies(tx, run.id, {0: of_model("q8_0", 0.001)})
    for words in ((), ("--device", "*")):
        out, err = said(capsys, *words, "--json")
        assert "no device is known yet" in err
        found = {row["target"]: row["standing"] for row in json.loads(out)["rows"]}
        assert (found["Q8_0 loss"], found["kernels"]) == ("met", "not measured")


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
        ("kernels", "103", "--kernel mul_mat_vec --kernel quantize --mode correctness`"),
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
    for case in cases.ELEMENTS:
        measure(past, case, 1e3)
    for case in cases.ROWS:
        measure(past, case, 1e-9)
    found = rows(capsys)
    fast = found["reductions", "30 to 60 times the CPU"]
    assert fast["standing"] == "met"
    assert fast["value"] > 1000
    assert fast["how"].startswith("Planted 9000: sum/f32/b1_c1_h8192_w8192 ")
    slow = found["element-wise", "20 to 50 times the CPU"]
    assert slow["standing"] == "missed"
    assert 0 < slow["value"] < 1e-3
    sizes = found["product sizes", "256² to 4096²"]
    assert sizes["how"].startswith("1 of 5 timed so far: run `vkbench run --case matmul/f32/")


def test_a_part_of_the_cases_meets_nothing(past: Past, capsys: Captured) -> None:
    """The fastest of four products says nothing of the other three; nor what another device did."""
    measure(past, SQUARE, 1e-9)
    another = replace(past.device, key="d" * 12, name="Planted H200")
    past.add_device(another)
    for case in cases.ROWS[:2]:
        measure(past, case, 1e-9)
    for case in cases.ROWS[2:]:
        measure(past, case, 1e-9, device=another)
    found = rows(capsys)
    squares = found["F32 products, smaller", "50 to 100 times the CPU"]
    assert squares["standing"] == "not measured"
    assert squares["how"].startswith("1 of 4 timed on Planted 9000: run `vkbench run --case matmul")
    missing = "".join(f" --case {case}" for case in cases.SQUARES[1:4])
    assert f"`vkbench run{missing} --mode performance`" in squares["how"]
    assert found["reductions", "30 to 60 times the CPU"]["standing"] == "not measured"


def test_the_device_that_timed_all_cases_counts(past: Past, capsys: Captured) -> None:
    """Also beside one that is faster at the first of them and did no other."""
    another = replace(past.device, key="d" * 12, name="Planted H200")
    past.add_device(another)
    measure(past, cases.ROWS[0], 1e-9, device=another)
    for case in cases.ROWS:
        measure(past, case, 1e-8)
    row = rows(capsys)["reductions", "30 to 60 times the CPU"]
    assert row["standing"] == "met"
    assert row["how"].startswith("Planted 9000: sum/")


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


def test_names_of_the_grid_count_where_they_passed(past: Past, capsys: Captured) -> None:
    """Sizes do not matter, but for the columns that a name says; a wrong result misses it."""
    check(past, *(kernel.case.name for kernel in GRID[:103]))
    check(past, "mul_mat_vec/q4_0/m7_n1_k256")  # the same name again
    row = rows(capsys)["kernels", "103"]
    assert (row["standing"], row["measured"]) == (
        "missed",
        "103 of the grid's 123 names passed, 1 wrong",
    )
    measure(past, "mul_mat_vec/q8_0/m64_n1_k256", 1e-6)  # which had been wrong
    row = rows(capsys)["kernels", "103"]
    assert (row["standing"], row["value"]) == ("met", 103)


@pytest.mark.usefixtures("past")
@pytest.mark.parametrize("target", ["tests", "quantisation shaders"])
def test_what_no_figure_shows_has_no_row(target: str, capsys: Captured) -> None:
    """Fifty checks of one kernel would be as many tests, and every kernel of a user a shader."""
    assert target not in {name for name, _ in rows(capsys)}


def test_other_kernels_are_no_kernels_of_the_grid(past: Past, capsys: Captured) -> None:
    counted = rows(capsys)["kernels", "103"]["measured"]
    assert counted == "1 of the grid's 123 names passed, 1 wrong"  # which `filled` has
    check(past, *(f"copy/f32/n{n}" for n in range(1, 104)))
    assert rows(capsys)["kernels", "103"]["measured"] == counted


def test_the_kernels_that_are_named_check_the_whole_grid() -> None:
    """What a row without a measurement tells people to run, planned for one device."""
    kernels = tuple(sorted({kernel.kernel for kernel in GRID}))
    selection = Selection(kernels=kernels, mode=Mode.CORRECTNESS)
    planned = {identity(job.case) for job in plan(selection, [NullDevice().facts])}
    assert {identity(kernel.case.name) for kernel in GRID} <= planned


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
        devices = {row.key: row.facts for row in queries.devices(tx)}
        results = results_of_past(tx, ResultFilter(), limit=None)
    return Evidence(results=results, devices=devices)


@pytest.mark.usefixtures("filled")
def test_cuda_is_what_was_recorded_beside_it(capsys: Captured) -> None:
    row = rows(capsys)["F32 product 4096²", "0.8 to 1.2 times CUDA"]
    assert row["standing"] == "missed"
    assert 0.7 < row["value"] < 0.8
    assert row["how"].startswith("recorded on NVIDIA H100 80GB HBM3, driver NVIDIA 580.159.04: ")
    assert re.search(r"ours [\d.]+ us by bundle [0-9a-f]{8} of 2026-\d\d-\d\d", row["how"])


def compare_with_torch(past: Past, key: str, case: str, theirs: float, ours: float) -> None:
    """A comparison with torch on a planted device."""
    job = PlannedJob(device=key, case=case, mode=Mode.PEER, variant="torch")
    with past.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.PERFORMANCE, selection={}, now=time.time())
        store.add_jobs(tx, run.id, [job])
        [picked] = store.pick(tx, key, 1, time.time())
        ended = replace(past.done(1.0), job=picked.job.id, token=picked.job.token, case=case)
        timings = (timing("hot", theirs), timing("ours", ours))
        told = "version=2.9,weights=f16,ours=tiled"
        ended = replace(ended, device=key, variant="torch", timings=timings, settings=told)
        store.record(tx, [ended], time.time())


def test_cuda_is_torch_in_turns_where_it_was_asked(past: Past, capsys: Captured) -> None:
    """All cases of a target count, on a device of NVIDIA; else what was recorded stands in."""
    nvidia = replace(past.device, key="d" * 12, vendor_id=NVIDIA, name="Planted H200")
    past.add_device(nvidia)
    compare_with_torch(past, nvidia.key, "mul_mat/q4_0/m4096_n4096_k4096", 300e-6, 200e-6)
    compare_with_torch(past, nvidia.key, "sum/f32/b1_c1_h8192_w8192", 300e-6, 200e-6)
    compare_with_torch(past, past.device.key, "matmul/f32/b1_m4096_n4096_k4096", 1.0, 2.0)
    found = rows(capsys)
    row = found["Q4_0 product 4096²", "1.0 to 1.5 times CUDA f16"]
    assert (row["standing"], row["value"]) == ("met", pytest.approx(1.5))
    assert row["how"] == (
        "in turns on Planted H200: mul_mat/q4_0/m4096_n4096_k4096: "
        "torch 300 us, ours 200 us (torch: weights=f16)"
    )
    for target in (
        ("reductions", "0.9 to 1.1 times CUDA"),
        ("F32 product 4096²", "0.8 to 1.2 times CUDA"),
    ):
        assert found[target]["how"].startswith("recorded on ")


def test_what_was_neither_compared_nor_recorded_has_a_command() -> None:
    found = times_cuda(["add/f32/n1", "add/f32/n2"], 0.9)(Evidence(results=(), of_fleet=True))
    assert found.standing == "not measured"
    assert found.how == (
        "run `vkbench submit --case add/f32/n1 --case add/f32/n2 --mode performance --peer torch` "
        "on a host with torch and an NVIDIA GPU"
    )


@pytest.fixture
def elsewhere(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """This process runs on a host that has no device, as a scheduler's may."""
    monkeypatch.setenv("VKBENCH_HOST", "elsewhere")
    settings.cache_clear()


@pytest.mark.usefixtures("elsewhere")
def test_other_hosts_count_where_they_are_chosen(past: Past, capsys: Captured) -> None:
    for case in cases.ROWS:
        measure(past, case, 1e-9)
    out, err = said(capsys, "--json")
    assert "no devices of this host (elsewhere), only of here" in err
    reductions = ("reductions", "30 to 60 times the CPU")
    found = {(row["target"], row["wanted"]): row for row in json.loads(out)["rows"]}
    assert found[reductions]["standing"] == "not measured"
    out, err = said(capsys, "--device", "*", "--json")
    assert "no devices" not in err
    found = {(row["target"], row["wanted"]): row for row in json.loads(out)["rows"]}
    row = found[reductions]
    assert row["standing"] == "met"
    assert row["how"].startswith("Planted 9000: ")
    assert row["how"].endswith("; numpy on elsewhere, not here")
    assert "`vkbench submit --case " in found["product sizes", "256² to 4096²"]["how"]


def test_times_of_other_programs_are_not_ours(past: Past) -> None:
    with past.database.transaction() as tx:
        tx.execute(update(schema.run).values(track=PEERS))
    assert [*read_evidence(settings(), ()).results] == []


def test_workgroups_are_those_that_sweeps_found(past: Past, capsys: Captured) -> None:
    """By the vendor of the device; tiles have as many threads as they say."""
    nvidia = replace(past.device, key="d" * 12, vendor_id=NVIDIA, name="Planted H200")
    past.add_device(nvidia)
    for case, configuration in (
        ("matmul/f32/b1_m1024_n1024_k1024", "portable:split=1,tile=128x128_8x8"),
        ("mul_mat_vec/q4_0/m4096_n1_k4096", "subgroup:threads=64"),
        ("sum/f32/b1_c1_h64_w8192", "portable:threads=512"),
        ("sum/f32/b1_c1_h64_w4096", "gone:threads=64"),
        ("lab.mine/f32/n64", "own:threads=64"),
    ):
        tune(past, nvidia, case, configuration)
    tune(past, past.device, "sum/f32/b1_c1_h64_w4096", "subgroup:threads=64")
    found = rows(capsys)
    row = found["workgroups of NVIDIA", "256 to 1024"]
    assert (row["standing"], row["value"]) == ("met", pytest.approx(2 / 3))
    assert row["measured"] == "256 to 1024 is the fastest in 2 of 3 cases"
    assert row["how"].endswith(": 64 in 1, 256 in 1, 512 in 1")
    row = found["workgroups of AMD", "64"]
    assert row["standing"] == "not measured"
    assert row["how"].startswith("no AMD device was tuned: `vkbench tune`")


def tune(past: Past, device: DeviceFacts, case: str, configuration: str) -> None:
    """What a sweep found for a case."""
    with past.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.PERFORMANCE, selection={}, now=time.time(), track="")
        key = schema.device.c.key == device.key
        found = Found(
            run_id=run.id,
            device_id=tx.execute(select(schema.device.c.id).where(key)).scalar_one(),
            case_id=case_ids(tx, [case])[case],
            driver="planted",
            driver_version="1.2",
            configuration=configuration,
            seconds=1.0,
            estimated="portable",
            estimated_seconds=2.0,
            measured_at=time.time(),
        )
        tuning.store(tx, [found])


@pytest.mark.parametrize(("table", "count"), [("grid", 123), ("checklist", 325)])
def test_other_tables_need_no_database(table: str, count: int, capsys: Captured) -> None:
    assert len(json.loads(said(capsys, table, "--json")[0])["rows"]) == count
    printed = said(capsys, table, "--markdown")[0].splitlines()
    assert len(printed) == count + 2  # a heading


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
        (["grids"], "'grids' is not one of"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_told(words: list[str], hint: str, capsys: Captured) -> None:
    out, err = said(capsys, *words, code=2)
    assert out == ""
    assert hint in err


TIMED = (*cases.SQUARES, *cases.BLOCKS, *cases.ELEMENTS, *cases.ROWS)


@pytest.mark.parametrize("case", {case.partition("/")[0]: case for case in TIMED}.values())
def test_numpy_does_the_work_of_each_kernel_that_targets_name(case: str) -> None:
    small = re.sub(r"(?<=[mnkhw])\d+", "32", case)
    measured = numpy_times.measure(small)
    assert 0 < measured.best <= measured.seconds
    assert measured.count >= numpy_times.LEAST
