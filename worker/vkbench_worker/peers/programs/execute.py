"""A job becomes a result of a program that a user declared, by the adapter that it names."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from vkbench import decoding
from vkbench.case import is_model
from vkbench.errors import VkbenchError
from vkbench.job import Job, Outcome
from vkbench.programs.declaration import check_program
from vkbench.programs.program import GOOGLE, LINES, NVBENCH, Program
from vkbench.result import Result
from vkbench.settings import settings
from vkbench_worker.ended import result_of_end
from vkbench_worker.owner.child import NoAnswer
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.programs.benchmarks import GoogleBenchmark, Nvbench
from vkbench_worker.peers.programs.lines import Lines
from vkbench_worker.phases import record_phases, telemetry
from vkbench_worker.protocol import Ready


class Adapter(Protocol):
    """How a kind of program is asked."""

    def __call__(self, job: Job, blank: Result) -> Result:
        """Do a job, of which the blank result says what is known before."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


ADAPTERS: Final[Mapping[str, Callable[[Program, Ready, Path, Path], Adapter]]] = {
    LINES: Lines,
    GOOGLE: GoogleBenchmark,
    NVBENCH: Nvbench,
}


class DeclaredProgram:
    """A build of a program, which answers jobs on the device of a runner."""

    def __init__(self, text: str, ready: Ready, folder: str) -> None:
        program = check_program(decoding.decode(text, Program))
        place = hashlib.sha256(f"{ready.facts.key} {folder}".encode()).hexdigest()[:16]
        scratch = settings().cache / "programs" / place
        shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
        scratch.mkdir(parents=True, mode=0o700)
        self._ready = ready
        self._adapter = ADAPTERS[program.adapter](program, ready, Path(folder), scratch)

    def __call__(self, job: Job) -> Result:
        """Judge and time a case; whatever happens is in the result."""
        began, facts = time.monotonic(), self._ready.facts
        blank = result_of_end(job, Outcome.ERROR, "", began)
        blank = replace(blank, device=facts.key, environment=self._ready.environment.hash)
        with record_phases() as spent:
            result = self._do_job(job, blank)
        figures = {**result.telemetry, **telemetry(spent)}
        return replace(result, seconds=time.monotonic() - began, telemetry=figures)

    def _do_job(self, job: Job, blank: Result) -> Result:
        try:
            if is_model(job.case):
                raise CannotDo("whole models are asked of ggml alone")
            return self._adapter(job, blank)
        except CannotDo as error:
            return replace(blank, outcome=Outcome.SKIPPED, reason=str(error))
        except NoAnswer as error:
            self._adapter.close()
            return replace(blank, outcome=error.outcome, reason=str(error))
        except (VkbenchError, ValueError, OSError) as error:
            self._adapter.close()
            return replace(blank, reason=" ".join(str(error).split()))

    def close(self) -> None:
        """End the program, if it was started."""
        self._adapter.close()
