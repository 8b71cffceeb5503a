"""What may be asked of a program's builds: cases of the catalogue, and an order to bisect."""

from __future__ import annotations

from collections.abc import Sequence

from vkbench.case import program_of
from vkbench.errors import UsageError
from vkbench.job import PROPERTIES, ArmKind, Mode
from vkbench.process.git import Revision
from vkbench.programs.build import Build
from vkbench.programs.program import GGML_VULKAN
from vkbench_db.upkeep.bisections import Candidate, Source
from vkbench_scheduler.planning.selection import AUTO, Selection
from vkbench_shaders.catalogue import problem


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
    if selection.mode in PROPERTIES:
        raise UsageError("--build is checked and timed: leave out --property")


def cases_of_program(selection: Selection) -> list[str]:
    """The cases among those named that only the selection's program knows; each is one job.

    UsageError for those of another program.
    """
    own = [name for name in selection.cases if program_of(name)]
    for name in own:
        program = program_of(name)
        if not selection.program:
            raise UsageError(f"{name} is a case of the program {program}: give a --build of it")
        if program != selection.program:
            raise UsageError(
                f"{name} is a case of {program}, and the build is {selection.program}'s"
            )
    return own


def name_case(case: str, program: str, words: str) -> str:
    """The whole name of a case that a program is asked: the catalogue's, or one of its own."""
    owner = program_of(case)
    if owner and owner != program:
        raise UsageError(f"{case} is a case of {owner}, and {words} of another")
    return case if owner else problem(case).case.name


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
            candidates.append(Candidate(sha=build.sha, label=build.label, kind=ArmKind.BUILD))
    if len(candidates) < 2:
        raise UsageError("--builds needs two builds or more that differ, from good to bad")
    return candidates


def candidates_of_revisions(
    revisions: Sequence[Revision], good: Build, bad: Build, source: Source
) -> list[Candidate]:
    """Revisions in order as the candidates of a bisection, of which both ends are made already."""
    if len(revisions) < 2:
        raise UsageError("a bisection needs two revisions or more, from good to bad")
    if good.sha == bad.sha:
        raise UsageError(
            f"{revisions[0].name} and {revisions[-1].name} have the same files in their builds: "
            f"it is not {source.driver or source.program} that changed"
        )
    shas = [good.sha, *[""] * (len(revisions) - 2), bad.sha]
    return [
        Candidate(sha=sha, label=revision.label, kind=source.kind, revision=revision.sha)
        for sha, revision in zip(shas, revisions, strict=True)
    ]
