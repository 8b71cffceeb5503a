"""How far a job is: told to who listens, and not more often than people can read."""

from __future__ import annotations

import time

import pytest

from vkbench_worker.progress import heard_by, stage
from vkbench_worker.protocol import Stage


def test_stages_are_heard_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    told: list[Stage] = []
    loading = stage("loading x")
    loading(1, 9)  # nobody listens
    with heard_by(told.append):
        for done in range(6):
            loading(done, 9)
            now += 0.1
        loading(9, 9)
    loading(9, 9)
    assert told == [Stage(what="loading x", done=done, total=9) for done in (0, 3, 9)]
