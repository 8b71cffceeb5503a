"""Runs of the calibration suite become roofs, and timings a share of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Row, select

from databases import Lab
from vkbench.calibration import CPU_CANARY, SUITE, TICK
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_db import schema
from vkbench_db.database import Database, upgrade
from vkbench_db.transfer.exchange import export_run, import_lines
from vkbench_db.work import store
from vkbench_db.work.runs import case_ids
from vkbench_detection.series import calibrations, placing
from vkbench_detection.series.roofs import (
    RoofLoad,
    Roofs,
    newest,
    numbers_of,
    path_fraction,
    roof_fraction,
)
from vkbench_detection.steps import detect
from vkbench_shaders.formats import FORMATS

GIGA = 10**9
# case -> code path, bytes moved, operations, hot and cold seconds
REACHED = {
    "read_bandwidth/u32/n8388608_g512": ("portable", 32 * GIGA, 0, 4.0, 8.0),
    "read_bandwidth/u32/n134217728_g8192": ("portable", 512 * GIGA, 0, 90.0, 100.0),
    "copy/f32/n67108864": ("portable", 512 * GIGA, 0, 50.0, 128.0),
    "fma/f32/n16777216_r256": ("portable", 1, 600 * GIGA, 10.0, 11.0),
    "fma/f16/n16777216_r256": ("pairs", 1, 600 * GIGA, 5.0, 6.0),
    "dot_i8/i32/n16777216_r64": ("int_dot", 1, 600 * GIGA, 4.0, 5.0),
    "matrix_rate/f16/t65536_m16_n16_k16_r128": ("f16_f32", 1, 600 * GIGA, 1.0, 1.0),
    "launch/u32/n1": ("portable", 4, 0, 2e-6, 3e-6),
}
NOISY = [1.0, 1.01, 0.99, 1.0, 1.0, 1.02, 0.98, 1.0]


def answer(lab: Lab, job: Job, number: int) -> Result:
    done = lab.answer(job)
    if job.case == CPU_CANARY:
        path, moved, flops, hot, cold = "portable", 1, 6 * GIGA, NOISY[number], 2.0
    else:
        path, moved, flops, hot, cold = REACHED[job.case]
    timings = tuple(
        replace(timing, seconds=seconds, bytes_moved=moved, flops=flops)
        for timing, seconds in zip(done.timings, (hot, cold), strict=True)
    )
    return replace(done, variant=path, timings=timings, telemetry={TICK: 32.0})


def begin(lab: Lab, device: str, suite: str = SUITE) -> int:
    """A run with all that a calibration has."""
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={"suite": suite}, now=lab.now).id
        cases = [*REACHED, *[CPU_CANARY] * len(NOISY)]
        store.add_jobs(tx, run, [lab.planned(device, case) for case in cases])
    return run


def finish(lab: Lab, device: str, leave: int = 0) -> None:
    jobs = lab.pick(device)
    canaries = [job.id for job in jobs if job.case == CPU_CANARY]
    for job in jobs[: len(jobs) - leave]:
        lab.record(answer(lab, job, canaries.index(job.id) if job.id in canaries else 0))


def settle(lab: Lab) -> int:
    with lab.database.transaction() as tx:
        return calibrations.settle(tx, lab.now)


def stored(lab: Lab) -> Sequence[Row[*tuple[Any, ...]]]:
    with lab.database.reading() as tx:
        return tx.execute(select(schema.calibration).order_by(schema.calibration.c.id)).all()


def test_a_finished_run_becomes_what_its_device_reaches(lab: Lab) -> None:
    device = lab.add_device()
    run = begin(lab, device)
    finish(lab, device)
    assert settle(lab) == 1
    [row] = stored(lab)
    assert row.run_id == run
    assert row.measured_at == lab.now
    assert row.read_bytes == pytest.approx(5.12 * GIGA)  # cold, and the best of its cases
    assert row.copy_bytes == pytest.approx(4 * GIGA)
    assert row.fma_f32 == pytest.approx(60 * GIGA)
    assert row.fma_f16 == pytest.approx(120 * GIGA)
    assert row.dot_i8 == pytest.approx(150 * GIGA)
    assert row.matrices == {"f16_f32": pytest.approx(600 * GIGA)}
    assert row.launch_seconds == 2e-6
    assert row.tick_seconds == pytest.approx(32e-9)
    assert row.noise == pytest.approx(1.4826 * 0.005, rel=0.05)


def test_doing_it_again_makes_none(lab: Lab) -> None:
    device = lab.add_device()
    begin(lab, device)
    finish(lab, device)
    assert (settle(lab), settle(lab)) == (1, 0)
    assert len(stored(lab)) == 1


def test_a_run_is_waited_for_and_other_suites_are_none(lab: Lab) -> None:
    device = lab.add_device()
    begin(lab, device)
    finish(lab, device, leave=1)
    assert settle(lab) == 0
    begin(lab, device, suite="quick")
    lab.now += 10
    finish(lab, device)
    assert settle(lab) == 0


def test_what_was_skipped_is_unknown(lab: Lab) -> None:
    device = lab.add_device()
    begin(lab, device)
    for job in lab.pick(device):
        passes = job.case in ("launch/u32/n1", "copy/f32/n67108864")
        lab.record(
            answer(lab, job, 0) if passes else lab.answer(job, Outcome.SKIPPED),
        )
    assert settle(lab) == 1
    [row] = stored(lab)
    assert row.copy_bytes
    assert (row.read_bytes, row.fma_f32, row.noise, row.matrices) == (None, None, None, {})


def test_each_device_has_its_own(lab: Lab) -> None:
    devices = [lab.add_device(name) for name in ("one", "two")]
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={"suite": SUITE}, now=lab.now).id
        jobs = [lab.planned(device, case) for device in devices for case in REACHED]
        store.add_jobs(tx, run, jobs)
    finish(lab, devices[0])
    assert settle(lab) == 1
    finish(lab, devices[1])
    assert settle(lab) == 1
    assert len({row.device_id for row in stored(lab)}) == 2


def test_a_run_that_was_exported_calibrates_elsewhere(lab: Lab, tmp_path: Path) -> None:
    device = lab.add_device()
    run = begin(lab, device)
    finish(lab, device)
    settle(lab)
    url = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    upgrade(url)
    with Database.open(url) as elsewhere:
        with lab.database.reading() as tx:
            lines = list(export_run(tx, run))
        for _ in range(2):
            with elsewhere.transaction() as tx:
                import_lines(tx, lines, lab.now + 100)
            detect(elsewhere, lab.now + 100, all_at_once=True)
        with elsewhere.reading() as tx, lab.database.reading() as here:
            found, ours = calibrations.latest(tx), calibrations.latest(here)
    assert found == ours
    assert len(found) == 1


def shares(lab: Lab) -> list[float | None]:
    measurement = schema.measurement.c
    with lab.database.reading() as tx:
        rows = tx.execute(
            select(measurement.roof_fraction)
            .join(schema.job, schema.job.c.id == measurement.job_id)
            .join(schema.kernel_case, schema.kernel_case.c.id == schema.job.c.case_id)
            .where(schema.kernel_case.c.kernel == "mul_mat_vec", measurement.metric == "cold")
            .order_by(measurement.job_id)
        )
        return list(rows.scalars())


def place(lab: Lab) -> None:
    with lab.database.transaction() as tx:
        placing.place(tx, lab.now)


def test_timings_have_a_share_of_the_roof_once_there_is_one_and_keep_it(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, 1)
    lab.settle(device)
    place(lab)
    begin(lab, device)
    finish(lab, device)
    settle(lab)
    lab.submit(device, 1)
    lab.settle(device)
    place(lab)
    # a million bytes at 5.12 GB/s are longer than two million operations at 60 GFLOP/s
    wanted = [None, pytest.approx(1e6 / 5.12e9 / 2e-3)]
    assert shares(lab) == wanted
    better = recalibrate(lab)
    place(lab)
    assert shares(lab) == wanted
    lab.submit(device, 1)
    lab.settle(device)
    place(lab)
    assert shares(lab) == [*wanted, pytest.approx(1e6 / better / 2e-3)]


def recalibrate(lab: Lab) -> float:
    """A later calibration that reads faster; bytes a second."""
    table, better = schema.calibration, 8e9
    with lab.database.transaction() as tx:
        row = dict(tx.execute(select(table)).one()._mapping)
        del row["id"]
        other = store.create_run(tx, mode=Mode.BOTH, selection={}, now=lab.now).id
        changed = {"run_id": other, "read_bytes": better, "measured_at": lab.now + 5}
        tx.execute(table.insert().values(row | changed))
        known = newest(tx, [(row["device_id"], row["environment"]), (99, "none")])
    [found] = known.values()
    assert found.bandwidth == better
    return better


CACHE = 50 * 10**6
REACHES = Roofs(
    read_bytes=4e12, copy_bytes=3e12, fma_f32=60e12, fma_f16=120e12, dot_i8=240e12,
    matrices={"f16_f32": 600e12, "i8_i32": 1200e12}, llc_bytes=CACHE,
)  # fmt: skip


# what takes a second: bytes from memory, operations on singles
MEMORY, SINGLES = 4 * 10**12, 60 * 10**12


@pytest.mark.parametrize(
    ("load", "of_roof", "of_path"),
    [
        (RoofLoad(bytes_moved=MEMORY, flops=0), 1.0, None),
        (RoofLoad(bytes_moved=MEMORY // 2, flops=SINGLES, path="f32"), 1.0, 1.0),
        (RoofLoad(bytes_moved=MEMORY // 2, flops=SINGLES // 4, path="f32"), 0.5, 0.25),
        (RoofLoad(bytes_moved=0, flops=SINGLES, path="f16_accumulation"), 0.5, 0.5),
        (RoofLoad(bytes_moved=0, flops=SINGLES, path="f32", variant="int_dot"), 0.25, 0.25),
        (RoofLoad(bytes_moved=0, flops=SINGLES, path="f32", variant="int_dot_q8_0"), 0.25, 0.25),
        (RoofLoad(bytes_moved=0, flops=SINGLES, path="exact", variant="f16_f32"), 0.1, 0.1),
        # what matrix units take is held against them, whatever ran
        (RoofLoad(bytes_moved=0, flops=SINGLES, path="f32", numbers="f16"), 0.1, 1.0),
        (RoofLoad(bytes_moved=0, flops=SINGLES, variant="int_dot", numbers="i8"), 0.05, 0.25),
        # no unit of the device takes these but the path's own
        (RoofLoad(bytes_moved=0, flops=SINGLES, path="f32", numbers="bf16"), 1.0, 1.0),
        (RoofLoad(bytes_moved=0, flops=0), None, None),
    ],
)  # fmt: skip
def test_a_share_is_of_whichever_takes_longer(
    load: RoofLoad, of_roof: float | None, of_path: float | None
) -> None:
    assert roof_fraction(load, 1.0, REACHES) == wanted(of_roof)
    assert path_fraction(load, 1.0, REACHES) == wanted(of_path)


def wanted(share: float | None) -> object:
    return share if share is None else pytest.approx(share)


@pytest.mark.parametrize(
    ("bytes_moved", "is_cold", "llc_bytes", "share"),
    [
        (2 * CACHE, False, CACHE, 2 * CACHE / MEMORY),
        (2 * CACHE - 1, False, CACHE, None),  # some of it may still be in the cache
        (1000, True, CACHE, 1000 / MEMORY),
        (2 * CACHE, False, 0, None),  # unknown
        (2 * CACHE, True, 0, 2 * CACHE / MEMORY),
    ],
)
def test_what_may_stay_in_a_cache_is_not_held_against_memory(
    bytes_moved: int, is_cold: bool, llc_bytes: int, share: float | None
) -> None:
    load = RoofLoad(bytes_moved=bytes_moved, flops=10, path="f32", is_cold=is_cold)
    roofs = replace(REACHES, llc_bytes=llc_bytes)
    assert roof_fraction(load, 1.0, roofs) == wanted(share)
    assert path_fraction(load, 1.0, roofs) == pytest.approx(10 / SINGLES)


def test_operations_that_take_longer_than_memory_count_wherever_the_bytes_lie() -> None:
    load = RoofLoad(bytes_moved=1000, flops=SINGLES // 2, path="f32")
    assert roof_fraction(load, 1.0, REACHES) == pytest.approx(0.5)
    assert roof_fraction(load, 1.0, replace(REACHES, llc_bytes=0)) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("load", "reached"),
    [
        (RoofLoad(bytes_moved=0, flops=5, path="f32"), None),
        (RoofLoad(bytes_moved=0, flops=5, path="f32"), Roofs(read_bytes=1e9)),
        (RoofLoad(bytes_moved=5, flops=5, path="f32", is_cold=True), Roofs(fma_f32=1e9)),
        (RoofLoad(bytes_moved=5, flops=5, path="f32", is_cold=True), Roofs(read_bytes=1e9)),
    ],
)
def test_without_a_calibration_or_what_it_lacks_there_is_no_share(
    load: RoofLoad, reached: Roofs | None
) -> None:
    assert roof_fraction(load, 1.0, reached) is None
    assert roof_fraction(load, 1.0, REACHES) is not None


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        ("mul_mat_vec/f32/m1_n1_k32", ""),
        ("mul_mat_vec/f16/m1_n1_k32", "f16"),
        ("mul_mat_vec/f16:x=f16/m1_n1_k32", "f16"),
        ("mul_mat/bf16/m1_n1_k32", "bf16"),
        ("mul_mat/q4_0/m1_n1_k32", "f16"),
        ("mul_mat/q4_0:x=f16/m1_n1_k32", "f16"),
        ("mul_mat/q4_0:x=q8_1/m1_n1_k32", "i8"),
        ("mul_mat_vec/q4_0:x=q8_0/m1_n1_k32", "i8"),
        ("matmul/f32:y=f16/b1_m1_n1_k1", ""),
        ("flash_attn/q8_0:v=q4_0/s1_h1_g1_q1_n1_d32_e32", "f16"),
        ("flash_attn/q4_0:v=q8_0/s1_h1_g1_q1_n1_d32_e32", "f16"),
        ("dot_i8/i32/n1_r1", ""),
        ("cast/f8_e4m3/n1", ""),
    ],
)
def test_numbers_are_those_that_matrix_units_could_take(lab: Lab, case: str, wanted: str) -> None:
    with lab.database.transaction() as tx:
        [number] = case_ids(tx, [case]).values()
        asked = select(schema.kernel_case.c.format, schema.kernel_case.c.types)
        row = tx.execute(asked.where(schema.kernel_case.c.id == number)).one()
    assert numbers_of(row.format, row.types) == wanted


def test_formats_of_blocks_are_told_from_single_numbers() -> None:
    for fmt in FORMATS:
        is_half = fmt.name in ("f16", "bf16")
        assert numbers_of(fmt.name) == (fmt.name if is_half else "f16" if fmt.quantised else "")


def test_a_placed_timing_is_held_against_what_could_do_it(lab: Lab) -> None:
    """A product of q4_0 weights: hot in the cache by its operations, cold by its bytes."""
    device = lab.add_device()
    begin(lab, device)
    finish(lab, device)
    settle(lab)
    run = lab.submit(device, 3)
    jobs = lab.pick(device)
    for job, warning in zip(jobs, ("", "not cold: no memory", ""), strict=True):
        lab.record(told(lab, job, warning, flops=2 * GIGA if job == jobs[2] else 1000))
    place(lab)
    timing, table = schema.measurement.c, schema.job.c
    with lab.database.reading() as tx:
        rows = tx.execute(
            select(timing.roof_fraction, timing.path_fraction)
            .join(schema.job, table.id == timing.job_id)
            .where(table.run_id == run)
            .order_by(timing.job_id, timing.metric)  # cold, then hot
        ).all()
    of_memory = 1e6 / 5.12e9 / 2e-3
    shares = [of_memory, None, None, None, 2e9 / 600e9 / 2e-3, 2e9 / 600e9 / 1e-3]
    assert [row.roof_fraction for row in rows] == [wanted(share) for share in shares]
    assert rows[5].path_fraction == pytest.approx(2e9 / 60e9 / 1e-3)


def told(lab: Lab, job: Job, warning: str, flops: int) -> Result:
    done = lab.answer(job)
    warnings = (warning,) if warning else ()
    timings = [replace(each, flops=flops, warnings=warnings) for each in done.timings]
    return replace(done, timings=tuple(timings))


@pytest.mark.parametrize(
    ("variant", "path", "peak"),
    [
        ("coopmat", "f16_inputs", 600e12),
        ("coopmat:split=2,tile=coop_128x128", "f16_inputs", 600e12),
        ("coopmat:path=tiles", "f16_attention", 600e12),
        ("coopmat_to_bf16", "bf16_inputs", 500e12),
        ("int_dot:tile=64x64", "int8", 200e12),
        ("portable", "f32", 60e12),
        ("coopmat_f16", "f16_accumulation", 100e12),  # no matrices with f16 sums were calibrated
    ],
)
def test_a_code_path_is_held_against_the_unit_that_it_uses(
    variant: str, path: str, peak: float
) -> None:
    matrices = {"f16_f32": 600e12, "bf16_f32": 500e12}
    roofs = Roofs(fma_f32=60e12, fma_f16=100e12, dot_i8=200e12, matrices=matrices)
    assert roofs.path_peak(path, variant) == peak
