"""Whether a kernel of ours has lost ground to a peer, by the comparisons of the past.

A ratio is theirs over ours. It falls too where our own time has not changed: then the peer has
become faster, and no series of ours shows that. A side whose median is known too badly gives none.

Which comparisons are judged is stored, and of which falls an alert has told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from sqlalchemy import Connection, select, update

from vkbench.job import JobState, Mode
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.rows import insert_missing
from vkbench_detection.peers.pairs import PeerPair, earlier_pairs, pairs_of_jobs
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
    def share_left(self) -> float:
        """How much of the ratio before is left; 1 where either is unknown."""
        return self.ratio.ratio / self.before if self.ratio and self.before else 1.0

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
        jobs = unjudged_jobs(tx, AT_ONCE)
        judged = standings(tx, pairs_of_jobs(tx, jobs)) if jobs else []
    fallen = [standing for standing in judged if standing.has_fallen]
    if jobs:
        numbers = {standing.pair.job for standing in fallen}
        with database.transaction() as tx:
            note(tx, {job: job in numbers for job in jobs}, now)
    return fallen


def ratio_of(pair: PeerPair) -> Ratio | None:
    """How many times as fast as theirs ours is; None where a side is too noisy to say."""
    own = Estimate(value=pair.ours, low=pair.ours_low, high=pair.ours_high)
    theirs = Estimate(value=pair.theirs, low=pair.theirs_low, high=pair.theirs_high)
    if own.is_too_noisy or theirs.is_too_noisy:
        return None
    return of_estimates(own, theirs)


def _standing(pair: PeerPair, earlier: Sequence[PeerPair]) -> Standing:
    ratio = ratio_of(pair)
    clear = [comparison for comparison in earlier if ratio_of(comparison)]
    past = [comparison.theirs / comparison.ours for comparison in clear]
    if ratio is None or len(past) < LEAST:
        return Standing(pair=pair, ratio=ratio, before=None, has_fallen=False)
    before = median(past)
    is_lower = ratio.high < before and ratio.ratio < min(past)
    return Standing(
        pair=pair,
        ratio=ratio,
        before=before,
        has_fallen=is_lower and ratio.ratio < before * (1 - FLOOR),
        ours_before=median(comparison.ours for comparison in clear),
        theirs_before=median(comparison.theirs for comparison in clear),
    )


def unjudged_jobs(tx: Connection, most: int) -> list[int]:
    """Jobs that compared with a peer and are not judged, of the latest of each case and peer."""
    latest, standing = schema.latest.c, schema.peer_standing.c
    query = (
        select(latest.job_id)
        .outerjoin(schema.peer_standing, standing.job_id == latest.job_id)
        .where(latest.mode == Mode.PEER, latest.state == JobState.PASSED, standing.job_id.is_(None))
        .order_by(latest.job_id)
        .limit(most)
    )
    return list(tx.execute(query).scalars())


def note(tx: Connection, fallen: Mapping[int, bool], now: float) -> None:
    """Store of jobs whether their ratio fell; what is stored stays."""
    rows = [
        {"job_id": job, "has_fallen": has_fallen, "judged_at": now, "told_at": None}
        for job, has_fallen in fallen.items()
    ]
    insert_missing(tx, schema.peer_standing, rows)


def untold_falls(tx: Connection, *, judged_since: float, measured_since: float) -> list[int]:
    """Comparisons whose ratio fell and that some channel has not heard of."""
    standing, job = schema.peer_standing.c, schema.job.c
    query = (
        select(standing.job_id)
        .join(schema.job, job.id == standing.job_id)
        .where(
            *(standing.has_fallen, standing.told_at.is_(None)),
            *(standing.judged_at >= judged_since, job.finished_at >= measured_since),
        )
        .order_by(standing.job_id)
    )
    return list(tx.execute(query).scalars())


def fallen_since(tx: Connection, moment: float) -> list[Standing]:
    """The comparisons since a moment whose ratio fell, the deepest fall first."""
    standing, job = schema.peer_standing.c, schema.job.c
    query = (
        select(standing.job_id)
        .join(schema.job, job.id == standing.job_id)
        .where(standing.has_fallen, job.finished_at >= moment)
    )
    fallen = standings(tx, pairs_of_jobs(tx, list(tx.execute(query).scalars())))
    return sorted(fallen, key=lambda standing: standing.share_left)


def note_told(tx: Connection, job: int, now: float) -> None:
    """Store that every channel has heard of a fall."""
    standing = schema.peer_standing
    tx.execute(update(standing).where(standing.c.job_id == job).values(told_at=now))
