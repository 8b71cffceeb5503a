"""A job becomes a result of ggml: judged by its own program, and timed by it if that is content.

Whole models are timed by llama-bench, which judges nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from vkbench.case import is_model
from vkbench.configuration import text_of
from vkbench.errors import VkbenchError
from vkbench.job import Job, Outcome
from vkbench.result import HOT, Result, Timing
from vkbench.settings import Settings
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_worker.ended import ended
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.models import LlamaBench
from vkbench_worker.peers.llama_cpp.operations import PEER, Operation, operation_of
from vkbench_worker.peers.llama_cpp.program import TestBackendOps, Timed, TooSlow
from vkbench_worker.protocol import Ready
from vkbench_worker.timing.measure import few
from vkbench_worker.timing.summary import timing_of

SAID_OF_MODELS: Final = "timed by llama-bench, by the host's clock, and not judged"
LEAST_RUNS: Final = 3  # of the program in a visit: each is one sample
SAID: Final = "timed by test-backend-ops, by the host's clock, and judged by its own test"


class Ggml:
    """llama.cpp's programs on the device of a runner."""

    def __init__(self, ready: Ready, settings: Settings) -> None:
        self._facts, self._settings = ready.facts, settings
        self._right: tuple[int, int] | None = None  # id and token of the job judged last

    @cached_property
    def _program(self) -> TestBackendOps:
        return TestBackendOps(self._facts, self._settings)

    @cached_property
    def _bench(self) -> LlamaBench:
        return LlamaBench(self._facts, self._settings)

    def __call__(self, job: Job) -> Result:
        """Judge and time a case within the job's limit; what cannot be done is in the result."""
        began = time.monotonic()
        try:
            return self._of_model(job, began) if is_model(job.case) else self._done(job, began)
        except CannotDo as error:
            return replace(ended(job, Outcome.SKIPPED, str(error), began), variant=PEER)
        except TooSlow as error:
            return replace(ended(job, Outcome.TIMED_OUT, str(error), began), variant=PEER)
        except (VkbenchError, ValueError) as error:  # what the program prints makes no sense
            return replace(ended(job, Outcome.ERROR, str(error), began), variant=PEER)

    def _done(self, job: Job, began: float) -> Result:
        posed = problem(job.case)
        operation = self._program.numbered(operation_of(posed))
        end = began + job.limit_seconds
        if (job.id, job.token) != self._right:
            if wrong := self._program.complaint(operation, end - time.monotonic()):
                return replace(ended(job, Outcome.WRONG, wrong, began), variant=PEER)
            self._right = job.id, job.token
        found = self._timings(operation, job, end)
        told = {"build": found[0].build, "backend": self._program.backend, "op": operation.op}
        return replace(
            ended(job, Outcome.PASSED, "", began),
            variant=PEER,
            settings=text_of(told),
            timings=(_of_operation(found, posed),),
        )

    def _of_model(self, job: Job, began: float) -> Result:
        timed = self._bench.timed(job, began + job.limit_seconds)
        told = {**timed.test.settings, "backend": self._bench.backend}
        return replace(
            ended(job, Outcome.PASSED, "", began),
            variant=PEER,
            settings=text_of(told),
            timings=(_timing(timed.samples, timed.tokens, SAID_OF_MODELS),),
        )

    def _timings(self, operation: Operation, job: Job, end: float) -> Sequence[Timed]:
        """Several, unless one of them takes so long that others would not end in time."""
        found: list[Timed] = []
        began = time.monotonic()
        while True:
            found.append(self._program.timed(operation, end - time.monotonic()))
            now = time.monotonic()
            is_enough = len(found) >= LEAST_RUNS and now - began >= job.measure_seconds
            if is_enough or now + 2 * (now - began) / len(found) > end:
                return found


def _of_operation(found: Sequence[Timed], posed: Problem) -> Timing:
    timing = _timing([each.seconds for each in found], found[0].runs, SAID)
    return replace(timing, bytes_moved=posed.bytes_moved, flops=posed.flops)


def _timing(samples: Sequence[float], launches: int, said: str) -> Timing:
    return timing_of(
        samples,
        metric=HOT,
        launches=launches,
        stop="time",
        clock="host",
        bytes_moved=0,
        flops=0,
        warnings=(said, *few(len(samples))),
    )
