"""What the screen cannot judge yet is judged by kin and by pairs: young series, young levels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from databases import Lab, one_engine
from paired_nights import FIRST, SECOND, Nights, Speed, bundle, rows
from vkbench.device import Environment
from vkbench_db.work import store
from vkbench_scheduler.watch import timetable

THIRD = bundle("third")
CHANGES = "SELECT method, direction, state, cause FROM change_point ORDER BY id"


@pytest.fixture
def young(lab: Lab, environment: Environment) -> Nights:
    """A device without results; its bundles are kept."""
    with lab.database.transaction() as tx:
        for each in (FIRST, SECOND, THIRD):
            store.store_bundle(tx, each, lab.now)
    return Nights(lab, lab.add_device(), environment=environment)


def begin_slower_level(young: Nights, factor: float) -> None:
    """A slower kernel is confirmed; how the series scatters is known."""
    young.pass_by(24)
    timetable.look_back(young.lab.database, young.lab.now)
    young.bundle = SECOND.sha
    young.pass_by(1, factor)
    young.confirm(slow(SECOND.sha, factor))


def slow(sha: str, factor: float) -> Speed:
    return lambda asked: factor if asked == sha else 1.0


def test_a_slower_kernel_in_the_third_result_of_a_series(young: Nights) -> None:
    young.pass_by(2)
    young.bundle = SECOND.sha
    young.pass_by(1, 1.2)
    assert rows(young, CHANGES) == [("kin", "slower", "suspected", "")]
    young.confirm(slow(SECOND.sha, 1.2))
    assert rows(young, CHANGES) == [("kin", "slower", "confirmed", "kernel")]
    assert rows(young, "SELECT cause, state FROM regression") == [("kernel", "open")]


@one_engine
def test_a_slower_kernel_before_another_new_one(young: Nights) -> None:
    """A program has a new build each time: the slower one need not be the last one that came."""
    for each, factor in ((FIRST, 1.0), (SECOND, 1.2), (THIRD, 1.2)):
        young.bundle = each.sha
        young.pass_by(1, factor)
    young.confirm({FIRST.sha: 1.0, SECOND.sha: 1.2, THIRD.sha: 1.2}.__getitem__)
    assert rows(young, CHANGES) == [("kin", "slower", "confirmed", "kernel")]
    [(title,)] = rows(young, "SELECT title FROM regression")
    assert f" since {SECOND.sha[:7]} (" in title


def test_a_small_change_that_another_device_confirmed(young: Nights) -> None:
    """3 % is within what results of a CPU usually scatter by; the same kernels tell."""
    lab = young.lab
    new = replace(young, device=lab.add_device("new"), name="new")
    young.pass_by(24)
    new.pass_by(3)
    for each in (young, new):
        each.bundle = SECOND.sha
    young.pass_by(1, 1.03)
    young.confirm(slow(SECOND.sha, 1.03))
    assert rows(young, CHANGES) == [("screen", "slower", "confirmed", "kernel")]
    new.pass_by(1, 1.03)
    assert rows(young, CHANGES)[1:] == [("kin", "slower", "suspected", "")]
    new.confirm(slow(SECOND.sha, 1.03))
    assert rows(young, CHANGES)[1:] == [("kin", "slower", "confirmed", "kernel")]
    assert rows(young, "SELECT count(*) FROM regression") == [(1,)]


@one_engine
def test_it_is_not_suspected_without_them(young: Nights) -> None:
    young.pass_by(3)
    young.bundle = SECOND.sha
    young.pass_by(6, 1.03)
    assert rows(young, CHANGES) == []


@one_engine
def test_nights_after_a_confirmed_change(young: Nights) -> None:
    """The screen waits for 20 results of the new level, and the next kernel does not."""
    begin_slower_level(young, 1.05)
    young.pass_by(5, 1.05)
    young.bundle = THIRD.sha
    young.pass_by(1, 1.05 * 1.06)
    young.confirm(lambda sha: {SECOND.sha: 1.05, THIRD.sha: 1.05 * 1.06}.get(sha, 1.0))
    assert rows(young, CHANGES) == [
        ("screen", "slower", "confirmed", "kernel"), ("kin", "slower", "confirmed", "kernel"),
    ]  # fmt: skip


@one_engine
def test_quiet_nights_with_new_kernels_cost_no_pairs(young: Nights) -> None:
    for each in (FIRST, SECOND, THIRD):
        young.bundle = each.sha
        young.pass_by(6)
    assert rows(young, CHANGES) == []


@one_engine
def test_a_host_that_is_slow_in_a_young_level_is_no_kernel(young: Nights) -> None:
    """Pairs that agree end the suspicion; the screen and the history judge hosts and drivers."""
    begin_slower_level(young, 1.1)
    young.pass_by(5, 1.1)
    young.bundle = THIRD.sha
    for factor in (1.5, 1.5, 1.5):
        young.pass_by(1, factor)
        young.confirm(lambda sha: 1.5)
    assert rows(young, CHANGES) == [
        ("screen", "slower", "confirmed", "kernel"), ("kin", "slower", "dismissed", ""),
    ]  # fmt: skip


@one_engine
def test_a_driver_soon_after_a_slower_kernel(young: Nights) -> None:
    """A level of a few results is enough to hold a driver against, once it has lasted."""
    begin_slower_level(young, 1.05)
    young.pass_by(3, 1.05)
    young.environment = replace(young.environment, driver_version="another")
    for _ in range(3):
        young.pass_by(1, 1.05 * 1.05)
        young.confirm(lambda sha: 1.05 * 1.05)
    assert rows(young, CHANGES) == [
        ("screen", "slower", "confirmed", "kernel"), ("kin", "slower", "confirmed", "environment"),
    ]  # fmt: skip
