"""The runner's loop, without a process around it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from typing import Any

import pytest

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import Bundle, UnknownBundle, packaged
from vkbench_worker.protocol import MALFORMED_STATUS, line_of, read_line
from vkbench_worker.runner.execute import execute
from vkbench_worker.runner.inbox import Inbox
from vkbench_worker.runner.main import preparers, serve
from vkbench_worker.runtime.null import NullDevice


def bundle_of(sha: str) -> Bundle:
    if sha:
        raise UnknownBundle(f"unknown bundle '{sha}'")
    return packaged()


def job(number: int, bundle: str = "") -> Job:
    case = "add/f32/b1_c1_h1_w5"
    return Job(id=number, token=1, case=case, mode=Mode.CORRECTNESS, bundle=bundle)


@contextmanager
def piped(*lines: bytes) -> Iterator[Inbox]:
    """These lines, and the end, in a pipe."""
    out, into = os.pipe()
    os.write(into, b"".join(lines))
    os.close(into)
    yield Inbox(out)
    os.close(out)


def talk(*lines: bytes, device: NullDevice | None = None) -> tuple[int, list[Result]]:
    answers = BytesIO()
    used: Any = device or NullDevice()
    with piped(*lines) as inbox:
        status = serve(used, inbox, answers, bundle_of, execute)
    return status, [read_line(line, Result) for line in answers.getvalue().splitlines()]


def test_every_job_gets_a_result_in_order() -> None:
    status, results = talk(*(line_of(job(number)) for number in (3, 1, 2)))
    assert status == 0
    assert [result.job for result in results] == [3, 1, 2]
    assert {result.outcome for result in results} == {Outcome.PASSED}


def test_a_cpu_driver_shares_its_processors_with_no_preparer() -> None:
    facts = NullDevice().facts
    assert preparers(facts) == 0
    assert preparers(replace(facts, type="discrete")) < len(os.sched_getaffinity(0))


def test_runners_share_the_processors_among_their_preparers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gpu = replace(NullDevice().facts, type="discrete")
    monkeypatch.setattr("os.sched_getaffinity", lambda _: range(16))
    monkeypatch.setattr("vkbench.process.system.free_memory_bytes", lambda: 1 << 37)
    assert [preparers(gpu, beside) for beside in (1, 2, 4, 8, 16)] == [8, 7, 3, 1, 0]


def test_no_input_is_no_work() -> None:
    assert talk() == (0, [])


def test_an_unknown_bundle_is_this_jobs_error() -> None:
    status, results = talk(line_of(job(1, "abc")), line_of(job(2)))
    assert status == 0
    assert [result.outcome for result in results] == [Outcome.ERROR, Outcome.PASSED]
    assert results[0].reason == "unknown bundle 'abc'"


def test_a_malformed_line_ends_it_after_what_came_before() -> None:
    status, results = talk(line_of(job(1)), b"{}\n", line_of(job(2)))
    assert status == MALFORMED_STATUS
    assert [result.job for result in results] == [1]
