"""The processes of peers: asked beside a runner, kept, and gone with their supervisor."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench.settings import settings
from vkbench_shaders.bundle import packaged
from vkbench_worker.peers.processes import Peers
from vkbench_worker.protocol import Ready
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.null import NullDevice

JOB = Job(
    id=7,
    token=3,
    case="mul_mat/f32/m17_n5_k64",
    mode=Mode.PEER,
    variant="numpy",
    measure_seconds=0.1,
)
NULL = NullDevice()
READY = Ready(facts=NULL.facts, environment=NULL.environment)


@pytest.fixture
def peers() -> Iterator[Peers]:
    with ThreadPoolExecutor(1) as parent:
        made = Peers(settings(), parent)
        yield made
        made.close()


def asked(
    peers: Peers, job: Job = JOB, ready: Ready = READY, *, over: bool = False
) -> Result | None:
    ours = partial(execute, NULL, packaged())
    return peers.in_turns(job, ready, ours, lambda: over)


def children() -> set[int]:
    found = set()
    for path in Path("/proc/self/task").glob("*/children"):
        found |= set(map(int, path.read_text().split()))
    return found


def test_numpy_and_our_kernel_are_timed_in_turns(peers: Peers) -> None:
    result = asked(peers)
    assert result
    assert (result.job, result.token, result.outcome) == (7, 3, Outcome.PASSED)
    assert [(timing.metric, timing.side) for timing in result.timings] == [
        ("hot", "theirs"),
        ("hot", "ours"),
    ]
    assert result.settings.endswith(",ours=portable")
    assert result.verdict
    assert result.verdict.passed


def test_a_process_is_kept_for_the_next_job_and_closed(peers: Peers) -> None:
    before = children()
    asked(peers)
    [kept] = children() - before
    asked(peers, replace(JOB, token=4))
    assert children() - before == {kept}
    peers.close()
    assert children() == before


def test_a_peer_is_contained_as_a_runner_is(peers: Peers) -> None:
    before = children()
    asked(peers)
    [process] = children() - before
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines()
    )
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_a_peer_that_dies_is_the_reason_and_the_next_job_has_a_fresh_one(peers: Peers) -> None:
    before = children()
    asked(peers)
    [first] = children() - before

    os.kill(first, signal.SIGKILL)
    result = asked(peers)
    assert result
    assert (result.outcome, result.reason) == (Outcome.SKIPPED, "numpy crashed: SIGKILL")
    again = asked(peers)
    assert again
    assert again.outcome is Outcome.PASSED


def test_a_peer_that_takes_too_long_is_ended(peers: Peers) -> None:
    result = asked(peers, replace(JOB, limit_seconds=0.01))
    assert result
    assert result.reason == "numpy timed_out: no answer within 0.01 s"
    assert result.outcome is Outcome.SKIPPED


def test_a_job_that_is_over_has_no_result(peers: Peers) -> None:
    assert asked(peers, over=True) is None


def test_numpy_is_not_held_against_a_gpu(peers: Peers) -> None:
    card = replace(NULL.facts, type="discrete", name="Card")
    result = asked(peers, ready=replace(READY, facts=card))
    assert result
    assert result.reason == "numpy computes on processors, and Card is none"
