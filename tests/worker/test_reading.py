"""Which files of weights a runner may read: those of its jobs, and never others' of strangers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from vkbench.job import Arm, Job, Mode, Outcome, Pair, Source
from vkbench.result import Result
from vkbench.settings import Settings
from vkbench_shaders.bundle import packaged_sha
from vkbench_worker.containment.support import Support
from vkbench_worker.owner.reading import first_group
from vkbench_worker.owner.supervisor import Supervisor

NAMED, OTHER = "read/f32/n1/file=named", "read/f32/n1/file=other"
STRANGER = "ab" * 32


@pytest.fixture
def weights(planted: Settings) -> Mapping[str, Source]:
    """Two files of weights."""
    planted.data.mkdir(parents=True, exist_ok=True)
    paths = {name: planted.data / name for name in ("named", "other")}
    for path in paths.values():
        path.write_text("weights")
    return {name: Source(path=str(path), tensor="x") for name, path in paths.items()}


def job(number: int, act: str, source: Source | None = None) -> Job:
    plain = Job(id=number, token=1, case=act, mode=Mode.CORRECTNESS, limit_seconds=20)
    return replace(plain, source=source)


def of_theirs(each: Job) -> Job:
    return replace(each, bundle=STRANGER)


def against_theirs(each: Job) -> Job:
    return replace(each, pair=Pair(old=Arm(name=STRANGER), metric="hot"))


def run(supervisor: Supervisor, *work: Job) -> list[Result]:
    results: list[Result] = []
    supervisor.run(work, results.append)
    return results


def outcomes(results: list[Result]) -> list[Outcome]:
    return [result.outcome for result in results]


def test_a_runner_may_read_the_weights_of_its_jobs_alone(
    kernel: Support, supervisor: Supervisor, weights: Mapping[str, Source]
) -> None:
    results = run(supervisor, job(1, NAMED, weights["named"]), job(2, OTHER))
    assert outcomes(results) == [Outcome.PASSED, Outcome.CRASHED]
    assert "Permission denied" in results[1].reason


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("theirs", [of_theirs, against_theirs])
def test_kernels_of_others_read_no_weights_of_earlier_jobs(
    kernel: Support,
    supervisor: Supervisor,
    weights: Mapping[str, Source],
    theirs: Callable[[Job], Job],
    together: bool,
) -> None:
    work = [
        job(1, NAMED, weights["named"]),
        theirs(job(2, NAMED)),
        theirs(job(3, OTHER, weights["other"])),
        job(4, NAMED, weights["named"]),
    ]
    calls = [work] if together else [[one] for one in work]
    results = [result for call in calls for result in run(supervisor, *call)]
    assert outcomes(results) == [Outcome.PASSED, Outcome.CRASHED, Outcome.PASSED, Outcome.PASSED]
    assert "Permission denied" in results[1].reason


def test_a_file_starts_a_runner_of_the_packaged_kernels_once(
    supervisor: Supervisor, weights: Mapping[str, Source]
) -> None:
    pids = []
    for number, name in enumerate([None, "named", None, "other", "named", None, "other"], 1):
        source = weights[name] if name else None
        assert outcomes(run(supervisor, job(number, "sleep/f32/n1", source))) == [Outcome.PASSED]
        pids.append(supervisor.runner_pid)
    assert len(set(pids)) == 3
    assert pids[1] == pids[2]
    assert len(set(pids[3:])) == 1


def test_jobs_of_others_share_a_runner_where_they_read_the_same(
    weights: Mapping[str, Source],
) -> None:
    named, other = weights["named"], weights["other"]
    groups = [
        [job(1, NAMED, named), job(2, NAMED), replace(job(3, NAMED, other), bundle=packaged_sha())],
        [of_theirs(job(4, NAMED, None)), of_theirs(job(5, NAMED, None))],
        [of_theirs(job(6, NAMED, named)), of_theirs(job(7, NAMED, replace(named, tensor="y")))],
        [of_theirs(job(8, NAMED, other))],
        [job(9, NAMED)],
    ]
    waiting = [each for group in groups for each in group]
    before = frozenset({"/earlier"})
    may_read = []
    for expected in groups:
        group = first_group(waiting)
        assert group.jobs == expected
        may_read.append(group.readable(before))
        waiting = waiting[len(expected) :]
    ours = {"/earlier", named.path, other.path}
    assert may_read == [ours, set(), {named.path}, {other.path}, before]
