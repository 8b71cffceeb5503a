"""Whether a kernel of ours has lost ground to a peer, by the comparisons of the past.

A ratio is theirs over ours. It falls too where our own time has not changed: then the peer has
become faster, and no series of ours shows that. A side whose median is known too badly gives none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from sqlalchemy import Connection

from vkbench_db.ask.peers import PeerPair, earlier_pairs, pairs_of_jobs
from vkbench_db.database import Database
from vkbench_db.upkeep.peer_standings import note, unjudged
from vkbench_detection.statistics.ratios import Estimate, Ratio, of_estimates

HISTORY: Final = 10  # comparisons that one is held against
LEAST: Final = 3  # of them: fewer say nothing of how ratios scatter
AT_ONCE: Final = 200  # comparisons that are judged before others may write
FLOOR: Final = 0.05  # runs of one pair of programs differ by so much


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A comparison beside those before it."""

    pair: PeerPair
    ratio: Ratio | None  # how many times as fast as theirs ours is; None where a side is too noisy
    before: float | None  # median of the ratios before; None where there are too few
    has_fallen: bool
    ours_before: float | None = None  # medians of the seconds then
    theirs_before: float | None = None

    @property
    def is_ours_slower(self) -> bool:
        """Whether our own time has changed, and not the peer's alone."""
        return self.ours_before is not None and self.pair.ours > self.ours_before * (1 + FLOOR)


def standings(tx: Connection, pairs: Sequence[PeerPair]) -> list[Standing]:
    """Each comparison, held against those of the same case, device and peer before it."""
    return [_standing(pair, earlier_pairs(tx, pair, HISTORY)) for pair in pairs]


def judge(database: Database, now: float) -> list[Standing]:
    """Judge the latest comparisons that are not judged yet, and store which ratios fell: those."""
    with database.reading() as tx:
        jobs = unjudged(tx, AT_ONCE)
        found = standings(tx, pairs_of_jobs(tx, jobs)) if jobs else []
    fallen = [each for each in found if each.has_fallen]
    if jobs:
        numbers = {each.pair.job for each in fallen}
        with database.transaction() as tx:
            note(tx, {job: job in numbers for job in jobs}, now)
    return fallen


def ratio_of(pair: PeerPair) -> Ratio | None:
    """How many times as fast as theirs ours is; None where a side is too noisy to say."""
    ours = Estimate(value=pair.ours, low=pair.ours_low, high=pair.ours_high)
    theirs = Estimate(value=pair.theirs, low=pair.theirs_low, high=pair.theirs_high)
    if ours.is_too_noisy or theirs.is_too_noisy:
        return None
    return of_estimates(ours, theirs)


def _standing(pair: PeerPair, earlier: Sequence[PeerPair]) -> Standing:
    ratio = ratio_of(pair)
    told = [each for each in earlier if ratio_of(each)]
    past = [each.theirs / each.ours for each in told]
    if ratio is None or len(past) < LEAST:
        return Standing(pair=pair, ratio=ratio, before=None, has_fallen=False)
    before = median(past)
    is_lower = ratio.high < before and ratio.ratio < min(past)
    return Standing(
        pair=pair,
        ratio=ratio,
        before=before,
        has_fallen=is_lower and ratio.ratio < before * (1 - FLOOR),
        ours_before=median(each.ours for each in told),
        theirs_before=median(each.theirs for each in told),
    )
