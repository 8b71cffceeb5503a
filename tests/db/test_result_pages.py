"""Pages of results have a row for each timing, and each job once, however they are sorted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databases import ENVIRONMENT, Lab
from planted_runs import timing
from vkbench.device import DRIVER_NAME, DRIVER_SHA
from vkbench.errors import UnknownName
from vkbench.job import Arm, Mode, Pair
from vkbench.result import ARMS, Side
from vkbench_db.ask.results import SORTS, ResultFilter, page
from vkbench_db.work.devices import store_environment

CASE = "add/f32/h1_w1"


def test_no_sorting_shows_a_side_twice(lab: Lab) -> None:
    device = lab.add_device()
    pair = Pair(old=Arm(name="0a" * 32), metric="hot")
    for mode, sides in (
        (Mode.PERFORMANCE, (Side.OURS,)),
        (Mode.PAIRED, ARMS),
        (Mode.PEER, (Side.THEIRS, Side.OURS)),
    ):
        lab.submit(device, [CASE], mode=mode, pair=pair if mode is Mode.PAIRED else None)
        [job] = lab.pick(device)
        timings = tuple(timing("hot", 1e-3, side=side) for side in sides)
        answer = lab.answer(replace(job, mode=Mode.PERFORMANCE, pair=None))
        lab.record(replace(answer, timings=timings))
    modes = ResultFilter(mode=(Mode.PERFORMANCE, Mode.PAIRED, Mode.PEER))
    with lab.database.reading() as tx:
        for sort in SORTS:
            rows = [(row.job, row.side) for row in page(tx, modes, sort=sort)]
            assert len(rows) == len(set(rows)) == 5, sort
            assert len(page(tx, modes, sort=sort, limit=3)) == 5, sort  # three jobs


def test_results_of_a_driver_are_the_latest_that_ran_through_it(lab: Lab) -> None:
    device = lab.add_device()
    through = replace(ENVIRONMENT, extra={DRIVER_NAME: "mine", DRIVER_SHA: "ab" * 6})
    with lab.database.transaction() as tx:
        store_environment(tx, through)
    for known in (ENVIRONMENT, through, through, ENVIRONMENT):
        lab.submit(device, [CASE])
        [job] = lab.pick(device)
        lab.record(replace(lab.answer(job), environment=known.hash))

    def jobs(word: str, *, history: bool = False) -> list[int]:
        chosen = ResultFilter(driver=[word], history=history)
        with lab.database.reading() as tx:
            return list(dict.fromkeys(row.job for row in page(tx, chosen)))

    assert jobs("mine") == jobs("ab" * 6) == [3]
    assert jobs("mine", history=True) == [3, 2]
    assert jobs("llvmpipe 22.3.6") == [4]  # the newest by any driver of this name
    with lab.database.reading() as tx, pytest.raises(UnknownName, match="unknown driver 'mien'"):
        page(tx, ResultFilter(driver=["mien"]))
