"""A bisection in a fleet: the scheduler begins its steps, and ends it by what comes back."""

import time
from hashlib import sha256

import pytest

from cluster import Lab, until
from vkbench.job import JobState
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.bisections import Bisection, Candidate
from vkbench_scheduler.bundles import keep
from vkbench_shaders.bundle import Bundle, Entry, manifest_text


def found(lab: Lab, number: int) -> Bisection:
    with lab.database.reading() as tx:
        return bisections.find(tx, number)


def planted(name: str) -> Bundle:
    sha = sha256(name.encode()).hexdigest()
    entry = Entry(
        key=name,
        module=name,
        entry=name,
        arguments=(),
        sha256=sha,
        bytes=len(name),
        local_size=None,
        capabilities=(),
    )
    return Bundle(
        text=manifest_text("1", name, (entry,), {}), blobs={sha: name.encode()}, name=name
    )


@pytest.mark.timeout(300)
def test_the_scheduler_takes_it_to_its_end(lab: Lab) -> None:
    """The planted runner ends at each pair, so that all bundles seem to crash."""
    for _ in range(2):
        lab.start_scheduler()
    lab.start_worker("a")
    bundles = [planted(letter) for letter in "abc"]
    with lab.database.transaction() as tx:
        for bundle in bundles:
            keep(tx, bundle, 1.0)
        number = bisections.create(
            tx,
            bisections.NewBisection(
                devices=[lab.key("a")],
                case="copy/f32/n64",
                variant="auto",
                metric="hot",
                measure_seconds=0.1,
                candidates=[Candidate(sha=each.sha, label=each.name) for each in bundles],
                user="",
            ),
            now=time.time(),
        )
    until(lambda: found(lab, number).state != bisections.RUNNING, "it does not end", 60)
    ended = found(lab, number)
    assert ended.state == "found"
    assert ended.note == (
        "b is the first bad one: failed: 3 tries crashed: exit 1: no such pairs here; "
        "no pair ran, so that a may fail too"
    )
    assert {(step.position, step.verdict) for step in ended.steps} == {(1, "failed"), (2, "failed")}
    step = ended.steps[0]
    assert set(lab.counts(step.run)) == {
        JobState.FAILED,
        JobState.CANCELLED,
    }
