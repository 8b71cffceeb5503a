"""Asks a program that keeps running for one case a line of JSON; it answers by one, too.

A case of the catalogue comes with files of its inputs. Where the program writes the outputs, our
reference judges them: once before the timing, and again what the timing left. Where it writes none,
its own verdict counts, and the result says so.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vkbench.case import program_of
from vkbench.job import Job, Mode, Outcome
from vkbench.programs.program import Program
from vkbench.result import Result, Verdict
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_worker.judging.judge import Images, judge
from vkbench_worker.judging.preparation import Prepared
from vkbench_worker.judging.shelf import SHELF
from vkbench_worker.owner.child import Babble, Child, Gone, NoAnswer, Silence
from vkbench_worker.peers.programs.answer import (
    Answer,
    BadAnswer,
    own_verdict,
    read_answer,
    timing_told,
)
from vkbench_worker.peers.programs.contained import start_program
from vkbench_worker.peers.programs.tensors import BadOutput, Tensors, clear
from vkbench_worker.protocol import Ready


class Lines:
    """A program of a build that answers lines."""

    def __init__(self, program: Program, ready: Ready, folder: Path, scratch: Path) -> None:
        self._program, self._ready = program, ready
        self._folder, self._scratch = folder, scratch
        self._child: Child | None = None

    def __call__(self, job: Job, blank: Result) -> Result:
        """Judge and time a case; NoAnswer if the program does not do its part."""
        try:
            if program_of(job.case):
                return self._do_own_case(job, blank)
            return self._do_case(job, blank)
        except (BadAnswer, BadOutput) as error:
            raise NoAnswer(Outcome.ERROR, f"the program's answer is refused: {error}") from error
        finally:
            clear(self._scratch)

    def close(self) -> None:
        """End the program, if it was started."""
        if self._child:
            self._child.close()
            self._child = None

    def _do_own_case(self, job: Job, blank: Result) -> Result:
        """A case that only the program knows, by its own verdict."""
        name = job.case.partition(":")[2]
        answer = self._ask(job, name, _seconds_of(job))
        return _result_of(job, blank, answer, problem=None)

    def _do_case(self, job: Job, blank: Result) -> Result:
        """A case of the catalogue, judged by our reference if the program writes its outputs."""
        posed = problem(job.case)
        path = arithmetic_of(posed, self._program)
        prepared = SHELF.get(posed, job.source, path)
        tensors = Tensors(posed, self._scratch)
        about = tensors.describe()
        answers, images = [], []
        for seconds in (0.0, _seconds_of(job)):
            tensors.write_inputs(prepared.storages)
            answers.append(answer := self._ask(job, job.case, seconds, about))
            if answer.outcome is not Outcome.PASSED:
                return _result_of(job, blank, answer, problem=posed)
            images.append(tensors.take_outputs())
        first, second = images
        if first is None and second is None:
            return _result_of(job, blank, answers[-1], problem=posed)
        if first is None or second is None:
            raise BadOutput("the outputs were written once, and were asked for twice")
        verdict = judge_outputs(posed, path, prepared, first, second)
        if not verdict.passed:
            return replace(blank, outcome=Outcome.WRONG, reason=verdict.reason, verdict=verdict)
        result = _result_of(job, blank, answers[-1], problem=posed, judged=True)
        return replace(result, verdict=verdict)

    def _ask(
        self, job: Job, case: str, seconds: float, about: Mapping[str, Any] | None = None
    ) -> Answer:
        facts = self._ready.facts
        device = {"index": facts.index, "name": facts.name, "uuid": facts.uuid, "type": facts.type}
        request = {"case": case, "seconds": seconds, "device": device, **(about or {})}
        child = self._child = self._child or start_program(
            self._program.run, self._folder, self._scratch, facts
        )
        if child.has_line():
            raise BadAnswer("it printed a line before it was asked")
        child.send(json.dumps(request).encode() + b"\n")
        began = time.monotonic()
        try:
            line = child.line(began + job.limit_seconds)
        except Silence:
            reason = f"no answer within {job.limit_seconds:g} s"
            raise NoAnswer(Outcome.TIMED_OUT, reason) from None
        except Gone:
            outcome, reason = child.cause_of_death()
            raise NoAnswer(outcome, f"the program ended without an answer: {reason}") from None
        except Babble as error:
            raise BadAnswer(f"it is {error}") from error
        return read_answer(line, time.monotonic() - began)


def arithmetic_of(posed: Problem, program: Program) -> str:
    """The arithmetic whose limits judge a program: what it declares, for products of factors."""
    plain = posed.kernel.variants_for(posed.types)[-1].arithmetic
    return program.arithmetic if program.arithmetic and posed.kernel.check.deviations else plain


def judge_outputs(
    posed: Problem, path: str, prepared: Prepared, first: Images, second: Images
) -> Verdict:
    """The verdict on what a program wrote at two times, both of which have to be right."""
    verdict = judge(posed, path, first, second, prepared.expected)
    if verdict.passed and not posed.kernel.check.deterministic:
        return judge(posed, path, second, first, prepared.expected)
    return verdict


def _result_of(
    job: Job, blank: Result, answer: Answer, *, problem: Problem | None, judged: bool = False
) -> Result:
    """What a program says of a case, as the result of a job."""
    is_verdict = answer.outcome in (Outcome.PASSED, Outcome.WRONG)
    verdict = own_verdict(answer) if is_verdict else None
    reason = verdict.reason if verdict else answer.reason
    result = replace(blank, outcome=answer.outcome, reason=reason, verdict=verdict)
    if answer.outcome is not Outcome.PASSED or job.mode is not Mode.PERFORMANCE:
        return result
    if not answer.samples:
        raise BadAnswer("it has no samples, and a timing was asked for")
    moved, flops = (problem.bytes_moved, problem.flops) if problem else (0, 0)
    timing = timing_told(answer, bytes_moved=moved, flops=flops, judged=judged)
    return replace(result, timings=(timing,))


def _seconds_of(job: Job) -> float:
    return job.measure_seconds if job.mode is Mode.PERFORMANCE else 0.0
