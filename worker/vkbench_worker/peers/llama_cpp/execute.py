"""A job becomes a result of ggml: operations by its C API, judged and timed as any library's.

Whole models are timed by llama-bench, which judges nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Final

from vkbench.case import is_model, program_of
from vkbench.configuration import text_of
from vkbench.errors import VkbenchError
from vkbench.job import Job, Outcome
from vkbench.result import HOT, Result, Timing
from vkbench.settings import Settings
from vkbench_shaders.bundle import packaged
from vkbench_worker.ended import result_of_end
from vkbench_worker.peers.device import PeerDevice
from vkbench_worker.peers.execute import execute_peer
from vkbench_worker.peers.kept import KeptBench
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.api import PEER
from vkbench_worker.peers.llama_cpp.arrays import GgmlMemory
from vkbench_worker.peers.llama_cpp.gauge import make_gauge
from vkbench_worker.peers.llama_cpp.ggml_library import GgmlLibrary
from vkbench_worker.peers.llama_cpp.models import BENCH, LlamaBench
from vkbench_worker.peers.llama_cpp.own_cases import pose, tell_judge
from vkbench_worker.peers.llama_cpp.program import Died, TooSlow, program
from vkbench_worker.protocol import Ready
from vkbench_worker.runtime.gauge import keeps_memory_clock
from vkbench_worker.timing.measure import few
from vkbench_worker.timing.summary import Sampling, timing_of

SAID_OF_MODELS: Final = "timed by llama-bench, by the host's clock, and not judged"


class Ggml:
    """llama.cpp's libraries and programs on the device of a runner."""

    def __init__(
        self, ready: Ready, settings: Settings, kept: KeptBench, *, build: str = ""
    ) -> None:
        """Those of this host, as its settings name them, or those in a build's folder."""
        self._ready, self._kept, self._build = ready, kept, build
        self._settings = replace(settings, ggml=build) if build else settings

    @cached_property
    def _library(self) -> GgmlLibrary:
        # A build is held against others of it, and a peer against our whole operation.
        twins = 1 if self._build else 2
        return GgmlLibrary(self._ready.facts, self._settings.ggml, twins=twins)

    @cached_property
    def _device(self) -> PeerDevice[GgmlMemory]:
        facts, gauge = self._ready.facts, None
        if keeps_memory_clock(facts):
            with suppress(CannotDo):
                gauge = make_gauge(self._library)
        return PeerDevice(self._library, facts, self._ready.environment, gauge)

    @cached_property
    def _bench(self) -> LlamaBench:
        try:
            path = program(BENCH, self._settings)
        except CannotDo:
            if self._build:
                raise CannotDo(f"this build has no {BENCH}, which runs whole models") from None
            raise
        return LlamaBench(self._ready.facts, path, is_build=bool(self._build))

    def __call__(self, job: Job) -> Result:
        """Judge and time a case within the job's limit; what cannot be done is in the result."""
        began = time.monotonic()
        try:
            if is_model(job.case):
                return self._of_model(job, began)
            if program_of(job.case):
                return self._of_own_case(job)
            return execute_peer(self._library, self._device, packaged(), job, kept=self._kept)
        except CannotDo as error:
            crashed = self._build and isinstance(error, Died)
            outcome = Outcome.CRASHED if crashed else Outcome.SKIPPED
            return replace(result_of_end(job, outcome, str(error), began), variant=PEER)
        except TooSlow as error:
            return replace(result_of_end(job, Outcome.TIMED_OUT, str(error), began), variant=PEER)
        except (VkbenchError, ValueError) as error:  # what the program prints makes no sense
            return replace(result_of_end(job, Outcome.ERROR, str(error), began), variant=PEER)

    def _of_own_case(self, job: Job) -> Result:
        posing = partial(pose, self._library)
        result = execute_peer(self._library, self._device, packaged(), job, posing, self._kept)
        return tell_judge(result, self._library)

    def _of_model(self, job: Job, began: float) -> Result:
        timed = self._bench.time_model(job, began + job.limit_seconds)
        settings = {**timed.test.settings, "backend": self._bench.backend}
        return replace(
            result_of_end(job, Outcome.PASSED, "", began),
            variant=PEER,
            settings=text_of(settings),
            timings=(_timing(timed.samples, timed.tokens, SAID_OF_MODELS),),
        )


def _timing(samples: Sequence[float], launches: int, warning: str) -> Timing:
    warnings = (warning, *few(len(samples)))
    how = Sampling(metric=HOT, launches=launches, clock="host", warnings=warnings)
    return timing_of(samples, how)
