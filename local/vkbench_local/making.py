"""Makes the builds of a bisection on this machine, each when its turn has come.

A bisection of the fleet waits for them; this machine's own makes them between its pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from vkbench.drivers.declaration import declared_drivers
from vkbench.drivers.store import DriverProduct, DriverStore
from vkbench.process.git import Revision, find_revision
from vkbench.programs.build import Build
from vkbench.programs.making import (
    Maker,
    MakingStopped,
    NotBuilt,
    Product,
    ProgramProduct,
    Tell,
    never,
)
from vkbench.programs.registry import ProgramStore
from vkbench.programs.store import BuildStore
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.upkeep import bisections
from vkbench_db.upkeep.bisections import Bisection, Source
from vkbench_db.work.builds import store_build
from vkbench_detection.bisect.course import places_to_make

Watch = Callable[[str], AbstractContextManager[object]]  # shows what lasts, by its label
Deliver = Callable[[Build], object]  # takes a build to whoever runs it


def keep_here(build: Build) -> None:
    """Take a build nowhere: this machine runs it."""


@dataclass(frozen=True, kw_only=True)
class Workshop:
    """Makes builds of revisions, delivers them, and says so."""

    settings: Settings
    tell: Tell
    watch: Watch
    deliver: Deliver = keep_here

    def make(
        self, source: Source, revision: Revision, is_over: Callable[[], bool] = never
    ) -> Build:
        """The build of a revision, delivered; NotBuilt says why there is none."""
        maker = Maker(
            product=self._find_product(source),
            repository=Path(source.repository),
            logs=self._folder_of(source) / "logs",
            tell=self.tell,
            is_over=is_over,
        )
        if not maker.find_made(revision):
            self.tell(f"building {revision.label}")
        with self.watch(f"building {revision.name}"):
            build = maker.make(revision)
        self.deliver(build)
        return build

    def _find_product(self, source: Source) -> Product:
        folder = self._folder_of(source)
        if source.driver:
            declared = declared_drivers(self.settings).find(source.driver)
            return DriverProduct(declared=declared, store=DriverStore(folder))
        program = ProgramStore(self.settings.program_folder()).find(source.program)
        return ProgramProduct(program=program, store=BuildStore(folder))

    def _folder_of(self, source: Source) -> Path:
        """Where what is made is kept."""
        return self.settings.driver_folder() if source.driver else self.settings.build_folder()

    def make_next(
        self, database: Database, bisection: Bisection, is_over: Callable[[], bool]
    ) -> bool:
        """Make the builds that a bisection needs for its next round; return whether it was any."""
        places = places_to_make(bisection) if bisection.source else []
        with suppress(MakingStopped):
            for place in places:
                self._make_candidate(database, bisection, place, is_over)
        return bool(places)

    def _make_candidate(
        self, database: Database, bisection: Bisection, place: int, is_over: Callable[[], bool]
    ) -> None:
        assert bisection.source
        sha = bisection.candidates[place].revision
        revision = find_revision(Path(bisection.source.repository), sha)
        try:
            build = self.make(bisection.source, revision, is_over)
        except NotBuilt as error:
            why = str(error).splitlines()[0].removeprefix(f"{revision.label} ")
            self.tell(f"{revision.label} is passed over: it {why}")
            with database.transaction() as tx:
                bisections.change_candidate(tx, bisection.id, place, note=why)
            return
        with database.transaction() as tx:
            if not bisection.source.driver:
                store_build(tx, build)
            bisections.change_candidate(tx, bisection.id, place, sha=build.sha)
