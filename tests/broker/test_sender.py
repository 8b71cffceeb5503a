"""How long a stopping worker keeps its last results for a Redis that does not answer."""

from __future__ import annotations

import time

import pytest

from cluster import Lab
from vkbench.job import Outcome
from vkbench.messages import wire
from vkbench.result import Result
from vkbench_worker.service import sender
from vkbench_worker.service.sender import Sender

PARTING_SECONDS = 4.0


def test_the_last_result_has_its_time_however_long_ago_the_stop_was(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "PARTING_SECONDS", PARTING_SECONDS)
    posted = Sender(lab.redis.client, lambda job, token: None)
    lab.redis.kill()
    posted.leave()
    time.sleep(1.1 * PARTING_SECONDS)  # the running job ends that late
    posted.put(Result(job=1, token=1, outcome=Outcome.PASSED))
    time.sleep(0.5)  # it is tried meanwhile
    lab.redis.start()
    posted.join()
    assert lab.redis.client.xlen(wire.RESULTS) == 1


def test_results_wait_until_people_mend_the_stream(lab: Lab) -> None:
    lab.redis.client.set(wire.RESULTS, "no stream")
    sent: list[int] = []
    posted = Sender(lab.redis.client, lambda job, token: sent.append(job))
    posted.put(Result(job=1, token=1, outcome=Outcome.PASSED))
    time.sleep(0.5)
    assert not sent
    lab.redis.client.delete(wire.RESULTS)
    posted.join()
    assert sent == [1]
    assert lab.redis.client.xlen(wire.RESULTS) == 1
