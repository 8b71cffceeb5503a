"""Pipelines made ahead: once each, in bounds, nothing lost, and never while it is to be quiet."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial

import pytest

from vkbench_shaders.bundle import packaged
from vkbench_shaders.catalogue import problem
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.errors import VulkanFailure
from vkbench_worker.runtime.null import NullDevice
from vkbench_worker.runtime.program import Program
from vkbench_worker.runtime.vulkan.pipelines import MOST, MOST_AHEAD, Pipelines


@cache
def a_program() -> Program:
    posed, facts = problem("add/f32/b1_c1_h1_w5"), NullDevice().facts
    return plan(packaged(), choose(posed, "auto", facts), facts).passes[0][0]


def numbered(number: int) -> Program:
    return replace(a_program(), constants=((0, number),))


class Made:
    """A planted pipeline."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.closed = False

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class Maker:
    """A planted driver, which notes what it makes, and waits at a gate."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.refused: set[int] = set()
        self.tried: list[int] = []
        self.made: list[Made] = []
        self.busy = 0
        self._lock = threading.Lock()

    def is_done_with(self, number: int) -> bool:
        """Whether so many were tried and none is being made."""
        return len(self.tried) == number and not self.busy

    def __call__(self, program: Program) -> Made:
        number = program.constants[0][1]
        with self._lock:
            self.busy += 1
            self.tried.append(number)
        self.gate.wait()
        with self._lock:
            self.busy -= 1
        if number in self.refused:
            raise VulkanFailure(f"refused {number}")
        self.made.append(Made(number))
        return self.made[-1]


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture
def ahead(maker: Maker) -> Iterator[Pipelines[Made]]:
    made = Pipelines(maker, 3)
    yield made
    maker.gate.set()
    made.close()
    assert all(each.closed for each in maker.made)


def until(done: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.001)


def test_each_is_made_once(maker: Maker, ahead: Pipelines[Made]) -> None:
    for _ in range(2):
        for number in range(20):
            ahead.make_ahead(numbered(number))
    found = [ahead.get(numbered(number)) for number in range(20)]
    assert [made.number for made in found] == list(range(20))
    assert [ahead.get(numbered(number)) for number in range(20)] == found
    assert sorted(maker.tried) == list(range(20))


def test_what_is_due_and_has_not_begun_does_not_queue(maker: Maker, ahead: Pipelines[Made]) -> None:
    maker.gate.clear()
    for number in range(10):
        ahead.make_ahead(numbered(number))
    until(lambda: maker.busy == 3)
    threading.Timer(0.05, maker.gate.set).start()
    assert ahead.get(numbered(9)).number == 9
    assert maker.tried[3] == 9


def test_a_refusal_is_met_by_who_asks(maker: Maker, ahead: Pipelines[Made]) -> None:
    maker.refused = {1}
    for number in range(3):
        ahead.make_ahead(numbered(number))
    until(lambda: len(maker.tried) == 3 and not maker.busy)
    ahead.make_ahead(numbered(1))  # still coming: not tried over and over
    assert [ahead.get(numbered(number)).number for number in (0, 2)] == [0, 2]
    with pytest.raises(VulkanFailure, match="refused 1"):
        ahead.get(numbered(1))
    maker.refused = set()
    assert ahead.get(numbered(1)).number == 1
    assert sorted(maker.tried) == [0, 1, 1, 1, 2]


def test_when_it_is_quiet_nothing_is_made(maker: Maker, ahead: Pipelines[Made]) -> None:
    maker.gate.clear()
    for number in range(10):
        ahead.make_ahead(numbered(number))
    until(lambda: maker.busy == 3)
    threading.Timer(0.05, maker.gate.set).start()
    ahead.stop_making()
    assert maker.busy == 0
    assert len(maker.made) == 3
    time.sleep(0.05)
    assert len(maker.tried) == 3
    for number in range(10):
        ahead.make_ahead(numbered(number))
    assert [ahead.get(numbered(number)).number for number in range(10)] == list(range(10))
    assert sorted(maker.tried) == list(range(10))


def test_there_are_never_more_than_the_bound(maker: Maker, ahead: Pipelines[Made]) -> None:
    maker.gate.clear()
    for number in range(3 * MOST):
        ahead.make_ahead(numbered(number))
    assert len(ahead) == MOST_AHEAD
    maker.gate.set()
    for number in range(3 * MOST):
        ahead.make_ahead(numbered(number + 5))
        assert ahead.get(numbered(number)).number == number
        assert len([made for made in maker.made if not made.closed]) <= len(ahead) <= MOST
    assert len(maker.made) == len({made.number for made in maker.made})  # none twice


def test_what_is_held_stays(maker: Maker, ahead: Pipelines[Made]) -> None:
    """However much it is, until the last holder lets go; what others left goes first."""
    ahead.get(numbered(-1))
    with ahead.hold():
        first = ahead.get(numbered(0))
        with ahead.hold():
            for number in range(2 * MOST):
                ahead.make_ahead(numbered(number))
                assert ahead.get(numbered(number)).number == number
        assert len(ahead) == 2 * MOST
        assert [made.number for made in maker.made if made.closed] == [-1]
        assert ahead.get(numbered(0)) is first
    assert len(ahead) == MOST
    assert len([made for made in maker.made if not made.closed]) == MOST
    assert not first.closed  # it was asked for last


def test_pipelines_that_no_job_takes_are_not_in_the_way(
    maker: Maker, ahead: Pipelines[Made]
) -> None:
    maker.refused = set(range(0, 10**6, 2))
    for tried in range(1, 4 * MOST_AHEAD):
        ahead.make_ahead(numbered(tried))
        until(partial(maker.is_done_with, tried))


def test_what_is_coming_is_kept_longest(maker: Maker, ahead: Pipelines[Made]) -> None:
    for number in range(MOST):
        ahead.get(numbered(number))
    ahead.make_ahead(numbered(0))
    ahead.get(numbered(MOST))
    assert ahead.get(numbered(0)).number == 0
    assert maker.tried.count(0) == 1
    ahead.get(numbered(1))
    assert maker.tried.count(1) == 2


def test_without_threads_nothing_is_made_ahead(maker: Maker) -> None:
    made = Pipelines(maker, 0)
    made.make_ahead(numbered(1))
    assert not maker.tried
    assert made.get(numbered(1)).number == 1
    made.close()
    assert maker.made[0].closed
