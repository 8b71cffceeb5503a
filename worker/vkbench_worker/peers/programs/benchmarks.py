"""Runs benchmarks of Google Benchmark's library and of nvbench, a case at a time.

A program of its own for each case: `--benchmark_filter`, or `--benchmark` and its axes, choose one,
and JSON says how it went. Nothing of its outputs is seen, so that nothing is judged.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import Final

from vkbench.case import program_of
from vkbench.configuration import text_of
from vkbench.device import NVIDIA
from vkbench.job import Job, Mode, Outcome
from vkbench.programs.program import Program
from vkbench.result import Result
from vkbench_shaders.catalogue import problem
from vkbench_worker.owner.child import NoAnswer
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.printed import Printed
from vkbench_worker.peers.programs.benchmark_files import (
    GOOGLE,
    NVBENCH,
    NamedTest,
    parse_google,
    parse_nvbench,
)
from vkbench_worker.peers.programs.contained import run_to_the_end, start_program
from vkbench_worker.peers.programs.tensors import BadOutput, clear, read_plainly
from vkbench_worker.protocol import Ready
from vkbench_worker.timing.measure import few
from vkbench_worker.timing.summary import Sampling, timing_of

UNJUDGED: Final = "its outputs are not seen, and not judged"
REPETITIONS: Final = 10  # of a benchmark, each a sample
MOST_JSON: Final = 64 << 20  # bytes
_WRITTEN: Final = "benchmark.json"
_SUFFIXES: Final = r"(/(real_time|process_time|manual_time|[a-z_]+:[^/]*))*"


class _Benchmarks:
    """A program of a build that runs benchmarks and writes JSON."""

    _kind: str
    _parse: Callable[[Printed, str], list[NamedTest]]

    def __init__(self, program: Program, ready: Ready, folder: Path, scratch: Path) -> None:
        self._program, self._ready = program, ready
        self._folder, self._scratch = folder, scratch

    def __call__(self, job: Job, blank: Result) -> Result:
        """Time a case; NoAnswer if the program does not do its part."""
        if job.mode is not Mode.PERFORMANCE:
            raise CannotDo(f"a program of {self._kind} times, and shows no outputs to be checked")
        deadline = time.monotonic() + job.limit_seconds
        try:
            test = self._time_case(job, deadline)
        finally:
            clear(self._scratch)
        if test.error:
            outcome = Outcome.SKIPPED if test.is_skipped else Outcome.ERROR
            return replace(blank, outcome=outcome, reason=f"the benchmark says: {test.error}")
        posed = None if program_of(job.case) else problem(job.case)
        sampling = Sampling(
            metric="hot",
            launches=1,
            clock=test.clock,
            bytes_moved=posed.bytes_moved if posed else 0,
            flops=posed.flops if posed else 0,
            warnings=(UNJUDGED, *few(len(test.samples))),
        )
        return replace(
            blank,
            outcome=Outcome.PASSED,
            settings=text_of(test.settings),
            timings=(timing_of(test.samples, sampling),),
        )

    def close(self) -> None:
        """End nothing: each case has a process of its own, which ends with it."""

    def _time_case(self, job: Job, deadline: float) -> NamedTest:
        """What the benchmark of a case says."""
        words = [*self._program.run, *self._options(job, deadline)]
        self._run(words, deadline)
        file = self._scratch / _WRITTEN
        try:
            text = read_plainly(file, MOST_JSON).decode(errors="replace") if file.exists() else ""
        except BadOutput as error:
            raise NoAnswer(Outcome.ERROR, f"the program's output is refused: {error}") from error
        printed = Printed(Path(_WRITTEN), self._kind)
        tests = type(self)._parse(printed, text) if text.strip() else []
        if not tests:
            raise CannotDo(f"the program has no benchmark {job.case}")
        if len(tests) > 1:
            raise NoAnswer(Outcome.ERROR, f"{len(tests)} benchmarks are called {job.case}")
        return tests[0]

    def _run(self, words: Sequence[str], deadline: float) -> list[str]:
        child = start_program(words, self._folder, self._scratch, self._ready.facts)
        return run_to_the_end(child, deadline)

    def _options(self, job: Job, deadline: float) -> Sequence[str]:
        raise NotImplementedError


class GoogleBenchmark(_Benchmarks):
    """A program of Google Benchmark's library."""

    _kind = GOOGLE
    _parse = staticmethod(parse_google)

    def _options(self, job: Job, deadline: float) -> Sequence[str]:
        own = program_of(job.case)
        name = _escape(job.case.partition(":")[2] if own else job.case)
        chosen = f"^{name}$" if own else f"^(BM_)?{name}{_SUFFIXES}$"
        seconds = job.measure_seconds / REPETITIONS
        return (
            f"--benchmark_filter={chosen}",
            "--benchmark_format=json",
            f"--benchmark_out={self._scratch / _WRITTEN}",
            "--benchmark_out_format=json",
            f"--benchmark_repetitions={REPETITIONS}",
            f"--benchmark_min_time={seconds:.6f}",
            "--benchmark_report_aggregates_only=false",
        )


class Nvbench(_Benchmarks):
    """A program of nvbench, which times on GPUs of NVIDIA alone."""

    _kind = NVBENCH
    _parse = staticmethod(parse_nvbench)

    def __call__(self, job: Job, blank: Result) -> Result:
        """Time a case on the one device that the program sees."""
        facts = self._ready.facts
        if facts.vendor_id != NVIDIA:
            raise CannotDo(f"nvbench times on GPUs of NVIDIA, and {facts.name} is none")
        return super().__call__(job, blank)

    def _options(self, job: Job, deadline: float) -> Sequence[str]:
        own = program_of(job.case)
        name, *axes = job.case.partition(":")[2].split("/") if own else [job.case]
        chosen = ["--benchmark", name]
        for axis in axes:
            chosen += ["--axis", spell_axis(axis)]
        return (
            *chosen,
            *("--devices", "0"),
            *("--json", str(self._scratch / _WRITTEN)),
            *("--timeout", str(max(1, ceil(deadline - time.monotonic())))),
            *("--min-time", f"{job.measure_seconds:.6f}"),
        )


def spell_axis(axis: str) -> str:
    """An axis of a case as nvbench takes it: N=pow2:6 is N[pow2]=6."""
    name, _, value = axis.partition("=")
    return f"{name}[pow2]={value[5:]}" if value.startswith("pow2:") else axis


def _escape(name: str) -> str:
    """A name as a regular expression of POSIX, PCRE and C++ alike."""
    return re.sub(r"([][.*+?(){}|^$\\])", r"\\\1", name)
