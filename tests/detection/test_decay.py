"""Slow decay is found by pairs of the newest bundle with the last release and the last baseline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from databases import Lab, one_engine
from paired_nights import NIGHT, Nights, Speed, bundle, rows
from planted_build_runs import PROGRAM, add_build
from vkbench.device import Environment
from vkbench.job import ArmKind, Job
from vkbench_db.work import store
from vkbench_detection.compare.baselines import pin
from vkbench_detection.compare.references import ReferenceKind
from vkbench_scheduler.watch import timetable

BUNDLES = [bundle(f"bundle {number}") for number in range(12)]
SHAS = [each.sha for each in BUNDLES]
FOUND = "SELECT method, direction, state, cause FROM change_point WHERE method = 'decay'"
TITLES = "SELECT title, state FROM regression WHERE direction = 'slower'"
PAIRS = "SELECT count(*) FROM confirmation"


@pytest.fixture
def nights(lab: Lab, environment: Environment) -> Nights:
    """Twenty-five nights with the bundle of a release."""
    with lab.database.transaction() as tx:
        for each in BUNDLES:
            store.store_bundle(tx, each, lab.now)
    made = Nights(lab, lab.add_device(), environment=environment, bundle=BUNDLES[0].sha)
    made.pass_by(25)
    with lab.database.transaction() as tx:
        pin(tx, "release-1.2", ReferenceKind.BUNDLE, BUNDLES[0].sha, lab.now, "ann")
    return made


def decay(nights: Nights, shas: Sequence[str], a_version: float) -> None:
    """Four nights with each bundle or build, all that a scheduler does in them, and each slower."""

    def speed(sha: str) -> float:
        return a_version ** shas.index(sha)

    for sha in shas[1:]:
        nights.bundle = sha
        for _ in range(4):
            nights.pass_by(1, speed(sha))
            nights.confirm(speed)
            timetable.look_back(nights.lab.database, nights.lab.now)
            nights.confirm(speed)


def test_ten_bundles_that_are_each_a_little_slower(nights: Nights) -> None:
    """0.6 % a bundle: no two neighbours differ by what anything notices."""
    decay(nights, SHAS[:11], 1.006)
    kinds = rows(nights, FOUND)
    assert kinds[-1] == ("decay", "slower", "confirmed", "kernel")
    [(title, state)] = rows(nights, TITLES)
    than = f"slower on llvmpipe of alpha than with {BUNDLES[0].sha[:7]}, little by little until "
    assert re.fullmatch(rf"mul_mat_vec [23] % {than}\d+ \w+", title), title
    assert state == "open"
    [(ratio,)] = rows(
        nights, "SELECT ratio FROM change_point WHERE method = 'decay' AND state = 'confirmed'"
    )
    assert 1.012 < ratio < 1.07
    told = "SELECT note FROM change_point_event WHERE note LIKE '%little by little'"
    assert "of baseline release-1.2" in rows(nights, told)[0][0]


def level_of(number: int) -> Speed:
    """A host that is so slow with whatever bundle."""
    return lambda sha: 1.006**number


@one_engine
def test_a_series_is_paired_with_a_release_once_a_week_at_most(nights: Nights) -> None:
    """And once for a kernel: what was no slower is not asked again."""
    decay(nights, SHAS[:4], 1.0)
    found = "SELECT found_at FROM change_point WHERE method = 'decay' ORDER BY id"
    assert rows(nights, found) == []
    # the host has become slower, little by little; the kernels have not
    for number, each in enumerate(BUNDLES[4:12]):
        nights.bundle = each.sha
        for _ in range(4):
            nights.pass_by(1, 1.006 ** (number + 1))
            nights.confirm(level_of(number + 1))
            timetable.look_back(nights.lab.database, nights.lab.now)
            nights.confirm(level_of(number + 1))
    moments = [moment for (moment,) in rows(nights, found)]
    assert 1 <= len(moments) <= 5
    assert rows(nights, "SELECT DISTINCT state FROM change_point WHERE method = 'decay'") == [
        ("dismissed",)
    ]
    assert all("little by little" not in title for title, _ in rows(nights, TITLES))


class NightsOfBuilds(Nights):
    """A lab whose device runs a build of a program night by night."""

    def submit(self) -> None:
        self.lab.submit(
            *(self.device, self.cases), variant=PROGRAM, bundle=self.bundle, arm_kind=ArmKind.BUILD
        )

    def kernel(self, job: Job) -> str:
        return self.bundle


@one_engine
def test_builds_that_are_each_a_little_slower(lab: Lab, environment: Environment) -> None:
    builds = [add_build(lab, f"b{number}") for number in range(7)]
    made = NightsOfBuilds(lab, lab.add_device(), environment=environment, bundle=builds[0].sha)
    made.pass_by(25)
    with lab.database.transaction() as tx:
        pin(tx, "release", ReferenceKind.BUILD, "b0", lab.now, "ann")
    decay(made, [build.sha for build in builds], 1.006)
    kinds = rows(made, FOUND)
    assert kinds[-1] == ("decay", "slower", "confirmed", "build")
    [(title, state)] = rows(made, TITLES)
    than = r"slower on llvmpipe of alpha than with b0, little by little until \d+ \w+"
    assert re.fullmatch(rf"{PROGRAM} mul_mat_vec q4_0 [23] % {than}", title), title
    assert state == "open"


@one_engine
def test_what_a_driver_explains_is_no_decay(nights: Nights) -> None:
    nights.environment = replace(nights.environment, driver_version="23.1")
    nights.pass_by(1, 1.08)
    nights.confirm(lambda sha: 1.08)
    before = rows(nights, PAIRS)
    for each in BUNDLES[1:4]:
        nights.bundle = each.sha
        nights.pass_by(3, 1.08)
        timetable.look_back(nights.lab.database, nights.lab.now)
    assert rows(nights, FOUND) == []
    assert rows(nights, PAIRS) == before


@one_engine
def test_a_release_whose_bundle_is_not_kept_is_not_paired(nights: Nights) -> None:
    with nights.lab.database.transaction() as tx:
        tx.exec_driver_sql(f"DELETE FROM bundle_blob WHERE bundle = '{BUNDLES[0].sha}'")
    decay(nights, [SHAS[0], SHAS[8]], 1.006**8)
    nights.lab.now += NIGHT
    assert rows(nights, FOUND) == []
