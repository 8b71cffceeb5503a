"""A job becomes a peer's result: judged by the limits of a kernel of ours, and timed if right."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import TypeVar

from vkbench.configuration import text_of
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_shaders.launch import PackedLaunch
from vkbench_worker.judging.shelf import SHELF
from vkbench_worker.peers.device import PeerDevice
from vkbench_worker.peers.kept import CheckedBench, KeptBench
from vkbench_worker.peers.library import Library
from vkbench_worker.peers.table import path_of, row_of, working_format
from vkbench_worker.phases import closing_stack
from vkbench_worker.runner.execute import attempt
from vkbench_worker.runner.variants import LaunchPlan
from vkbench_worker.runtime.program import Program
from vkbench_worker.timing.bench import Bench
from vkbench_worker.timing.timed import check, time_work

M = TypeVar("M")


def execute_peer(
    library: Library[M],
    device: PeerDevice[M],
    bundle: Bundle,
    job: Job,
    pose: Callable[[str], Problem] = problem,
    kept: KeptBench | None = None,
) -> Result:
    """Check a case by a peer, and time it if it is right; whatever happens is in the result.

    A case that is none of the catalogue's is posed by another function. What `kept` has of the job
    was checked at its last visit.
    """
    benches = kept or KeptBench()

    def do_job(blank: Result) -> Result:
        posed = pose(job.case)
        row = row_of(posed, library)
        path = path_of(row, library, posed)
        prepared = SHELF.get(posed, job.source, path)
        if not library.repeats:
            posed = _let_bits_differ(posed)
        program = Program(code=b"", sha="", bindings=(), push_bytes=0, constants=(), problem=posed)
        packed = PackedLaunch(groups=(1, 1, 1), push=b"", constants=())
        plan = LaunchPlan(
            problem=posed, passes=[(program, packed)], scratch=(), counters=0, table=None
        )
        about = {"version": library.version}
        for name in row.converted:
            if (fmt := working_format(row, library, posed, name)) != posed.types[name]:
                about[name] = fmt
        result = replace(blank, variant=library.name, settings=text_of(about))

        def check_bench(stack: ExitStack) -> CheckedBench:
            bench = Bench(device, plan, prepared.storages, stack)
            return CheckedBench(bench=bench, judged=check(bench, path, prepared))

        with benches.have(job, check_bench) as checked, closing_stack() as stack:
            verdict = checked.judged.verdict
            if verdict.passed and job.mode is Mode.PERFORMANCE:
                timed = time_work(device, checked.bench, checked.judged, job, stack)
                verdict = timed.verdict
                result = replace(result, timings=timed.timings, telemetry=timed.telemetry)
        outcome = Outcome.PASSED if verdict.passed else Outcome.WRONG
        return replace(result, outcome=outcome, reason=verdict.reason, verdict=verdict)

    return attempt(device, bundle, job, do_job)


def _let_bits_differ(posed: Problem) -> Problem:
    """The problem, where outputs of two runs may differ, each within the limits."""
    check = replace(posed.kernel.check, deterministic=False)
    return replace(posed, kernel=replace(posed.kernel, check=check))
