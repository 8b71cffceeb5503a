"""Pages of results have a row for each timing, and each job once, however they are sorted."""

from __future__ import annotations

from dataclasses import replace

from databases import Lab
from planted_runs import timing
from vkbench.job import Arm, Mode, Pair
from vkbench.result import ARMS, Side
from vkbench_db.ask.results import SORTS, ResultFilter, page

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
