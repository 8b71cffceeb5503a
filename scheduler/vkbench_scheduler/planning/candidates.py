"""The bundles that a bisection tests, in order; neighbours with the same code are merged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from sqlalchemy import Connection

from vkbench.errors import UsageError, VkbenchError
from vkbench.process.git import Revision, checked_out, has_file, revisions
from vkbench_db.upkeep.bisections import Candidate
from vkbench_scheduler.bundles import keep
from vkbench_shaders.bundle import Bundle, unit_of
from vkbench_shaders.compile.build import units_for
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.compile.revisions import build_revision
from vkbench_shaders.kernel import Problem
from vkbench_shaders.own.building import build
from vkbench_shaders.own.inclusions import digest_of_sources
from vkbench_shaders.own.posing import own_case, pose_case

Watch = Callable[[int, int, str], None]  # revisions done, revisions in all, the last one


@dataclass(frozen=True, kw_only=True)
class Built:
    """A candidate of a bisection, built but not stored yet."""

    label: str
    bundle: Bundle | None  # None: it cannot be run
    note: str = ""  # why not


def of_revisions(
    problem: Problem, repository: Path, good: str, bad: str, folder: str, watch: Watch
) -> list[Built]:
    """Compile the revisions of a shader tree; one that does not compile gets no bundle."""

    def build_candidate(revision: Revision) -> Bundle:
        return build_revision(repository, revision, folder, problem)

    return _of_each(revisions(repository, good, bad, folder), build_candidate, watch)


def of_declarations(
    case: str,
    repository: Path,
    good: str,
    bad: str,
    file: PurePosixPath,
    owner: str,
    watch: Watch,
) -> list[Built]:
    """Build a user's kernel, which has the case, at the revisions of its declaration's folder."""
    folder = file.parent.as_posix()
    searched = revisions(repository, good, bad, folder)
    for end in (searched[0], searched[-1]):
        if not has_file(repository, end, file):
            raise UsageError(
                f"{file} is not in {repository} at {end.sha[:10]}: --kernel-file is the path of "
                "the declaration from the repository's root"
            )

    def build_candidate(revision: Revision) -> Bundle:
        with checked_out(repository, revision, folder) as tree:
            bundle = build(tree / file.name, owner).bundle
        _check_declares(bundle, case)
        return replace(bundle, name=revision.label, made_of=(revision.title,))

    return _of_each(searched, build_candidate, watch)


@dataclass(frozen=True)
class SourceTree:
    """A folder of sources in a repository."""

    repository: Path
    folder: str


def of_sources(
    case: str, tree: SourceTree, good: str, bad: str, file: Path, owner: str, watch: Watch
) -> list[Built]:
    """Build a user's kernel as one file declares it, of the sources of each revision of a tree.

    Most revisions of a tree change other kernels: those that do are not compiled again.
    """
    built: dict[str, Bundle] = {}

    def build_candidate(revision: Revision) -> Bundle:
        with checked_out(tree.repository, revision, tree.folder) as sources:
            digest = digest_of_sources(file, owner, sources)
            if digest not in built:
                built[digest] = build(file, owner, sources=sources).bundle
        _check_declares(built[digest], case)
        return replace(built[digest], name=revision.label, made_of=(revision.title,))

    searched = revisions(tree.repository, good, bad, tree.folder)
    return _of_each(searched, build_candidate, watch)


def _check_declares(bundle: Bundle, case: str) -> None:
    declared = [
        declared_case.name for own in bundle.manifest.kernels for declared_case in own.cases
    ]
    if case not in declared:
        raise VkbenchError(f"it declares no case {case}, but {', '.join(declared)}")


def _of_each(
    searched: Sequence[Revision], build_candidate: Callable[[Revision], Bundle], watch: Watch
) -> list[Built]:
    """Build each revision's bundle; first those of both ends, which the bisection needs."""
    last = len(searched) - 1
    built: dict[int, Built] = {}
    for place in dict.fromkeys([0, last, *range(last)]):
        label = searched[place].label
        try:
            built[place] = Built(label=label, bundle=build_candidate(searched[place]))
        except VkbenchError as error:
            built[place] = Built(label=label, bundle=None, note=str(error))
        if place in (0, last):
            _check_end("bad" if place else "good", built[place])
        watch(len(built), len(searched), label)
    return [built[place] for place in range(len(searched))]


def of_bundles(problem: Problem, bundles: Sequence[Bundle]) -> list[Built]:
    """The bundles in the given order; one without code for the case counts as not runnable."""
    return [_of_bundle(problem, bundle) for bundle in bundles]


def distinct(
    problem: Problem, built: Sequence[Built], *, newest_first: bool = False
) -> list[Built]:
    """The candidates whose code differs from the one before; the same code has the same speed.

    Those that are given newest first stay so: each is the oldest of those with its code.
    UsageError where the ends cannot be compared.
    """
    _check_ends(built)
    if newest_first:
        return _find_distinct(problem, built[::-1])[::-1]
    return _find_distinct(problem, built)


def _find_distinct(problem: Problem, built: Sequence[Built]) -> list[Built]:
    chosen = [built[0]]
    waiting: list[Built] = []  # not runnable: kept only if a candidate with other code follows
    for candidate in built[1:]:
        if candidate.bundle is None:
            waiting.append(candidate)
        elif _code(problem, candidate.bundle) != _code(problem, _last(chosen)):
            chosen += [*waiting, candidate]
            waiting = []
        else:
            waiting = []
    if len(chosen) < 2:
        raise UsageError(
            f"{problem.case.name} has the same code in {built[0].label} and all after it: "
            "it is not the kernel that changed"
        )
    if _code(problem, _last(chosen)) == _code(problem, _last(chosen[:1])):
        raise UsageError(f"{problem.case.name} has the same code at both ends")
    return chosen


def store(tx: Connection, built: Sequence[Built], now: float) -> list[Candidate]:
    """Keep the bundles in the database, where workers get them from."""
    for candidate in built:
        if candidate.bundle:
            keep(tx, candidate.bundle, now)
    return [
        Candidate(
            sha=candidate.bundle.sha if candidate.bundle else "",
            label=candidate.label,
            note=next(iter(candidate.note.splitlines()), ""),
        )
        for candidate in built
    ]


def _of_bundle(problem: Problem, bundle: Bundle) -> Built:
    label = bundle.name if bundle.name not in ("", bundle.sha) else bundle.sha[:12]
    if any(not code for code in _code(problem, bundle)):
        return Built(label=label, bundle=None, note=f"it has no code for {problem.case.name}")
    return Built(label=label, bundle=bundle)


def _code(problem: Problem, bundle: Bundle) -> tuple[str, ...]:
    """The SHA-256 of the code of each code path of the case; "" where the bundle has none.

    A bundle that declares the kernel decides how it is launched, too, and in how many steps.
    """
    declared = own_case(bundle, problem.case)
    if declared is None:
        return _code_of(units_for(problem), bundle)
    posed = pose_case(bundle, problem.case)
    paths = {variant.name: variant for variant in posed.kernel.variants}
    if any(variant.name not in paths for variant in problem.kernel.variants):
        return ("",)
    chosen = [paths[variant.name] for variant in problem.kernel.variants]
    units = {unit_of(stage, posed.types) for variant in chosen for stage in variant.stages}
    launches = (repr(sorted(rows.items())) for rows in (declared.launches, declared.scratch))
    return (*_code_of(sorted(units), bundle), *launches)


def _code_of(units: Sequence[Unit], bundle: Bundle) -> tuple[str, ...]:
    entries = (bundle.entries.get(unit.key) for unit in units)
    return tuple(entry.sha256 if entry else "" for entry in entries)


def _last(chosen: Sequence[Built]) -> Bundle:
    return next(candidate.bundle for candidate in reversed(chosen) if candidate.bundle)


def _check_ends(built: Sequence[Built]) -> None:
    if len(built) < 2:
        raise UsageError("a bisection needs at least two bundles, a good one and a bad one")
    _check_end("good", built[0])
    _check_end("bad", built[-1])


def _check_end(which: str, end: Built) -> None:
    if end.bundle is None:
        raise UsageError(f"the {which} bundle, {end.label}, cannot be run: {end.note}")
