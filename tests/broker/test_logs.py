"""The number of a job finds its whole life in the logs of scheduler and worker."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from cluster import Lab, until

LOGS = ("scheduler", "worker-a")
LIFE = {"chunk_sent", "chunk_claimed", "job_ended", "results_recorded"}


def lines(lab: Lab) -> list[str]:
    return [line for name in LOGS for line in (lab.folder / f"{name}.log").read_text().splitlines()]


def fields(line: str, style: str) -> dict[str, Any]:
    """The event of a line, and its fields as text."""
    if style == "json":
        return {name: str(value) for name, value in json.loads(line).items()}
    event = line.split()[3]
    return {"event": event, **dict(re.findall(r"(\w+)=(\S+)", line))}


@pytest.mark.parametrize("style", ["text", "json"])
def test_a_jobs_life_can_be_followed(make_lab: Callable[..., Lab], style: str) -> None:
    lab = make_lab(log_format=style)
    lab.start_scheduler()
    lab.start_worker()
    run = lab.submit(["sleep/f32/n20"] * 3 + ["segfault/f32/n1"])
    lab.await_end(run)
    good, bad = lab.jobs(run)[1].id, lab.jobs(run)[3].id
    until(lambda: "results_recorded" in lines(lab)[-1] or "job_ended" in lines(lab)[-1], "silence")
    found = [fields(line, style) for line in lines(lab)]

    def life(job: int) -> list[dict[str, Any]]:
        return [one for one in found if str(job) in one.get("job", "").split(",")]

    assert {one["event"] for one in life(good)} == LIFE
    assert [one["outcome"] for one in life(bad) if one["event"] == "job_ended"] == ["crashed"] * 3
    assert {one["event"] for one in life(bad)} == {*LIFE, "job_failed"}
    for one in (*life(good), *life(bad)):
        assert one["device"] == lab.key("a")
        assert one["event"] == "results_recorded" or one["run"] == str(run)
