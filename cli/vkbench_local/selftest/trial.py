"""Tries the scenarios, several at a time, and holds what they show against the targets."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from math import ceil
from multiprocessing import get_context
from statistics import median
from zlib import crc32

import numpy as np

from vkbench.system import usable_processors
from vkbench_db.database import Database
from vkbench_detection.changes.decisions import Cause
from vkbench_local.selftest.nights import Lab
from vkbench_local.selftest.scenarios import BY_NAME, Scenario
from vkbench_local.selftest.score import Answer, Score, score

TOGETHER = 48  # series of one database
RIGHT_PLACE = 0.95  # of changes, with the bundle or the driver that brought them, at least
RIGHT_CAUSE = 0.97
BLAMED_PER_1000 = 0.2  # results: changes that are none, blamed on a kernel or a driver, at most
FALSE_PER_1000 = 1.0  # of any cause
PAIRS_PER_100 = 20.0  # results
COVERED = 0.9  # of told sizes, whose 95 % intervals hold the true ones, at least
LEAST_SIZES = 20  # that tell such a share
BLAMED = (Cause.KERNEL, Cause.ENVIRONMENT, Cause.UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one scenario shows, or all of them."""

    name: str
    about: str
    score: Score

    def share(self, *answers: Answer) -> float | None:
        """Share of the planted changes that became one of these; None where none was planted."""
        outcomes = self.score.outcomes
        if not outcomes:
            return None
        return sum(each.answer in answers for each in outcomes) / len(outcomes)

    @property
    def right_place(self) -> float | None:
        """Share of changes told with their cause, and with what brought them."""
        return self.share(Answer.RIGHT)

    @property
    def right_cause(self) -> float | None:
        """Share of changes told with their cause."""
        return self.share(Answer.RIGHT, Answer.MISPLACED)

    @property
    def right_state(self) -> float | None:
        """Share of changed series whose regressions end open, or over, as they should."""
        right, total = self.score.states_right, self.score.states
        return right / total if total else None

    @property
    def nights(self) -> float | None:
        """Median of the nights until a change was told."""
        told = [each.nights for each in self.score.outcomes if each.nights is not None]
        return median(told) if told else None

    @property
    def covered(self) -> float | None:
        """Share of the told sizes whose intervals hold the true one."""
        sizes = self.score.sizes
        return sum(size.is_covered for size in sizes) / len(sizes) if sizes else None

    def false_per_1000(self, *causes: str) -> float:
        """Changes of these causes that were none, for each thousand results."""
        found = sum(count for cause, count in self.score.false.items() if cause in causes)
        return 1000 * found / self.score.results

    @property
    def blamed_per_1000(self) -> float:
        """Those that a kernel or a driver is blamed for."""
        return self.false_per_1000(*BLAMED)

    @property
    def all_false_per_1000(self) -> float:
        """Those of any cause."""
        return self.false_per_1000(*self.score.false)

    @property
    def pairs_per_100(self) -> float:
        """Paired jobs for each hundred results."""
        return 100 * self.score.pairs / self.score.results

    @property
    def targets(self) -> list[str]:
        """What is asked of it, in words."""
        return [words for _, words in self._asked]

    @property
    def missed(self) -> list[str]:
        """What it does not reach of that."""
        return [words for is_met, words in self._asked if not is_met]

    @property
    def _asked(self) -> list[tuple[bool, str]]:
        place, cause = self.right_place, self.right_cause
        of_changes = [
            (place is not None and place >= RIGHT_PLACE, f"right bundle ≥ {RIGHT_PLACE:.0%}"),
            (cause is not None and cause >= RIGHT_CAUSE, f"right cause ≥ {RIGHT_CAUSE:.0%}"),
        ]
        of_sizes = (self.covered is None or self.covered >= COVERED, f"size ≥ {COVERED:.0%}")
        return [
            *(of_changes if self.score.outcomes else []),
            *([of_sizes] if len(self.score.sizes) >= LEAST_SIZES else []),
            (self.all_false_per_1000 <= FALSE_PER_1000, f"false ≤ {FALSE_PER_1000:g}/1000"),
            (self.blamed_per_1000 <= BLAMED_PER_1000, f"blamed ≤ {BLAMED_PER_1000}/1000"),
            (self.pairs_per_100 <= PAIRS_PER_100, f"pairs ≤ {PAIRS_PER_100:g}/100"),
        ]


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some devices of a scenario, in a database of their own."""

    scenario: str
    seed: int
    first: int
    devices: int


def run(
    scenarios: Sequence[Scenario],
    *,
    series: int,
    seeds: Sequence[int],
    told: Callable[[int, int], object] = lambda done, total: None,
) -> list[Row]:
    """Try scenarios with about so many series each, for each seed; a last row has all of them."""
    parts = [part for each in scenarios for part in _parts(each, series, seeds)]
    scores = {each.name: Score() for each in scenarios}
    for done, (part, found) in enumerate(_tried(parts)):
        scores[part.scenario] = scores[part.scenario].plus(found)
        told(done + 1, len(parts))
    rows = [Row(name=s.name, about=s.about, score=scores[s.name]) for s in scenarios]
    total = Score()
    for row in rows:
        total = total.plus(row.score)
    return [*rows, Row(name="all", about="", score=total)] if len(rows) > 1 else rows


def _parts(scenario: Scenario, series: int, seeds: Sequence[int]) -> Iterable[Part]:
    devices = ceil(series / scenario.series)
    together = max(1, TOGETHER // scenario.series)
    for seed in seeds:
        for first in range(0, devices, together):
            count = min(together, devices - first)
            yield Part(scenario=scenario.name, seed=seed, first=first, devices=count)


def _tried(parts: Sequence[Part]) -> Iterable[tuple[Part, Score]]:
    """Try parts in processes; the longest scenarios begin."""
    ordered = sorted(parts, key=lambda part: -BY_NAME[part.scenario].nights * part.devices)
    workers = min(usable_processors(), len(parts))
    if workers < 2:
        yield from ((part, try_part(part)) for part in ordered)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(try_part, part): part for part in ordered}
        for each in as_completed(running):
            yield running[each], each.result()


def try_part(part: Part) -> Score:
    """Let the nights of some devices pass, in a database that is gone afterwards."""
    scenario = BY_NAME[part.scenario]
    number = crc32(part.scenario.encode())
    rigs = [
        scenario.make(f"rig{device}", np.random.default_rng((part.seed, number, device)))
        for device in range(part.first, part.first + part.devices)
    ]
    with tempfile.TemporaryDirectory(prefix="vkbench-selftest-") as folder:
        url = f"sqlite:///{folder}/lab.db"
        with Database.open(url, create=True) as database:
            rng = random.Random(f"{part.seed} {number} {part.first}")
            lab = Lab(database=database, rigs=rigs, rng=rng)
            for night in range(scenario.nights):
                lab.pass_night(night)
            with database.reading() as tx:
                return score(tx, lab)
