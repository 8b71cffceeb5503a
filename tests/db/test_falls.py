"""Alerts of ratios that fell: told through the channels of regressions, once each has heard."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from databases import Lab
from listener import Listener, listening, settings_for
from planted_peers import CASE, compare
from vkbench.settings import Settings
from vkbench_scheduler.watch import falls
from vkbench_scheduler.watch.timetable import steps, telling

OURS = 2e-3


def history(lab: Lab, theirs: float, ours: float = OURS) -> str:
    """A steady history of comparisons, and a last one."""
    lab.now = time.time() - 3600
    device = lab.add_device()
    for each in (*[(4e-3, OURS)] * 4, (theirs, ours)):
        lab.now += 60
        compare(lab, device, *each, peer="ggml")
        falls.look(lab.database, lab.now)
    return device


def told(lab: Lab, listener: Listener, after: float = 0.0) -> list[dict[str, Any]]:
    """All messages, once the step was taken."""
    falls.step(lab.database, settings_for(listener), lab.now + after)
    return [json.loads(body) for _, body in listener.heard]


def test_channels_hear_once_that_a_peer_became_faster(lab: Lab) -> None:
    device = history(lab, 3e-3)
    with listening() as listener:
        told(lab, listener)
        [message] = told(lab, listener)
    data = message["data"]
    assert message["type"] == "peer.fell"
    assert (data["case"], data["peer"], data["device"]) == (CASE, "ggml", device)
    assert (data["ratio"], data["ratio_before"]) == (pytest.approx(1.5), pytest.approx(2))
    assert (data["ours_seconds"], data["ours_seconds_before"]) == (OURS, OURS)
    assert (data["theirs_seconds"], data["theirs_seconds_before"]) == (3e-3, 4e-3)
    said = "Ours takes 2.000 ms, 2.000 before; ggml 3.000 ms, 4.000 before: our own time did not"
    assert said in data["summary"]


def test_a_channel_that_fails_hears_the_same_message_again(lab: Lab) -> None:
    history(lab, 3e-3)
    with listening(500) as listener:
        for _ in range(3):
            found = told(lab, listener)
    assert [message["id"] for message in found] == [found[0]["id"]] * 2


def test_it_says_where_our_own_time_rose(lab: Lab) -> None:
    history(lab, 4e-3, ours=3e-3)
    with listening() as listener:
        [message] = told(lab, listener)
    assert "our time rose" in message["data"]["summary"]


def test_nobody_hears_of_what_stays(lab: Lab) -> None:
    history(lab, 3.96e-3)
    with listening() as listener:
        assert told(lab, listener) == []


def test_nobody_hears_of_what_no_channel_took_for_a_day(lab: Lab) -> None:
    history(lab, 3e-3)
    with listening() as listener:
        assert told(lab, listener, after=2 * falls.PATIENCE_SECONDS) == []


def test_a_scheduler_looks_and_tells() -> None:
    assert falls.look in [step.act for step in steps()]
    assert "falls" in [step.name for step in telling(Settings())]
