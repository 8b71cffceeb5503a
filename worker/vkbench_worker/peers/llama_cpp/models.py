"""Runs llama.cpp's llama-bench on a model's file: a prompt, or tokens about the one that we time.

The program is started for each visit, and a GPU's clock falls while it reads the model. So its
repetitions go on for as long as a clock takes to climb, and those before that count for nothing.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from statistics import median
from typing import Final

from vkbench.device import DeviceFacts
from vkbench.job import Job
from vkbench_shaders.models.cases import GENERATE, ModelCase, model_case
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.llama_bench_file import PeerTest, read_tests
from vkbench_worker.peers.llama_cpp.program import (
    PROCESSOR,
    TooSlow,
    backend_of,
    environ,
    run,
)
from vkbench_worker.runtime.load import WARM_SECONDS
from vkbench_worker.timing.stopping import LEAST_SAMPLES

BENCH: Final = "llama-bench"
REPETITIONS: Final = 5  # of a test on a processor, each a sample
_ALL_LAYERS: Final = "999"
_LISTED: Final = re.compile(r"\s+(\w+): (.*) \(\d+ MiB, \d+ MiB free\)")
_ANSWER_SECONDS: Final = 60.0  # to list devices
_GENERATION_SECONDS: Final = 0.1  # of a repetition: its start and its end cost the host a little
_CLIMB: Final = 5  # times as fast as when the clock was down
_MOST_REPETITIONS: Final = 5000


@dataclass(frozen=True, kw_only=True)
class _Repetitions:
    """How often a start of the program repeats how many tokens."""

    tokens: int  # that each generates; 1 of a prompt, which counts whole
    count: int


@dataclass(frozen=True, kw_only=True)
class TimedModel:
    """Samples that the program took of a model's case."""

    test: PeerTest
    samples: Sequence[float]  # seconds of a token, or of a prompt, once the clock was up
    tokens: int  # that each sample is the mean of


class LlamaBench:
    """The program on one device."""

    def __init__(self, facts: DeviceFacts, path: str, *, is_build: bool) -> None:
        """That of a peer may serve a processor's driver by its own code for processors."""
        self._is_cpu = facts.type == "cpu"  # no clock that has to climb
        self._path = path
        self._environ = environ(facts)
        listed = run([self._path, "--list-devices"], self._environ, _ANSWER_SECONDS)
        lines = filter(None, map(_LISTED.fullmatch, listed.splitlines()))
        backends = {line[1]: line[2] for line in lines}
        self.backend = backend_of(facts, backends if is_build else {**backends, PROCESSOR: ""})
        self._settled: dict[str, _Repetitions] = {}  # of the last visit to each case

    def time_model(self, job: Job, end: float) -> TimedModel:
        """A model's case on a GPU whose clock is up; it ends by a moment of the monotonic clock."""
        if job.source is None:
            raise CannotDo(f"{BENCH} needs the file of the model")
        case = model_case(job.case)
        repetitions = self._first(job)
        while True:
            test = self._run(job, case, repetitions, end - time.monotonic())
            warm = test.seconds if self._is_cpu else _while_up(test.seconds)
            if len(warm) >= LEAST_SAMPLES:
                tokens = repetitions.tokens
                self._settled[job.case] = _until_up(tokens, median(warm), job.measure_seconds)
                samples = [seconds / tokens for seconds in warm]
                return TimedModel(test=test, samples=samples, tokens=tokens)
            fastest = test.seconds[-1] / repetitions.tokens / _CLIMB
            tokens = _tokens(case, fastest)
            repetitions = _until_up(tokens, tokens * fastest, job.measure_seconds)

    def _first(self, job: Job) -> _Repetitions:
        """Repetitions of a first start: few, unless an earlier visit told how long they take."""
        if self._is_cpu:
            return _Repetitions(tokens=1, count=REPETITIONS)
        return self._settled.get(job.case) or _Repetitions(tokens=1, count=1)

    def _run(
        self, job: Job, case: ModelCase, repetitions: _Repetitions, seconds: float
    ) -> PeerTest:
        assert job.source
        if seconds <= 0:
            raise TooSlow(f"{BENCH} did not bring the clock up within {job.limit_seconds:g} s")
        tests = (*self._test(case, repetitions.tokens), "-r", str(repetitions.count))
        command = [self._path, "-m", job.source.path, *tests, "-o", "json"]
        answer = run(command, self._environ, seconds)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, f"{BENCH}.json")
            file.write_text(answer)
            [test] = read_tests(file)
        return test

    def _test(self, case: ModelCase, tokens: int) -> Sequence[str]:
        """The options of a case: tokens of which ours, the last of a generation, is the middle."""
        if case.batch > 1:
            raise CannotDo(f"{BENCH} has no batch of sequences")
        if case.context:
            raise CannotDo(f"{BENCH} has caches of the tokens it reads, and of no other size")
        about = ("-p", "0", "-n", str(tokens), "-d", str(case.tokens - 1 - tokens // 2))
        what = about if case.phase == GENERATE else ("-p", str(case.tokens), "-n", "0")
        on_gpu = self.backend != PROCESSOR
        where = ("-ngl", _ALL_LAYERS, "-dev", self.backend) if on_gpu else ("-ngl", "0")
        return (*what, "-ctk", case.cache, "-ctv", case.cache, *where)


def _while_up(seconds: Sequence[float]) -> Sequence[float]:
    """The repetitions that began when the device had been under load for a whole warm-up."""
    load = 0.0
    for place, repetition in enumerate(seconds):
        if load >= WARM_SECONDS:
            return seconds[place:]
        load += repetition
    return ()


def _tokens(case: ModelCase, seconds: float) -> int:
    """How many tokens of so many seconds a repetition has: as many before ours as behind it."""
    if case.phase != GENERATE:
        return 1
    return 2 * min(ceil(_GENERATION_SECONDS / seconds) // 2, case.tokens - 1) + 1


def _until_up(tokens: int, seconds: float, measured: float) -> _Repetitions:
    """Repetitions of so many seconds each that warm a device up, and are then sampled."""
    count = ceil((WARM_SECONDS + measured) / seconds) + LEAST_SAMPLES
    return _Repetitions(tokens=tokens, count=min(count, _MOST_REPETITIONS))
