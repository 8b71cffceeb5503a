"""What sweeps found is stored once, and told with jobs while the device has the same driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from sqlalchemy import insert

from databases import ENVIRONMENT, Lab
from vkbench.errors import NothingToDo, UsageError
from vkbench.job import Mode, Outcome
from vkbench.messages.wire import Announcement
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db import schema
from vkbench_db.upkeep.tuning import EVERY, SWEEP, UNKEPT, tuned, unsettled
from vkbench_db.work import store
from vkbench_detection.tune.sweeps import settle
from vkbench_scheduler.tuned import table_of, with_tuned
from vkbench_shaders.tuning.estimates import Peaks
from vkbench_shaders.tuning.rates import rates_of
from vkbench_shaders.tuning.tables import encode, read

A_SWEEP = Purpose(kind=RunKind.SWEEP)
CASE = "sum/f32/b1_c1_h64_w4096"
FAST, SLOW = "portable:threads=512", "portable:threads=256"


def sweep(lab: Lab, device: str, *, more: Mapping[str, object] = {}, **seconds: float) -> int:
    """A sweep that has ended: `portable:threads=256` first, each twice."""
    purpose = Purpose(kind=RunKind.SWEEP, about={SWEEP: {}, **more})
    with lab.database.transaction() as tx:
        run = store.create_run(
            tx,
            mode=Mode.PERFORMANCE,
            selection={},
            now=lab.now,
            track="",
            words=RunWords(purpose=purpose),
        ).id
        names = [f"portable:threads={name.removeprefix('t')}" for name in seconds]
        jobs = [lab.planned(device, CASE, variant=name) for name in names * 2]
        store.add_jobs(tx, run, jobs)
    for job, value in zip(lab.pick(device), [*seconds.values()] * 2, strict=True):
        lab.record(lab.answer(job, seconds=value))
    return run


def settled(lab: Lab) -> int:
    with lab.database.transaction() as tx:
        return settle(tx)


def told(lab: Lab, device: str, case: str, variant: str = "auto") -> str:
    """What a job is told of the fastest configuration."""
    lab.submit(device, [case], variant=variant)
    with lab.database.transaction() as tx:
        [picked] = with_tuned(tx, device, store.pick(tx, device, 1, lab.now))
    lab.record(lab.answer(picked.job))
    return picked.job.tuned


def test_a_finding_is_stored_once_when_its_sweep_has_ended(lab: Lab) -> None:
    device = lab.add_device()
    run = sweep(lab, device, t256=2e-3, t512=1e-3, t64=3e-3)
    assert settled(lab) == 1
    assert settled(lab) == 0
    with lab.database.reading() as tx:
        [row] = tuned(tx)
    assert (row.run, row.case, row.configuration, row.estimated) == (run, CASE, FAST, SLOW)
    assert (row.driver, row.driver_version) == ("llvmpipe", "22.3.6")
    assert (row.seconds, row.estimated_seconds) == pytest.approx((1e-3, 2e-3))


def test_an_unfinished_sweep_and_other_runs_have_no_findings(lab: Lab) -> None:
    device = lab.add_device()
    lab.submit(device, [CASE], variant=FAST)
    lab.settle(device)
    with lab.database.transaction() as tx:
        run = store.create_run(
            tx,
            mode=Mode.PERFORMANCE,
            selection={},
            now=lab.now,
            track="",
            words=RunWords(purpose=A_SWEEP),
        ).id
        store.add_jobs(tx, run, [lab.planned(device, CASE, variant=FAST)])
    assert settled(lab) == 0
    with lab.database.transaction() as tx:
        store.cancel(tx, run, lab.now)
    assert settled(lab) == 0


@pytest.mark.parametrize("cases", [[CASE], [EVERY], ["other", CASE]])
def test_of_a_variant_that_auto_never_takes_nothing_is_kept(lab: Lab, cases: list[str]) -> None:
    device = lab.add_device()
    sweep(lab, device, t256=2e-3, t512=1e-3)
    assert settled(lab) == 1
    lab.now += 60
    run = sweep(lab, device, more={UNKEPT: cases}, t256=2e-3, t64=1e-3)
    assert settled(lab) == 0
    assert told(lab, device, CASE) == FAST
    with lab.database.reading() as tx:
        assert (run in unsettled(tx)) == (EVERY not in cases)  # else it is asked again for ever


@pytest.mark.parametrize("cases", [[], ["other"], [["x"], {}], 5, None, CASE])
def test_what_else_a_sweep_has_measured_is_kept(lab: Lab, cases: object) -> None:
    """A file that is imported may hold any JSON there."""
    device = lab.add_device()
    sweep(lab, device, more={UNKEPT: cases}, t256=2e-3, t512=1e-3)
    assert settled(lab) == 1


def test_jobs_that_leave_the_choice_open_are_told(lab: Lab) -> None:
    device = lab.add_device()
    assert told(lab, device, CASE) == ""
    sweep(lab, device, t256=2e-3, t512=1e-3)
    settled(lab)
    assert told(lab, device, CASE) == FAST
    assert told(lab, device, "sum/f32/b1_c1_h60_w4000") == FAST
    assert told(lab, device, "sum/f32/b1_c1_h60_w40") == ""
    assert told(lab, device, CASE, variant="portable") == ""
    other = lab.add_device("SwiftShader", "beta")
    assert told(lab, other, CASE) == ""


def test_a_case_of_another_catalogue_is_sent_as_it_is(lab: Lab) -> None:
    """A newer vkbench may have submitted it, with kernels or sizes that this one does not have."""
    device = lab.add_device()
    sweep(lab, device, t256=2e-3, t512=1e-3)
    settled(lab)
    for case in ("gone/f32/n4", "sum/f9/b1_c1_h64_w4096", "sum/f32/m4_n4"):
        assert told(lab, device, case) == ""


def test_the_newest_sweep_counts(lab: Lab) -> None:
    device = lab.add_device()
    sweep(lab, device, t256=2e-3, t512=1e-3)
    settled(lab)
    lab.now += 60
    sweep(lab, device, t256=2e-3, t512=3e-3)
    settled(lab)
    assert told(lab, device, CASE) == SLOW


def test_a_new_driver_has_to_be_tuned_anew(lab: Lab) -> None:
    device = lab.add_device()
    sweep(lab, device, t256=2e-3, t512=1e-3)
    settled(lab)
    newer = replace(ENVIRONMENT, driver_version="23.0.0")
    word = Announcement(worker="alpha:1", facts=lab.facts(), environment=newer, bundle="b")
    with lab.database.transaction() as tx:
        store.register_device(tx, word, lab.now)
    assert told(lab, device, CASE) == ""


def test_a_table_is_of_the_newest_findings_of_one_class(lab: Lab) -> None:
    device, other = lab.add_device(), lab.add_device("SwiftShader", "beta")
    with lab.database.reading() as tx, pytest.raises(NothingToDo, match="vkbench tune"):
        table_of(tx, [lab.facts()])
    sweep(lab, device, t256=2e-3, t512=1e-3)
    settled(lab)
    lab.now += 60
    sweep(lab, other, t256=2e-3, t512=3e-3)
    settled(lab)
    facts = [lab.facts(), lab.facts("SwiftShader", "beta")]
    with lab.database.reading() as tx:
        table = table_of(tx, facts)
        assert table.device_class == "cpu"
        assert [each.device for each in table.sources] == ["SwiftShader"]
        assert [each.configuration for each in table.tuned] == [SLOW]
        mixed = [lab.facts(), replace(facts[1], type="discrete")]
        with pytest.raises(UsageError, match="cpu and unknown"):
            table_of(tx, mixed)


def test_a_table_has_the_rates_of_the_last_calibration(lab: Lab) -> None:
    device = lab.add_device()
    run = sweep(lab, device, t256=2e-3, t512=1e-3)
    settled(lab)
    with lab.database.transaction() as tx:
        assert table_of(tx, [lab.facts()]).rates == rates_of(lab.facts())
        tx.execute(
            insert(schema.calibration).values(
                device_id=1, environment=ENVIRONMENT.hash, measured_at=lab.now, run_id=run,
                matrices={}, fma_f32=6e9, read_bytes=7e9,
            )
        )  # fmt: skip
        reached = table_of(tx, [lab.facts()]).rates
    assert reached == replace(rates_of(lab.facts()), fma=3e9, memory_bytes=7e9)


def calibrate(lab: Lab, device: int, when: float, **reached: object) -> None:
    """Store a calibration of a device, as a run of the suite leaves it."""
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.PERFORMANCE, selection={}, now=when).id
        usual = {"environment": ENVIRONMENT.hash, "matrices": {}, "fma_f32": 6e9, "read_bytes": 7e9}
        values = {"device_id": device, "measured_at": when, "run_id": run, **usual, **reached}
        tx.execute(insert(schema.calibration).values(values))


def test_a_device_that_was_only_calibrated_has_a_table_of_its_rates(lab: Lab) -> None:
    lab.add_device()
    with lab.database.reading() as tx, pytest.raises(NothingToDo, match="vkbench calibrate"):
        table_of(tx, [lab.facts()])
    calibrate(lab, 1, lab.now, launch_seconds=1e-4, matrices={"f16_f32": 9e9, "i8_i32": 1e9})
    with lab.database.reading() as tx:
        table = table_of(tx, [lab.facts()])
    units = rates_of(lab.facts()).compute_units
    assert table.peaks == Peaks(
        compute_units=units, fma=6e9, matrices=9e9, memory_bytes=7e9, launch_seconds=1e-4
    )
    assert table.rates == replace(
        rates_of(lab.facts()), fma=6e9 / units, memory_bytes=7e9, launch_seconds=1e-4
    )
    assert (table.device_class, table.tuned, table.thresholds) == ("cpu", (), {})
    assert [each.device for each in table.sources] == ["llvmpipe"]
    assert read(encode(table)) == table


def test_a_calibration_without_a_launch_scales_no_thresholds(lab: Lab) -> None:
    lab.add_device()
    calibrate(lab, 1, lab.now)
    with lab.database.reading() as tx:
        assert table_of(tx, [lab.facts()]).peaks is None


def test_the_newest_calibration_counts_whatever_its_environment(lab: Lab) -> None:
    lab.add_device()
    other = replace(ENVIRONMENT, driver_version="23.0.0")
    word = Announcement(worker="alpha:1", facts=lab.facts(), environment=other, bundle="b")
    with lab.database.transaction() as tx:
        store.register_device(tx, word, lab.now)
    calibrate(lab, 1, lab.now, launch_seconds=1e-4)
    calibrate(lab, 1, lab.now + 60, launch_seconds=2e-4, environment=other.hash)
    calibrate(lab, 1, lab.now + 120, launch_seconds=3e-4)
    with lab.database.reading() as tx:
        peaks = table_of(tx, [lab.facts()]).peaks
    assert peaks is not None
    assert peaks.launch_seconds == 3e-4


def test_a_sweep_with_a_wrong_result_finds_among_the_right_ones(lab: Lab) -> None:
    device = lab.add_device()
    with lab.database.transaction() as tx:
        run = store.create_run(
            tx,
            mode=Mode.PERFORMANCE,
            selection={},
            now=lab.now,
            track="",
            words=RunWords(purpose=A_SWEEP),
        ).id
        store.add_jobs(tx, run, [lab.planned(device, CASE, variant=name) for name in (SLOW, FAST)])
    slow, fast = lab.pick(device)
    lab.record(lab.answer(slow, seconds=2e-3), lab.answer(fast, Outcome.WRONG))
    assert settled(lab) == 1
    assert told(lab, device, CASE) == SLOW
