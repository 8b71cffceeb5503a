"""Has fresh runners tell how long a driver compiles a kernel, each of them with empty caches.

A driver keeps what it compiled: in files, in the cache of pipelines, and in its own memory. So each
sample is taken by a process of its own, beside the runner that has the device's lock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from vkbench.job import Job, Outcome
from vkbench.result import Result, unpack_samples
from vkbench_worker.owner.reading import first_group
from vkbench_worker.owner.runner_process import START_SECONDS, RunnerProcess
from vkbench_worker.phases import sum_phases
from vkbench_worker.timing.summary import Sampling, timing_of

SAMPLES: Final = 5

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
    samples = [unpack_samples(answer.timings[0].samples)[0] for answer in answers]
    first = answers[0].timings[0]
    phases = sum_phases(answer.telemetry for answer in answers)
    sampling = Sampling(metric=first.metric, launches=1, clock=first.clock)
    return replace(
        answers[-1],
        started=answers[0].started,
        seconds=sum(answer.seconds for answer in answers),
        timings=(timing_of(samples, sampling),),
        telemetry={**answers[-1].telemetry, **phases},
    )


def _ask_one(job: Job, begin: Begin, is_over: Callable[[], bool]) -> Result | None:
    with TemporaryDirectory(prefix="vkbench-caches-") as folder:
        Path(folder, "tmp").mkdir()
        runner = begin(Path(folder))
        runner.admit(first_group([job]))
        try:
            runner.start(time.monotonic() + START_SECONDS)
            runner.send([job])
            return runner.answer(job, is_over)
        finally:
            runner.close()
