"""A try-out of two builds: rounds of pairs, what each case becomes, and what is measured next."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databases import Lab, one_engine
from planted_build_runs import add_build
from planted_tryout import CASES, FASTER, SAME, SLOWER, WRONG, Trial
from vkbench.job import Outcome
from vkbench.run import RunWords
from vkbench_db.work.arrivals import cancel_run
from vkbench_detection.compare.comparison import compare
from vkbench_detection.compare.references import find
from vkbench_detection.compare.tryouts import TryVerdict
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.tryouts import (
    TriedBuilds,
    add_round,
    cancel_rest,
    fit_seconds,
    submit_tryout,
)
from vkbench_tables.comparisons import comparison
from vkbench_tables.comparisons import tryout as tables

pytestmark = one_engine


def test_what_may_have_changed_is_measured_until_it_is_certain(lab: Lab) -> None:
    trial = Trial(lab)
    assert trial.do_round() == list(CASES)
    rounds = []
    while add_round(lab.database, trial.run):
        rounds.append(trial.do_round())
    changed, same = [[SLOWER, FASTER]], [[SAME]]  # what is wrong is known
    assert rounds == [*changed * 7, *same * 3]
    tried = trial.so_far()
    assert [(one.case, one.verdict, one.pairs) for one in tried.cases] == [
        (WRONG, TryVerdict.WRONG, 0),
        (SLOWER, TryVerdict.SLOWER, 8),
        (FASTER, TryVerdict.FASTER, 8),
        (SAME, TryVerdict.SAME, 4),
    ]
    assert tried.cases[1].ratio == pytest.approx(1.2, rel=0.01)
    assert tried.cases[0].ratio is None  # nothing wrong has a time
    assert tried.much_slower == pytest.approx(1 / 3)
    assert tried.mean
    assert tried.mean.value == pytest.approx((1.2 * 0.5) ** (1 / 3), rel=0.01)
    said = tables.in_markdown(tried)
    assert said.startswith("### b1 → b2: 1 wrong, 1 slower, 1 faster\n")
    with lab.database.reading() as tx:
        builds = find(tx, "build:b1"), find(tx, "build:b2")
        found, turned = compare(tx, *builds), compare(tx, *reversed(builds))
    words = {pair.work.case_name: (pair.word, len(pair.new.values)) for pair in found.pairs}
    assert words == {SLOWER: ("slower", 8), FASTER: ("faster", 8), SAME: ("~", 4)}
    [change] = found.changes
    assert (change.work.case_name, change.old, change.new) == (WRONG, "passed", "wrong")
    [slower] = [pair for pair in found.pairs if pair.work.case_name == SLOWER]
    [faster] = [pair for pair in turned.pairs if pair.work.case_name == SLOWER]
    assert slower.quotient == pytest.approx(1 / faster.quotient) == tried.cases[1].ratio
    assert slower.ratio
    assert tried.cases[1].bounds == pytest.approx((slower.ratio.low, slower.ratio.high))
    shown = comparison.table(found, found.pairs, {}, ()).rows
    assert "8 pairs of both, timed in turns" in [row.get("reason") for row in shown]
    assert said.index("Wrong or failed: 1") < said.index("Slower: 1") < said.index("1 other case")


def test_pairs_of_a_tryout_share_its_time(lab: Lab) -> None:
    times = ((300, 60), (300, 40), (600, 60), (10, 1), (10, 1000))
    assert [round(fit_seconds(*time), 2) for time in times] == [0.1, 0.25, 0.3, 0.3, 0.1]
    names = ("llvmpipe", "SwiftShader")
    devices = [lab.add_device(name) for name in names]
    builds = TriedBuilds(old=add_build(lab, "b1"), new=add_build(lab, "b2"))
    submit_tryout(
        lab.database,
        builds,
        Selection(cases=CASES, devices=tuple(devices)),
        [lab.facts(name) for name in names],
        RunWords(),
        limit_seconds=5.5 * len(CASES),  # of each device
    )
    for device in devices:
        jobs = lab.pick(device)
        assert [job.measure_seconds for job in jobs] == [0.125] * len(CASES)


def test_the_time_may_end_in_the_first_round(lab: Lab) -> None:
    trial = Trial(lab)
    assert len(lab.pick(trial.device, 2)) == 2
    cancel_run(lab.database, trial.run, lab.now)
    tried = trial.so_far()
    assert tried.counts == {TryVerdict.UNREACHED: 4}
    assert tried.mean is None
    assert tables.lines(tried) == ["b1 → b2: 4 cases (4 not reached)"]


def test_a_pair_that_the_end_breaks_off_leaves_its_case_undecided(lab: Lab) -> None:
    trial = Trial(lab)
    trial.do_round()
    assert add_round(lab.database, trial.run)
    slower, *_ = lab.pick(trial.device)
    assert slower.case == SLOWER
    cancel_rest(lab.database, trial.run, [slower.id])
    tried = {case.case: case for case in trial.so_far().cases}
    assert (tried[SLOWER].verdict, tried[SLOWER].pairs) == (TryVerdict.UNDECIDED, 1)
    assert tried[SLOWER].note == "the time was over while it was measured"
    assert tried[SAME].note == ""


def test_a_first_pair_that_the_end_breaks_off_is_undecided_without_a_time(lab: Lab) -> None:
    trial = Trial(lab)
    first, *_ = lab.pick(trial.device, 2)
    cancel_rest(lab.database, trial.run, [first.id])
    tried = trial.so_far()
    assert tried.counts == {TryVerdict.UNDECIDED: 1, TryVerdict.UNREACHED: 3}
    assert [case.case for case in tried.changed] == [first.case]
    assert tables.table(tried, tried.changed).rows[0]["ratio"] is None


def test_one_pair_that_differs_says_nothing_for_sure(lab: Lab) -> None:
    trial = Trial(lab)
    trial.do_round()
    verdicts = {one.case: one.verdict for one in trial.so_far().cases}
    assert verdicts[SLOWER] is verdicts[FASTER] is TryVerdict.UNDECIDED
    assert verdicts[SAME] is TryVerdict.SAME


def test_a_pair_whose_arm_crashes_says_which(lab: Lab) -> None:
    trial = Trial(lab)
    while jobs := lab.pick(trial.device):
        for job in jobs:
            arm = "old" if job.case == FASTER else "new"
            died = replace(lab.answer(job, Outcome.CRASHED), reason=f"{arm}: SIGSEGV")
            lab.record(died if job.case in (SLOWER, FASTER) else trial.answer(job))
    verdicts = {one.case: one.verdict for one in trial.so_far().cases}
    assert verdicts[SLOWER] is TryVerdict.FAILED
    assert verdicts[FASTER] is TryVerdict.FIXED
