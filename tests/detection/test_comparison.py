"""Two sets of results compare by what both did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from databases import Lab, one_engine
from vkbench.device import DRIVER_NAME, DRIVER_SHA, Environment
from vkbench.errors import UnknownName, UsageError
from vkbench.job import Arm, ArmKind, Job, JobState, Mode, Outcome
from vkbench.job import Pair as JobPair
from vkbench.result import BOUNDS_CHECKED, Result
from vkbench.result import Side as TimedSide
from vkbench_db.work import store
from vkbench_detection.compare.compared import Comparison, Pair, Word
from vkbench_detection.compare.comparison import compare
from vkbench_detection.compare.provenance import provenances
from vkbench_detection.compare.references import find
from vkbench_detection.series.placing import place
from vkbench_detection.statistics.ratios import FLOOR, Ratio

CASE = "add/f32/h1_w1"
PAIR = JobPair(old=Arm(name=""), metric="hot")


def do(
    lab: Lab, device: str, work: Mapping[str, Outcome | float], *, bundle: str = "", **changes: Any
) -> int:
    """A run whose cases end as told: by an outcome, or passed in so many seconds."""
    run = lab.submit(device, list(work), **changes)
    while jobs := lab.pick(device):
        for job in jobs:
            lab.record(replace(ended(lab, job, work[job.case]), bundle=bundle))
    return run


def ended(lab: Lab, job: Job, end: Outcome | float, count: int = 30) -> Result:
    answer = lab.answer(job, seconds=end) if isinstance(end, float) else lab.answer(job, end)
    timings = tuple(replace(timing, count=count) for timing in answer.timings)
    return replace(answer, timings=timings)


def repeat(lab: Lab, device: str, values: Sequence[float], **changes: Any) -> int:
    """A run that times one case over and over."""
    run = lab.submit(device, [CASE] * len(values), **changes)
    for job, seconds in zip(lab.pick(device), values, strict=True):
        lab.record(ended(lab, job, seconds))
    return run


def ratio_of(pair: Pair) -> Ratio:
    assert pair.ratio
    return pair.ratio


def ask(lab: Lab, old: object, new: object, **changes: Any) -> Comparison:
    with lab.database.reading() as tx:
        return compare(tx, find(tx, str(old)), find(tx, str(new)), **changes)


def test_ratios_are_paired_and_averaged(lab: Lab) -> None:
    device = lab.add_device()
    old = do(lab, device, {"add/f32/h1_w1": 1e-3, "add/f32/h1_w2": 4e-3, "add/f32/h1_w3": 1.0})
    new = do(lab, device, {"add/f32/h1_w2": 8e-3, "add/f32/h1_w1": 5e-4, "add/f32/h1_w9": 1.0})
    found = ask(lab, old, new)
    assert [(p.work.case_name, p.metric) for p in found.pairs] == [
        ("add/f32/h1_w2", "cold"), ("add/f32/h1_w2", "hot"),
        ("add/f32/h1_w1", "cold"), ("add/f32/h1_w1", "hot"),
    ]  # fmt: skip
    assert [ratio_of(pair).ratio for pair in found.pairs] == pytest.approx([2, 2, 0.5, 0.5])
    assert [(pair.is_slower, pair.is_faster) for pair in found.pairs] == [
        *[(True, False)] * 2,
        *[(False, True)] * 2,
    ]
    assert found.mean is not None
    assert (found.mean.value, found.mean.count) == (pytest.approx(1.0), 4)
    assert (found.mean.low, found.mean.high) == (None, None)
    assert "fewer than 3 other runs" in found.mean.why  # these two may be unlike by their days
    assert (found.device_means, found.fleet_mean) == ({}, None)
    assert (found.only_old, found.only_new, found.changes) == (1, 1, ())
    slow = found.pairs[1]
    assert (slow.old.value, slow.new.value, slow.new.samples) == (4e-3, 8e-3, 30)
    assert (slow.work.host, slow.work.device_name, slow.work.mode, slow.work.variant) == (
        "alpha", "llvmpipe", "performance", "auto",
    )  # fmt: skip
    backwards = ask(lab, new, old)
    assert backwards.pairs[0].quotient == pytest.approx(2)
    assert backwards.pairs[0].work.case_name == "add/f32/h1_w1"
    assert {pair.metric for pair in ask(lab, old, new, metrics=["hot"]).pairs} == {"hot"}
    with lab.database.reading() as tx:
        [made] = provenances(tx, [slow.new.job]).values()
    assert (made.variant, made.driver, made.kernel_sha) == ("subgroup", "llvmpipe", "5a" * 32)


@one_engine
def test_a_fleet_changes_by_the_mean_of_its_devices(lab: Lab) -> None:
    first, second = lab.add_device(), lab.add_device("SwiftShader")
    with lab.database.transaction() as tx:
        runs = [store.create_run(tx, mode=Mode.BOTH, selection={}, now=1.0).id for _ in range(2)]
        for run in runs:
            planned = [lab.planned(first, CASE), lab.planned(first, 1), lab.planned(second, CASE)]
            store.add_jobs(tx, run, planned)
    for device in (first, second):
        for job in lab.pick(device):
            is_slow = device == second and job.run == runs[1]
            lab.record(ended(lab, job, 4e-3 if is_slow else 1e-3))
    found = ask(lab, *runs)
    assert {key: mean.value for (key, _), mean in found.device_means.items()} == pytest.approx(
        {first: 1.0, second: 4.0}
    )
    assert found.fleet_mean is not None
    assert found.fleet_mean.value == pytest.approx(2.0)
    alone = ask(lab, *runs, device=second)
    assert alone.pairs == tuple(p for p in found.pairs if p.work.new.key == second) != ()


def test_what_became_wrong_comes_first_and_is_not_timed(lab: Lab) -> None:
    device = lab.add_device()
    names = [f"add/f32/h1_w{n}" for n in range(1, 6)]
    ends = (Outcome.WRONG, Outcome.SKIPPED, Outcome.CRASHED, 1e-3, 2e-3)
    old = do(lab, device, dict.fromkeys(names, 1e-3) | {names[3]: Outcome.WRONG})
    new = do(lab, device, dict(zip(names, ends, strict=True)))
    found = ask(lab, old, new)
    assert [(c.work.case_name, c.old, c.new) for c in found.changes] == [
        (names[0], JobState.PASSED, JobState.WRONG),
        (names[2], JobState.PASSED, JobState.FAILED),
        (names[1], JobState.PASSED, JobState.SKIPPED),
        (names[3], JobState.WRONG, JobState.PASSED),
    ]
    assert found.changes[0].reason == "because wrong"
    assert {pair.work.case_name for pair in found.pairs} == {names[4]}


@one_engine
def test_repetitions_are_one_piece_of_work(lab: Lab) -> None:
    device = lab.add_device()
    old = repeat(lab, device, (1.98e-3, 2.04e-3, 2e-3))
    wild = repeat(lab, device, (1e-3, 9e-3, 2e-3))
    new = do(lab, device, {CASE: 4e-3})
    [cold, hot] = sorted(ask(lab, old, new).pairs, key=lambda pair: pair.metric)
    assert (hot.old.value, hot.old.samples) == (2e-3, 90)
    assert (hot.old.low, hot.old.high) == pytest.approx((0.99 * 1.98e-3, 1.01 * 2.04e-3))
    assert ratio_of(hot).ratio == pytest.approx(2.0)
    assert cold.quotient == pytest.approx(2.0)
    # three results that differ ninefold say nothing
    assert {(pair.word, pair.ratio) for pair in ask(lab, wild, new).pairs} == {
        (Word.TOO_NOISY, None)
    }


@one_engine
def test_many_results_decide_by_their_order(lab: Lab) -> None:
    device = lab.add_device()
    noisy = [1e-3 * (1 + 0.02 * (n % 5)) for n in range(10)]
    old, same = repeat(lab, device, noisy), repeat(lab, device, noisy[::-1])
    slower = repeat(lab, device, [seconds * 1.1 for seconds in noisy])
    assert not any(pair.is_changed for pair in ask(lab, old, same).pairs)
    pair = ask(lab, old, slower).pairs[0]
    assert pair.is_slower
    assert ratio_of(pair).low > 1
    assert ratio_of(pair).ratio == pytest.approx(1.1, rel=0.03)


def test_few_samples_say_nothing_until_the_series_is_known(lab: Lab) -> None:
    device = lab.add_device()
    old, new = lab.submit(device, [CASE]), lab.submit(device, [CASE])
    for job, seconds in zip(lab.pick(device), (1e-3, 2e-3), strict=True):
        lab.record(ended(lab, job, seconds, count=3))
    found = ask(lab, old, new)
    assert [(pair.word, ratio_of(pair).p) for pair in found.pairs] == [(Word.TOO_FEW, 1.0)] * 2
    assert found.counting == ()
    put_in_series(lab, sigma=0.01)
    assert all(pair.is_slower for pair in ask(lab, old, new).pairs)


@one_engine
@pytest.mark.parametrize(("sigma", "seen"), [(0.003, True), (0.02, True), (0.06, False)])
def test_noise_of_the_series_decides_what_a_single_result_says(
    lab: Lab, sigma: float, seen: bool
) -> None:
    device = lab.add_device()
    old, new = repeat(lab, device, [1.0e-3]), repeat(lab, device, [1.12e-3])
    put_in_series(lab, sigma)
    assert [pair.is_slower for pair in ask(lab, old, new).pairs] == [seen] * 2


def test_without_a_profile_what_the_device_usually_has_counts(lab: Lab) -> None:
    device = lab.add_device()  # a CPU
    old, new = repeat(lab, device, [1.0e-3]), repeat(lab, device, [1.08e-3])
    assert not any(pair.is_changed for pair in ask(lab, old, new).pairs)
    with lab.database.transaction() as tx:
        tx.execute(text('UPDATE device SET facts = \'{"type": "discrete"}\''))
    assert all(pair.is_slower for pair in ask(lab, old, new).pairs)
    put_in_series(lab, sigma=0.05)
    with lab.database.transaction() as tx:
        tx.execute(text("UPDATE measurement SET series_id = NULL"))
    assert not any(pair.is_changed for pair in ask(lab, old, new).pairs)


def put_in_series(lab: Lab, sigma: float) -> None:
    """All timings there are belong to a series of so much noise."""
    with lab.database.transaction() as tx:
        tx.execute(
            text(
                "INSERT INTO series (id, device_id, case_id, variant, metric, environment_class,"
                " track, noise_kind, sigma) VALUES (1, 1, 1, 'subgroup', 'hot', 'default', 'main',"
                " 'normal', :sigma)"
            ),
            {"sigma": sigma},
        )
        tx.execute(text("UPDATE measurement SET series_id = 1"))


@one_engine
def test_twice_the_same_is_no_change_however_many_are_looked_at(lab: Lab) -> None:
    """Of sixty cases three seem 3 % slower, as chance alone would have it."""
    device = lab.add_device()
    with lab.database.transaction() as tx:
        tx.execute(text('UPDATE device SET facts = \'{"type": "discrete"}\''))
    cases = [f"add/f32/h1_w{n}" for n in range(1, 61)]
    old = do(lab, device, dict.fromkeys(cases, 1e-3))
    apart = dict.fromkeys(cases, 1e-3) | dict.fromkeys(cases[:3], 1.03e-3)
    new = do(lab, device, apart)
    pairs = ask(lab, old, new).pairs
    assert 0.02 < min(ratio_of(pair).p for pair in pairs) < 0.05
    assert not any(pair.is_changed for pair in pairs)


@one_engine
def test_a_change_below_the_floor_is_none(lab: Lab) -> None:
    device = lab.add_device()
    values = [1e-3 + n * 1e-9 for n in range(12)]
    old = repeat(lab, device, values)
    new = repeat(lab, device, [seconds * (1 + 0.8 * FLOOR) for seconds in values])
    pair = ask(lab, old, new).pairs[0]
    assert ratio_of(pair).p < 1e-4
    assert not pair.is_changed


def test_flagged_timings_do_not_count(lab: Lab) -> None:
    device = lab.add_device()
    old, new = repeat(lab, device, [1e-3]), repeat(lab, device, [3e-3, 1e-3])
    only = repeat(lab, device, [3e-3])
    with lab.database.transaction() as tx:
        tx.execute(text("UPDATE measurement SET flag = 'throttled' WHERE seconds >= 3e-3"))
    hot = next(pair for pair in ask(lab, old, new).pairs if pair.metric == "hot")
    assert (hot.new.value, hot.new.flag) == (1e-3, "")
    found = ask(lab, old, only)
    alone = found.pairs[0]
    assert (alone.quotient, alone.new.flag, alone.word) == (
        pytest.approx(3.0), "throttled", Word.FLAGGED,
    )  # fmt: skip
    assert (found.counting, found.mean) == ((), None)


def test_bounds_that_one_side_checked_make_no_difference_of_kernels(lab: Lab) -> None:
    device = lab.add_device()
    runs = []
    for telemetry in ({}, {BOUNDS_CHECKED: 1.0}, {BOUNDS_CHECKED: 1.0}):
        runs.append(lab.submit(device, [CASE]))
        [job] = lab.pick(device)
        lab.record(replace(ended(lab, job, 1e-3 * len(runs)), telemetry=telemetry))
    with lab.database.transaction() as tx:
        place(tx, lab.now)
    plain, checked, again = runs
    assert {pair.word for pair in ask(lab, plain, checked).pairs} == {Word.FLAGGED}
    assert {pair.word for pair in ask(lab, checked, again).pairs} == {Word.SLOWER}


@one_engine
def test_other_modes_and_variants_do_not_pair(lab: Lab) -> None:
    first = lab.add_device()
    case = {CASE: 1e-3}
    old = do(lab, first, case)
    for other in (
        do(lab, first, case, variant="portable"),
        do(lab, first, case, mode=Mode.CORRECTNESS),
    ):
        found = ask(lab, old, other)
        assert (found.pairs, found.only_old, found.only_new) == ((), 1, 1)
        assert found.mean is None


@one_engine
def test_paired_jobs_are_no_work_of_their_own(lab: Lab) -> None:
    device = lab.add_device()
    runs = [do(lab, device, {CASE: 1e-3}, mode=Mode.PAIRED, pair=PAIR) for _ in range(2)]
    assert ask(lab, *runs).pairs == ()


def test_bundles_are_compared_by_what_ran(lab: Lab) -> None:
    device = lab.add_device()
    for bundle, seconds in (("aa" * 32, 1e-3), ("bb" * 32, 2e-3), ("bb" * 32, 2.1e-3)):
        do(lab, device, {CASE: seconds}, bundle=bundle)
        lab.now += 60
    hot = ask(lab, "bundle:aaaa", "bundle:BBBB").pairs[0]
    assert (len(hot.old.values), len(hot.new.values)) == (1, 2)
    assert hot.quotient == pytest.approx(2.05)


def test_drivers_are_compared_by_version_and_name(lab: Lab, environment: Environment) -> None:
    device = lab.add_device()
    do(lab, device, {CASE: 1e-3})
    newer = replace(environment, driver_version="23.0")
    register(lab, newer)
    run_under(lab, device, newer.hash, 2e-3)
    found = ask(lab, "driver:22.3.6", "driver:LLVMpipe 23.0")
    assert [pair.quotient for pair in found.pairs] == pytest.approx([2, 2])
    assert (found.old.name, found.policies) == ("driver llvmpipe 22.3.6", ())
    with lab.database.reading() as tx:
        both = find(tx, "driver:llvmpipe")
    assert both.name.count("llvmpipe") == 2
    assert both.chosen == Arm(kind=ArmKind.DRIVER, name="llvmpipe")


def test_two_builds_of_one_driver_are_told_by_their_names(
    lab: Lab, environment: Environment
) -> None:
    device = lab.add_device()
    for name, sha, seconds in (("system", "a" * 12, 1e-3), ("mine", "b" * 12, 2e-3)):
        added = replace(environment, extra={DRIVER_NAME: name, DRIVER_SHA: sha})
        register(lab, added)
        run_under(lab, device, added.hash, seconds)
    found = ask(lab, "driver:system", f"driver:{'b' * 12}")
    assert [pair.quotient for pair in found.pairs] == pytest.approx([2, 2])
    assert found.old.name == "driver system, llvmpipe 22.3.6"
    with lab.database.reading() as tx:
        ran = provenances(tx, [pair.old.job for pair in found.pairs])
        with pytest.raises(UnknownName, match="did you mean 'mine'"):
            find(tx, "driver:mines")
    assert {provenance.driver_sha for provenance in ran.values()} == {"a" * 12}


def test_pairs_of_two_drivers_count_before_their_runs(lab: Lab, environment: Environment) -> None:
    device = lab.add_device()
    through: dict[str, str] = {}
    for name, sha in (("system", "a" * 64), ("mine", "b" * 64)):
        added = replace(environment, extra={DRIVER_NAME: name, DRIVER_SHA: sha[:12]})
        register(lab, added)
        through[sha] = added.hash
        run_under(lab, device, added.hash, 2e-3)
    old, new = (Arm(name=sha, kind=ArmKind.DRIVER) for sha in through)
    pair = JobPair(old=old, metric="hot")
    arm: dict[str, Any] = {"bundle": new.name, "arm_kind": ArmKind.DRIVER}
    lab.submit(device, [CASE] * 4, mode=Mode.PAIRED, pair=pair, **arm)
    for job in lab.pick(device):
        answer = lab.answer(job)
        timing = lab.answer(replace(job, mode=Mode.PERFORMANCE, pair=None)).timings[0]
        timings = tuple(
            replace(timing, metric="hot", side=side, seconds=seconds + job.id * 1e-6)
            for side, seconds in ((TimedSide.OLD, 1e-3), (TimedSide.NEW, 3e-3))
        )
        lab.record(replace(answer, timings=timings, environment=through[new.name]))
    found = ask(lab, "driver:system", "driver:mine")
    pairs = {pair.metric: pair for pair in found.pairs}
    assert pairs["hot"].quotient == pytest.approx(3, rel=0.05)
    assert [len(side.values) for side in (pairs["hot"].old, pairs["hot"].new)] == [4, 4]
    assert pairs["cold"].quotient == 1  # of their runs: drivers are paired hot alone
    assert ask(lab, "driver:system", "driver:mine", device=device).pairs == found.pairs
    others = ask(lab, "driver:system", "driver:mine", device=lab.add_device("SwiftShader"))
    assert (others.pairs, others.changes) == ((), ())
    turned = ask(lab, "driver:mine", f"driver:{'a' * 12}")
    assert turned.pairs[-1].quotient == pytest.approx(1 / 3, rel=0.05)
    same = ask(lab, "driver:llvmpipe", "driver:llvmpipe")
    assert {len(pair.new.values) for pair in same.pairs} == {1}


@one_engine
def test_unlike_clock_policies_are_told(lab: Lab, environment: Environment) -> None:
    device = lab.add_device()
    old = do(lab, device, {CASE: 1e-3})
    locked = replace(environment, clock_policy="locked")
    register(lab, locked)
    new = run_under(lab, device, locked.hash, 2e-3)
    assert ask(lab, old, new).policies == ((device, "default", "locked"),)
    assert ask(lab, old, old).policies == ()


def register(lab: Lab, environment: Environment) -> None:
    from vkbench.messages.wire import Announcement

    said = Announcement(worker="w", facts=lab.facts(), environment=environment, bundle="")
    with lab.database.transaction() as tx:
        store.register_device(tx, said, lab.now)


def run_under(lab: Lab, device: str, environment: str, seconds: float) -> int:
    run = lab.submit(device, [CASE])
    [job] = lab.pick(device)
    lab.record(replace(ended(lab, job, seconds), environment=environment))
    return run


def test_dates_take_the_latest_result_until_then(lab: Lab) -> None:
    device = lab.add_device()
    day = 86400
    lab.now -= lab.now % day
    for seconds in (1e-3, 2e-3, 4e-3):
        do(lab, device, {CASE: seconds})
        lab.now += day
    dates = ["2026-09-21", "2026-09-22", "2026-09-23", "2026-12-31"]
    found = [ask(lab, f"date:{dates[0]}", f"date:{date}").pairs[0].new.value for date in dates]
    assert found == [2e-3, 4e-3, 8e-3, 8e-3]  # the first is of metric cold
    assert ask(lab, "date:2026-09-20", f"date:{dates[0]}").pairs == ()
    moment = ask(lab, f"date:{dates[0]}", "date:2026-09-22T00:00:01+00:00")
    assert moment.pairs[0].quotient == pytest.approx(2.0)


def test_sides_without_a_device_in_common_are_hardware_beside_hardware(lab: Lab) -> None:
    first, second = lab.add_device("H100", "alpha"), lab.add_device("H200", "beta")
    old = do(lab, first, {CASE: 1e-3, "add/f32/h1_w2": 1e-3, "add/f32/h1_w3": 1e-3})
    new = do(lab, second, {CASE: 8e-3, "add/f32/h1_w2": Outcome.WRONG})
    for sides in ((old, new), ("device:H100", "device:H200"), ("device:H100", new)):
        found = ask(lab, *sides)
        assert found.is_across
        assert [pair.quotient for pair in found.pairs] == pytest.approx([8, 8])
        assert [pair.new.value for pair in found.pairs] == pytest.approx([16e-3, 8e-3])
        assert all(pair.is_slower for pair in found.pairs)
        work = found.pairs[0].work
        assert (work.old, work.new) == ((first, "H100", "alpha"), (second, "H200", "beta"))
        assert (found.old_places, found.new_places) == ((work.old,), (work.new,))
        [change] = found.changes
        assert (change.work.case_name, change.new) == ("add/f32/h1_w2", JobState.WRONG)
        assert (found.only_old, found.only_new) == (1, 0)
        assert found.mean
        assert (found.mean.value, found.share_mean) == (pytest.approx(8), None)
        assert ask(lab, *sides[::-1]).pairs[0].quotient == pytest.approx(1 / 8)


def test_shares_of_the_roof_are_a_mean_of_their_own(lab: Lab) -> None:
    first, second = lab.add_device("H100"), lab.add_device("H200")
    do(lab, first, {CASE: 1e-3, "add/f32/h1_w2": 1e-3})
    do(lab, second, {CASE: 8e-3, "add/f32/h1_w2": 1e-3})
    with lab.database.transaction() as tx:
        tx.execute(text("UPDATE measurement SET roof_fraction = 0.8 WHERE job_id IN (1, 2)"))
        tx.execute(text("UPDATE measurement SET roof_fraction = 0.4 WHERE job_id = 3"))
    found = ask(lab, "device:H100", "device:H200")
    assert sorted(pair.share_quotient or 0 for pair in found.pairs) == pytest.approx(
        [0, 0, 0.5, 0.5]
    )
    assert found.share_mean
    assert (found.share_mean.value, found.share_mean.count) == (pytest.approx(0.5), 2)


@one_engine
def test_a_device_on_both_sides_is_compared_with_itself_alone(lab: Lab) -> None:
    """Of which a fleet's runs mostly have some: another device is no reason for a difference."""
    first, second, third = (lab.add_device(name) for name in ("one", "two", "three"))
    old = over(lab, {first: 1e-3, second: 1e-3})
    new = over(lab, {second: 2e-3, third: 9e-3})
    found = ask(lab, old, new)
    assert not found.is_across
    assert {(p.work.device, p.work.old == p.work.new) for p in found.pairs} == {(second, True)}
    assert (found.only_old, found.only_new) == (1, 1)
    latest = ask(lab, f"device:{second}", new)
    assert [pair.quotient for pair in latest.pairs] == [1, 1]


@one_engine
def test_each_device_stands_beside_each_of_the_other_side(lab: Lab) -> None:
    names = ("one", "two", "three")
    first, second, third = (lab.add_device(name) for name in names)
    old = over(lab, {first: 1e-3, second: 2e-3})
    new = over(lab, {third: 4e-3})
    found = ask(lab, old, new, metrics=["hot"])
    assert [(p.work.device_name, p.quotient) for p in found.pairs] == [
        ("one → three", pytest.approx(4)),
        ("two → three", pytest.approx(2)),
    ]
    assert set(found.device_means) == {
        (f"{first} → {third}", "one → three"),
        (f"{second} → {third}", "two → three"),
    }
    assert (found.only_old, found.only_new) == (0, 0)


@one_engine
def test_unlike_clocks_of_two_devices_are_told(lab: Lab, environment: Environment) -> None:
    first, second = lab.add_device("one"), lab.add_device("two")
    old = do(lab, first, {CASE: 1e-3})
    locked = replace(environment, clock_policy="locked")
    register(lab, locked)
    new = run_under(lab, second, locked.hash, 2e-3)
    assert ask(lab, old, new).policies == ((f"{first} → {second}", "default", "locked"),)


def over(lab: Lab, devices: dict[str, float]) -> int:
    """A run of one case on several devices, in so many seconds on each."""
    with lab.database.transaction() as tx:
        run = store.create_run(tx, mode=Mode.BOTH, selection={}, now=lab.now).id
        store.add_jobs(tx, run, [lab.planned(device, CASE) for device in devices])
    for device, seconds in devices.items():
        for job in lab.pick(device):
            lab.record(ended(lab, job, seconds))
    return run


@one_engine
def test_a_device_is_not_compared_with_itself(lab: Lab) -> None:
    do(lab, lab.add_device(), {CASE: 1e-3})
    with pytest.raises(UsageError, match="both sides are device"):
        ask(lab, "device:llvm", "device:LLVMPIPE")
