"""Has fresh runners tell what a driver makes of a kernel, each of them with empty caches.

A driver keeps what it compiled: in files, in the cache of pipelines, and in its own memory. So each
sample is taken by a process of its own, beside the runner that has the device's lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from vkbench.job import Job, Outcome
from vkbench.result import Result, Statistic, Timing, unpack_samples
from vkbench_worker.owner.reading import first_group
from vkbench_worker.owner.runner_process import START_SECONDS, RunnerProcess
from vkbench_worker.phases import sum_phases
from vkbench_worker.timing.summary import Sampling, timing_of

SAMPLES: Final = 5
FILES: Final = "files of the driver"
# Drivers compress caches: of NVIDIA's, samples of one kernel were up to 0.03 % apart.
_CACHES_VARY: Final = 1e-3
_INDEXES: Final = ("index", "marker")  # of Mesa's cache: as large however little is in it

Begin = Callable[[Path], RunnerProcess]  # a runner whose driver keeps its caches in this folder


def ask_fresh_runners(job: Job, begin: Begin, is_over: Callable[[], bool]) -> Result | None:
    """The result of a job of compiling; None once the job is over for whoever sent it.

    Raises RunnerFailed, or NoAnswer.
    """
    answers: list[Result] = []
    while len(answers) < SAMPLES:
        answer = _ask_one(job, begin, is_over)
        if answer is None or answer.outcome is not Outcome.PASSED:
            return answer
        answers.append(answer)
    phases = sum_phases(answer.telemetry for answer in answers)
    return replace(
        answers[-1],
        started=answers[0].started,
        seconds=sum(answer.seconds for answer in answers),
        timings=tuple(_merge_timings(answers)),
        statistics=tuple(_merge_statistics(answers)),
        telemetry={**answers[-1].telemetry, **phases},
    )


def measure_files(folder: Path) -> Statistic:
    """How much a driver stored in a folder that was empty, the kernels that probe it included."""
    size = 0
    for path in folder.rglob("*"):
        if path.parent != folder and path.name not in _INDEXES:
            with suppress(OSError):  # the driver may be renaming it
                size += path.stat().st_size if path.is_file() else 0
    if not size:
        return Statistic(name=FILES, value=None, note="the driver stored nothing")
    return Statistic(name=FILES, value=float(size), unit="bytes")


def _merge_timings(answers: Sequence[Result]) -> Iterator[Timing]:
    """A timing of each metric, of the samples of all runners."""
    for first in answers[0].timings:
        samples = [
            sample
            for answer in answers
            for timing in answer.timings
            if timing.metric == first.metric
            for sample in unpack_samples(timing.samples)
        ]
        yield timing_of(samples, Sampling(metric=first.metric, launches=1, clock=first.clock))


def _merge_statistics(answers: Sequence[Result]) -> Iterator[Statistic]:
    """What all runners told; sizes of caches, and what is not the same for all, are not exact."""
    for first in answers[0].statistics:
        alike = [
            statistic
            for answer in answers
            for statistic in answer.statistics
            if statistic.name == first.name and statistic.value is not None
        ]
        if not alike:
            yield first
            continue
        values = [statistic.value or 0.0 for statistic in alike]
        middle = median(values)
        least = _CACHES_VARY * middle if alike[0].unit == "bytes" else 0.0
        spread = max(least, *(abs(value - middle) for value in values))
        is_exact = not spread and alike[0].spread is None
        yield replace(alike[0], value=middle, spread=None if is_exact else spread)


def _ask_one(job: Job, begin: Begin, is_over: Callable[[], bool]) -> Result | None:
    with TemporaryDirectory(prefix="vkbench-caches-") as folder:
        for name in ("tmp", "cache"):
            Path(folder, name).mkdir()
        runner = begin(Path(folder))
        runner.admit(first_group([job]))
        try:
            runner.start(time.monotonic() + START_SECONDS)
            runner.send([job])
            answer = runner.answer(job, is_over)
            if answer is None or answer.outcome is not Outcome.PASSED:
                return answer
            runner.finish()
            return replace(answer, statistics=(*answer.statistics, measure_files(Path(folder))))
        finally:
            runner.close()
