"""Tries the scenarios of the simulated lab, several at a time."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from math import ceil
from multiprocessing import get_context
from zlib import crc32

import numpy as np

from vkbench.process.interpreter import safe_path
from vkbench.process.system import usable_processors
from vkbench_db.database import Database
from vkbench_local.selftest.nights import Lab
from vkbench_local.selftest.scenarios import BY_NAME, Scenario
from vkbench_local.selftest.score import Row, Score
from vkbench_local.selftest.told import score

TOGETHER = 48  # series of one database


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
    tell_done: Callable[[int, int], object] = lambda done, total: None,
) -> list[Row]:
    """Try scenarios with about so many series each, for each seed; a last row has all of them."""
    parts = [part for scenario in scenarios for part in _parts(scenario, series, seeds)]
    scores = {scenario.name: Score() for scenario in scenarios}
    for done, (part, part_score) in enumerate(_try_parts(parts)):
        scores[part.scenario] = scores[part.scenario].plus(part_score)
        tell_done(done + 1, len(parts))
    rows = [Row(name=s.name, about=s.about, score=scores[s.name]) for s in scenarios]
    total = Score()
    for row in rows:
        total = total.plus(row.score)
    return [*rows, Row(name="all", about="", score=total, is_whole=True)] if len(rows) > 1 else rows


def _parts(scenario: Scenario, series: int, seeds: Sequence[int]) -> Iterable[Part]:
    devices = ceil(series / scenario.series)
    together = max(1, TOGETHER // scenario.series)
    for seed in seeds:
        for first in range(0, devices, together):
            count = min(together, devices - first)
            yield Part(scenario=scenario.name, seed=seed, first=first, devices=count)


def _try_parts(parts: Sequence[Part]) -> Iterable[tuple[Part, Score]]:
    """Try parts in processes; the longest scenarios begin."""
    ordered = sorted(parts, key=lambda part: -BY_NAME[part.scenario].nights * part.devices)
    workers = min(usable_processors(), len(parts))
    if workers < 2:
        yield from ((part, try_part(part)) for part in ordered)
        return
    with (
        safe_path(os.environ),
        ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool,
    ):
        running = {pool.submit(try_part, part): part for part in ordered}
        for ended in as_completed(running):
            yield running[ended], ended.result()


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
            lab = Lab(database=database, rigs=rigs, rng=rng, release=scenario.release)
            for night in range(scenario.nights):
                lab.pass_night(night)
            with database.reading() as tx:
                return score(tx, lab)
