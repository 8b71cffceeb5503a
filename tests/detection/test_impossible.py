"""Timings faster than their device can be: which are, and that honest ones never are."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from databases import Lab, one_engine
from vkbench.case import is_model, parse
from vkbench.configuration import variant_of
from vkbench.job import ArmKind, Job, Mode
from vkbench.peers import BY_NAME
from vkbench.result import Result
from vkbench_db import schema
from vkbench_db.work import store
from vkbench_detection.series import roofs
from vkbench_detection.series.impossible import SUSPECT, is_impossible, least_seconds
from vkbench_detection.series.roofs import RoofLoad, Roofs, numbers_of
from vkbench_detection.steps import detect

CACHE = 50 * 10**6
REACHES = Roofs(
    read_bytes=4e12, copy_bytes=3e12, fma_f32=60e12, fma_f16=60e12, dot_i8=120e12,
    matrices={"f16_f32": 600e12, "i8_i32": 1200e12}, llc_bytes=CACHE,
)  # fmt: skip
# what `vkbench calibrate` measured on the H200 of docs/calibration.md
H200 = Roofs(
    read_bytes=4.41e12, copy_bytes=4.11e12, fma_f32=63.7e12, fma_f16=65.6e12, dot_i8=117e12,
    matrices={"f16_f16": 629e12, "f16_f32": 630e12, "bf16_f32": 630e12, "i8_i32": 1260e12},
    llc_bytes=60 << 20,
)  # fmt: skip
# and on the H100 whose results are in docs/results, on the day of most of them
H100 = Roofs(
    read_bytes=3.07e12, copy_bytes=2.93e12, fma_f32=65.2e12, fma_f16=66.1e12, dot_i8=119e12,
    matrices={"f16_f16": 632e12, "f16_f32": 636e12, "bf16_f32": 636e12, "i8_i32": 1261e12},
    llc_bytes=50 << 20,
)  # fmt: skip
RESULTS = Path(__file__).parents[2] / "docs" / "results"
SECOND = 60 * 10**12  # operations on singles that take a second
MEMORY = 4 * 10**12  # bytes that do


@pytest.mark.parametrize(
    ("load", "least"),
    [
        (RoofLoad(bytes_moved=0, flops=SECOND, path="f32", variant="portable"), 1.0),
        (RoofLoad(bytes_moved=0, flops=SECOND, variant="portable", numbers="f16"), 0.1),
        (RoofLoad(bytes_moved=0, flops=SECOND, path="int8", variant="coopmat_via_q8_1"), 0.05),
        # what a path of another name uses is not known: the fastest unit that there is
        (RoofLoad(bytes_moved=0, flops=SECOND, path="f32", variant="coopmat_decoding"), 0.05),
        (RoofLoad(bytes_moved=0, flops=SECOND, variant="portable", kernel="lab.own"), 0.05),
        (RoofLoad(bytes_moved=MEMORY, flops=1, variant="portable"), 1.0),
        (RoofLoad(bytes_moved=1000, flops=0, is_cold=True), 1000 / MEMORY),
        (RoofLoad(bytes_moved=2 * CACHE - 1, flops=0), 0.0),  # it may be in a cache
        (RoofLoad(bytes_moved=MEMORY, flops=0, kernel="gather"), 0.0),  # counts items again
        (RoofLoad(bytes_moved=MEMORY, flops=0, kernel="lab.own"), 0.0),  # may read a part
        (RoofLoad(bytes_moved=MEMORY, flops=SECOND, kernel="fma", variant="portable"), 0.0),
        (RoofLoad(bytes_moved=MEMORY, flops=SECOND, kernel="model", variant="plain"), 0.0),
    ],
)
def test_only_what_bounds_a_launch_for_certain_is_held_against_it(
    load: RoofLoad, least: float
) -> None:
    assert least_seconds(load, REACHES) == pytest.approx(least)
    if least:
        assert is_impossible(load, least / 1.06, REACHES)
    assert not is_impossible(load, least / 1.04, REACHES)
    assert not is_impossible(load, least / 10, replace(REACHES, is_cpu=True))
    assert not is_impossible(load, least / 10, None)


@pytest.mark.parametrize("lacking", [{"dot_i8": None}, {"matrices": {}}])
def test_an_unknown_unit_bounds_nothing(lacking: dict[str, Any]) -> None:
    load = RoofLoad(bytes_moved=0, flops=SECOND, variant="coopmat")
    assert least_seconds(load, replace(REACHES, **lacking)) == 0
    load = RoofLoad(bytes_moved=MEMORY, flops=0, is_cold=True)
    assert least_seconds(load, replace(REACHES, llc_bytes=0)) == 0


def recorded() -> Iterator[tuple[RoofLoad, float, str]]:
    """Timings of vkbench's kernels on an H100 that the pages of results are made from."""
    for path in sorted(RESULTS.glob("h100-*.jsonl.xz")):
        for line in map(json.loads, lzma.decompress(path.read_bytes()).splitlines()):
            job = line.get("job")
            if not job or is_model(job["case"]):
                continue
            if job["variant"] in BY_NAME or job.get("arm_kind") == ArmKind.BUILD:
                continue
            if not job["attempts"]:
                continue
            for timing in job["timings"]:
                yield load_of(job, timing), timing["seconds"], f"{path.name}: {job['case']}"


def load_of(job: dict[str, Any], timing: dict[str, Any]) -> RoofLoad:
    case = parse(job["case"])
    types = ",".join(f"{name}={fmt}" for name, fmt in case.types.items())
    return RoofLoad(
        bytes_moved=timing["bytes_moved"],
        flops=timing["flops"],
        numbers=numbers_of(case.format, types),
        path=(job["verdict"] or {}).get("path", ""),
        variant=variant_of(job["attempts"][-1]["variant"]),
        is_cold=timing["metric"] == "cold",
        kernel=case.kernel,
    )


def test_no_honest_timing_is_suspect() -> None:
    timings = list(recorded())
    bounded = [timing for timing in timings if least_seconds(timing[0], H100)]
    assert len(bounded) > 0.9 * len(timings) > 3000
    assert [where for load, seconds, where in timings if is_impossible(load, seconds, H100)] == []
    # and every one of them would be, were it three times as fast as its roof
    assert all(is_impossible(load, least_seconds(load, H100) / 3, H100) for load, *_ in bounded)


CASE = "matmul/f32/b1_m64_n64_k64"


def calibrate(lab: Lab, device: str, **rates: Any) -> None:
    """Store what a device reaches."""
    values: dict[str, Any] = {"read_bytes": 1e9, "copy_bytes": 1e9, "fma_f32": 1e9}
    values |= {"fma_f16": None, "dot_i8": 4e9, "matrices": {"f16_f32": 8e9}, "launch_seconds": None}
    values |= {"tick_seconds": None, "noise": None, **rates}
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=lab.now).id
        number = tx.execute(
            select(schema.device.c.id).where(schema.device.c.key == device)
        ).scalar_one()
        tx.execute(
            schema.calibration.insert().values(
                device_id=number, environment="", measured_at=lab.now, run_id=run, **values
            )
        )


def timed(lab: Lab, device: str, seconds: float) -> Job:
    """A timing of two million operations, hot, done and placed."""
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.PERFORMANCE, selection={}, now=lab.now).id
        store.add_jobs(tx, run, [lab.planned(device, CASE)])
    [job] = lab.pick(device)
    lab.record(answer(lab, job, seconds))
    return job


def answer(lab: Lab, job: Job, seconds: float) -> Result:
    done = lab.answer(job)
    timings = tuple(
        replace(each, seconds=seconds, bytes_moved=1, flops=2 * 10**6) for each in done.timings
    )
    return replace(done, variant="portable", timings=timings)


def flags(lab: Lab) -> list[str]:
    with lab.database.reading() as tx:
        return list(tx.execute(select(schema.measurement.c.flag).order_by("job_id")).scalars())


def test_a_suspect_timing_counts_in_no_series(lab: Lab) -> None:
    device = lab.add_device(kind="discrete")
    calibrate(lab, device)
    jobs = [timed(lab, device, seconds) for seconds in (2e-3, 1.95e-3, 1.8e-3)]
    found = detect(lab.database, lab.now)
    per_job = len(flags(lab)) // 3
    assert flags(lab) == [*[""] * 2 * per_job, *[SUSPECT] * per_job]
    assert found.suspects == (jobs[2].id,)


@one_engine
def test_the_best_calibration_of_a_device_counts(lab: Lab) -> None:
    """One that was made while it was throttled makes nothing suspect."""
    device = lab.add_device(kind="discrete")
    calibrate(lab, device, fma_f32=2e9)
    lab.now += 60
    calibrate(lab, device, fma_f32=1e9)
    with lab.database.reading() as tx:
        [best] = roofs.best(tx, [1]).values()
    assert (best.fma_f32, best.matrices) == (2e9, {"f16_f32": 8e9})
    timed(lab, device, 1.8e-3)
    assert detect(lab.database, lab.now).suspects == ()
    assert set(flags(lab)) == {""}


@one_engine
def test_processors_are_not_suspected(lab: Lab) -> None:
    device = lab.add_device()
    calibrate(lab, device)
    timed(lab, device, 1e-4)
    assert detect(lab.database, lab.now).suspects == ()
