"""What may be asked of a program's builds: cases of the catalogue, and an order to bisect."""

from __future__ import annotations

from collections.abc import Sequence

from vkbench.errors import UsageError
from vkbench.job import ArmKind, Mode
from vkbench.programs.build import Build
from vkbench.programs.program import GGML_VULKAN
from vkbench_db.upkeep.bisections import Candidate
from vkbench_scheduler.planning.selection import AUTO, Selection


def check_program(selection: Selection) -> None:
    """UsageError where a selection asks a program for what only vkbench's kernels have."""
    if not selection.program:
        return
    if selection.own or selection.weights:
        raise UsageError("--build runs cases of the catalogue: leave out --kernel-file and --gguf")
    if selection.model and not runs_models(selection.program):
        raise UsageError(f"{selection.program} runs no whole models: leave out --model")
    if selection.model and selection.mode is Mode.CORRECTNESS:
        raise UsageError("a build times whole models and judges none: leave out --mode")
    if selection.peers or selection.variant.casefold() != AUTO:
        raise UsageError("--build has no code paths or peers: leave out --variant and --peer")
    if selection.mode is Mode.BATCH:
        raise UsageError("--build is checked and timed: leave out --property")


def runs_models(program: str) -> bool:
    """Whether builds of a program may have what runs whole models: llama-bench."""
    return program == GGML_VULKAN.name


def candidates_of(builds: Sequence[Build]) -> list[Candidate]:
    """Builds in order as the candidates of a bisection; equal ones beside each other are one."""
    if len({build.program for build in builds}) > 1:
        raise UsageError("--builds are of several programs: name builds of one")
    candidates: list[Candidate] = []
    for build in builds:
        if not candidates or candidates[-1].sha != build.sha:
            label = build.name or build.sha[:12]
            candidates.append(Candidate(sha=build.sha, label=label, kind=ArmKind.BUILD))
    if len(candidates) < 2:
        raise UsageError("--builds needs two builds or more that differ, from good to bad")
    return candidates
