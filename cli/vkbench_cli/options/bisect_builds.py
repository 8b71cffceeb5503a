"""The candidates of `vkbench bisect` that are builds: given by name, or made from revisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vkbench.process.git import Revision
    from vkbench.programs.build import Build
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
    """Revisions of a repository to be searched, those that change a folder."""

    repository: Path
    good: str
    bad: str
    folder: str


@dataclass(frozen=True, kw_only=True)
class MadeEnds:
    """Both ends of a range of revisions, which are made first, and what lies between."""

    source: Source
    revisions: Sequence[Revision]
    good: Build
    bad: Build
    newest_first: bool

    def search(self, case: str, variant: str) -> Search:
        """Search these revisions for what changed a case."""
        from vkbench_scheduler.planning.programs import candidates_of_revisions

        return Search(
            case=case,
            variant=variant,
            candidates=candidates_of_revisions(self.revisions, self.good, self.bad, self.source),
            source=self.source,
            newest_first=self.newest_first,
        )


def make_ends(
    span: RevisionRange, *, of_fleet: bool, program: str = "", driver: str = ""
) -> MadeEnds:
    """Make both ends of a range, of a program or of a declared driver, unless they are kept."""
    from vkbench.process.git import is_newer, revisions
    from vkbench.settings import settings
    from vkbench_cli.builds import workshop_of
    from vkbench_db.upkeep.bisections import Source

    repository = span.repository.resolve()
    searched = revisions(repository, span.good, span.bad, span.folder)
    source = Source(repository=str(repository), program=program, driver=driver)
    workshop = workshop_of(settings(), of_fleet=of_fleet)
    return MadeEnds(
        source=source,
        revisions=searched,
        good=workshop.make(source, searched[0]),
        bad=workshop.make(source, searched[-1]),
        newest_first=is_newer(repository, span.good, span.bad),
    )


def store_revisions(
    database: Database, case: str, program: str, span: RevisionRange, *, of_fleet: bool
) -> Search:
    """The candidates of --program: both ends are built, and others when their turn comes."""
    from vkbench.settings import settings
    from vkbench_cli.builds import program_chosen
    from vkbench_db.work.builds import store_build
    from vkbench_scheduler.planning.programs import name_case

    chosen = program_chosen(program, settings())
    case = name_case(case, chosen.name, "--program is")
    ends = make_ends(span, of_fleet=of_fleet, program=chosen.name)
    search = ends.search(case, chosen.name)
    with database.transaction() as tx:
        for build in (ends.good, ends.bad):
            store_build(tx, build)
    return search


def store_builds(database: Database, case: str, names: Sequence[str], *, of_fleet: bool) -> Search:
    """The candidates of --builds; the database notes which they are."""
    from vkbench.settings import settings
    from vkbench_cli.builds import find_for_fleet, give_to_fleet, kept_builds
    from vkbench_db.work.builds import store_build
    from vkbench_scheduler.planning.programs import candidates_of, name_case

    find = partial(find_for_fleet, database) if of_fleet else kept_builds(settings()).find
    builds = [find(name) for name in names]
    candidates = candidates_of(builds)
    case = name_case(case, builds[0].program, "--builds are")
    if of_fleet:
        give_to_fleet(builds)
    with database.transaction() as tx:
        for build in builds:
            store_build(tx, build)
    return Search(case=case, variant=builds[0].program, candidates=candidates)
