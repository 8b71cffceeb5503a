"""Runs of the calibration suite become roofs, and timings a share of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from vkbench.calibration import CPU_CANARY, SUITE, TICK
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_db import calibrations, models, placing, store
from vkbench_db.database import Database, upgrade
from vkbench_db.detection import detect
from vkbench_db.exchange import export_run, import_lines
from vkbench_db.roofs import Roofs, newest, roof_fraction

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


def answer(lab, job: Job, number: int) -> Result:
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


def begin(lab, device: str, suite: str = SUITE) -> int:
    """A run with all that a calibration has."""
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={"suite": suite}, now=lab.now).id
        cases = [*REACHED, *[CPU_CANARY] * len(NOISY)]
        store.add_jobs(tx, run, [lab.planned(device, case) for case in cases])
    return run


def finish(lab, device: str, leave: int = 0) -> None:
    jobs = lab.pick(device)
    canaries = [job.id for job in jobs if job.case == CPU_CANARY]
    for job in jobs[: len(jobs) - leave]:
        lab.record(answer(lab, job, canaries.index(job.id) if job.id in canaries else 0))


def settle(lab) -> int:
    with lab.database.transaction() as tx:
        return calibrations.settle(tx, lab.now)


def stored(lab) -> Sequence[models.Calibration]:
    with lab.database.reading() as tx:
        rows = tx.execute(select(models.Calibration.__table__).order_by(models.Calibration.id))
        return rows.all()  # type: ignore[return-value]


def test_a_finished_run_becomes_what_its_device_reaches(lab) -> None:
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


def test_doing_it_again_makes_none(lab) -> None:
    device = lab.add_device()
    begin(lab, device)
    finish(lab, device)
    assert (settle(lab), settle(lab)) == (1, 0)
    assert len(stored(lab)) == 1


def test_a_run_is_waited_for_and_other_suites_are_none(lab) -> None:
    device = lab.add_device()
    begin(lab, device)
    finish(lab, device, leave=1)
    assert settle(lab) == 0
    begin(lab, device, suite="quick")
    lab.now += 10
    finish(lab, device)
    assert settle(lab) == 0


def test_what_was_skipped_is_unknown(lab) -> None:
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


def test_each_device_has_its_own(lab) -> None:
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


def test_a_run_that_was_exported_calibrates_elsewhere(lab, tmp_path: Path) -> None:
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


def shares(lab) -> list[float | None]:
    measurement = models.Measurement
    with lab.database.reading() as tx:
        rows = tx.execute(
            select(measurement.roof_fraction)
            .join(models.Job, models.Job.id == measurement.job_id)
            .join(models.KernelCase, models.KernelCase.id == models.Job.case_id)
            .where(models.KernelCase.kernel == "mul_mat_vec", measurement.metric == "hot")
            .order_by(measurement.job_id)
        )
        return list(rows.scalars())


def place(lab) -> None:
    with lab.database.transaction() as tx:
        placing.place(tx, lab.now)


def test_timings_have_a_share_of_the_roof_once_there_is_one_and_keep_it(lab) -> None:
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
    wanted = [None, pytest.approx(1e6 / 5.12e9 / 1e-3)]
    assert shares(lab) == wanted
    better = recalibrate(lab)
    place(lab)
    assert shares(lab) == wanted
    lab.submit(device, 1)
    lab.settle(device)
    place(lab)
    assert shares(lab) == [*wanted, pytest.approx(1e6 / better / 1e-3)]


def recalibrate(lab) -> float:
    """A later calibration that reads faster; bytes a second."""
    table, better = models.Calibration.__table__, 8e9
    with lab.database.transaction() as tx:
        row = dict(tx.execute(select(table)).one()._mapping)
        del row["id"]
        other = store.create_run(tx, mode=Mode.BOTH, selection={}, now=lab.now).id
        changed = {"run_id": other, "read_bytes": better, "measured_at": lab.now + 5}
        tx.execute(table.insert().values(**row | changed))  # type: ignore[attr-defined]
        known = newest(tx, [(row["device_id"], row["environment"]), (99, "none")])
    [found] = known.values()
    assert found.bandwidth == better
    return better


REACHES = Roofs(
    read_bytes=4e12, copy_bytes=3e12, fma_f32=60e12, fma_f16=120e12, dot_i8=240e12,
    matrices={"f16_f32": 600e12},
)  # fmt: skip


@pytest.mark.parametrize(
    ("bytes_moved", "flops", "path", "variant", "wanted"),
    [
        (4 * 10**9, 0, "exact", "portable", 1.0),
        (2 * 10**9, 60 * 10**9, "f32", "portable", 1.0),
        (2 * 10**9, 15 * 10**9, "f32", "portable", 0.5),
        (0, 60 * 10**9, "f16_accumulation", "portable", 0.5),
        (0, 60 * 10**9, "f32", "int_dot", 0.25),
        (0, 60 * 10**9, "exact", "f16_f32", 0.1),
        (0, 0, "exact", "portable", None),
    ],
)
def test_a_share_is_of_whichever_takes_longer(
    bytes_moved: int, flops: int, path: str, variant: str, wanted: float | None
) -> None:
    found = roof_fraction(
        bytes_moved=bytes_moved,
        flops=flops,
        seconds=1e-3,
        path=path,
        variant=variant,
        calibration=REACHES,
    )
    assert found == (wanted if wanted is None else pytest.approx(wanted))


def test_without_a_calibration_or_what_it_lacks_there_is_no_share() -> None:
    def share(calibration: Roofs | None) -> float | None:
        return roof_fraction(
            bytes_moved=0, flops=5, seconds=1.0, path="f32", calibration=calibration
        )

    assert share(None) is None
    assert share(Roofs(read_bytes=1e9)) is None
    assert share(REACHES)
