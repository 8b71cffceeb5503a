"""The candidates of `vkbench bisect` that are builds of a program, made from revisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkbench_db.database import Database
    from vkbench_db.upkeep.bisections import Candidate, Source


@dataclass(frozen=True, kw_only=True)
class Search:
    """What is searched: the case by its whole name, its code path, and the candidates."""

    case: str
    variant: str
    candidates: Sequence[Candidate]
    source: Source | None = None  # of candidates that are made when their turn comes
    newest_first: bool = False  # whether the good one is the newest of revisions


@dataclass(frozen=True, kw_only=True)
class RevisionRange:
    """Revisions of a program to be searched, those that change a folder."""

    program: str  # its name, or its TOML file
    repository: Path
    good: str
    bad: str
    folder: str


def store_revisions(
    database: Database, case: str, span: RevisionRange, *, of_fleet: bool
) -> Search:
    """The candidates of --program: both ends are built, and others when their turn comes."""
    from vkbench.process.git import is_newer, revisions
    from vkbench.settings import settings
    from vkbench_cli.builds import program_chosen, workshop_of
    from vkbench_db.upkeep.bisections import Source
    from vkbench_db.work.builds import store_build
    from vkbench_scheduler.planning.programs import candidates_of_revisions, name_case

    program = program_chosen(span.program, settings())
    case = name_case(case, program.name, "--program is")
    repository = span.repository.resolve()
    searched = revisions(repository, span.good, span.bad, span.folder)
    source = Source(program=program.name, repository=str(repository))
    workshop = workshop_of(settings(), of_fleet=of_fleet)
    ends = [workshop.make(source, revision) for revision in (searched[0], searched[-1])]
    candidates = candidates_of_revisions(searched, *ends)
    with database.transaction() as tx:
        for build in ends:
            store_build(tx, build)
    return Search(
        case=case,
        variant=program.name,
        candidates=candidates,
        source=source,
        newest_first=is_newer(repository, span.good, span.bad),
    )
