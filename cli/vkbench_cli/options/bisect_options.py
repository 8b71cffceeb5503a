"""Options of `vkbench bisect`, and the bundles between good and bad that they name."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.case import is_own, program_of
from vkbench.errors import UsageError
from vkbench.process.user import user_name
from vkbench_cli.options.bisect_builds import (
    MadeEnds,
    RevisionRange,
    Search,
    store_builds,
    store_revisions,
)
from vkbench_cli.options.bisect_bundles import choose_bundles, pose_case_to
from vkbench_cli.options.bisect_drivers import (
    check_drivers,
    choose_device_of_drivers,
    find_drivers,
    make_driver_ends,
    make_fleet_driver_ends,
    search_driver_revisions,
)
from vkbench_cli.options.bisect_regression import find_change, order_of
from vkbench_cli.show.telling import tell

if TYPE_CHECKING:
    from vkbench.settings import Settings
    from vkbench_db.database import Database, Transaction
    from vkbench_detection.regress.news import ChangedCase
    from vkbench_scheduler.planning.candidates import Built
    from vkbench_shaders.kernel import Problem


@dataclass(frozen=True, kw_only=True)
class BisectOptions:
    """The case, and the bundles or revisions to search."""

    case: Annotated[
        str,
        Option(metavar="NAME", help="The case that became slower or wrong, or fails: its name."),
    ] = ""
    variant: Annotated[
        str,
        Option(
            metavar="V",
            help="Variant of the kernel; 'auto' is the best one that the device supports.",
        ),
    ] = "auto"
    metric: Annotated[str, Option(metavar="hot|cold", help="Timing to compare: hot or cold.")] = (
        "hot"
    )
    bundles: Annotated[
        str,
        Option(
            metavar="SHA,SHA,...",
            help="Bundles in order, from good to bad; the beginning of a hash is enough.",
        ),
    ] = ""
    builds: Annotated[
        str,
        Option(
            metavar="NAME,NAME,...",
            help="Builds of a program in order, from good to bad: names or hashes.",
        ),
    ] = ""
    drivers: Annotated[
        str,
        Option(
            metavar="NAME,NAME,...",
            help="Drivers that were added, in order, from good to bad: names or hashes.",
        ),
    ] = ""
    program: Annotated[
        str,
        Option(
            metavar="PROGRAM|FILE",
            help="Program of which --revisions are built: its name, or its TOML file.",
        ),
    ] = ""
    driver_file: Annotated[
        str,
        Option(
            metavar="FILE",
            help="TOML file that says how a driver is built of each of --revisions.",
        ),
    ] = ""
    revisions: Annotated[
        str,
        Option(
            metavar="GOOD..BAD",
            help="Git revisions in --repository; if GOOD is the newer, the one that "
            "mended it is found.",
        ),
    ] = ""
    repository: Annotated[
        Path, Option(metavar="PATH", help="Git repository of --revisions.", show_default=True)
    ] = Path()
    folder: Annotated[
        str,
        Option(
            metavar="PATH",
            help="Folder of the shader tree in the repository; default: as in vkbench's own.",
        ),
    ] = ""
    kernel_file: Annotated[
        str,
        Option(
            metavar="PATH",
            help="Declaration of a kernel of your own: its path from the root of --repository.",
        ),
    ] = ""
    sources: Annotated[
        str,
        Option(
            metavar="REPOSITORY[:FOLDER]",
            help="Take the sources from this folder at each of --revisions, and the declaration "
            "of --kernel-file as it is.",
        ),
    ] = ""
    good: Annotated[
        str, Option(metavar="X", help="The last known good revision, or one of --bundles.")
    ] = ""
    bad: Annotated[
        str, Option(metavar="Y", help="The first known bad revision, or one of --bundles.")
    ] = ""
    regression: Annotated[
        int,
        Option(metavar="ID", help="Take case, device, good and bad from this regression."),
    ] = 0
    seconds: Annotated[
        float,
        Option(metavar="S", min=0.001, help="Seconds to sample each side of a pair."),
    ] = 1.0

    def devices(self, tx: Transaction) -> list[str]:
        """The device of the regression; none without --regression."""
        return [self._change(tx).device] if self.regression else []

    def fill_from_regression(self, tx: Transaction) -> BisectOptions:
        """These options, completed from the regression of --regression."""
        if not self.regression:
            return self
        change = self._change(tx)
        is_of_kernels = self.variant == "auto" and not change.program
        filled = replace(
            self,
            case=self.case or change.case,
            variant=change.variant if is_of_kernels else self.variant,
            metric=change.metric if change.metric in ("hot", "cold") else self.metric,
        )
        if self._has_order:
            return filled
        bundles, builds = order_of(tx, change)
        return replace(filled, bundles=bundles, builds=builds)

    def _change(self, tx: Transaction) -> ChangedCase:
        return find_change(tx, self.regression, of_drivers=bool(self.drivers or self.driver_file))

    @property
    def makes_arms(self) -> bool:
        """Whether this machine makes what is searched, when its turn comes."""
        return bool(self.program or self.driver_file)

    @property
    def names(self) -> list[str]:
        """The names in --bundles, in their order."""
        return _split_names(self.bundles)

    @property
    def _has_order(self) -> bool:
        return bool(self.bundles or self.builds or self.drivers or self.revisions or self.good)


def _split_names(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def begin_here(
    database: Database, options: BisectOptions, selectors: Sequence[str], settings: Settings
) -> int:
    """Store a bisection for the first chosen device of this machine; its number."""
    from vkbench_db.work.devices import store_device
    from vkbench_local.machine import chosen_devices

    with database.reading() as tx:
        selectors = list(selectors) or options.devices(tx)
        filled = options.fill_from_regression(tx)
    ends: MadeEnds | None = None
    if filled.drivers or filled.driver_file:
        check(filled)
        if filled.driver_file:
            ends = make_driver_ends(filled.driver_file, _range_of(filled), of_fleet=False)
        good, bad = (ends.good.sha, ends.bad.sha) if ends else _name_driver_ends(filled)
        facts = choose_device_of_drivers(good, bad, selectors, settings)
    else:
        facts, *_ = chosen_devices(selectors, settings)
    with database.transaction() as tx:
        store_device(tx, facts)
    return begin(database, options, [facts.key], ends=ends)


def _name_driver_ends(options: BisectOptions) -> tuple[str, str]:
    """The first driver and the last of --drivers, as their user named them."""
    words = _split_names(options.drivers)
    return words[0], words[-1]


def begin(
    database: Database,
    options: BisectOptions,
    devices: Sequence[str],
    *,
    of_fleet: bool = False,
    ends: MadeEnds | None = None,
) -> int:
    """Store a bisection on identical devices (keys), with its candidates; its number.

    Those of the fleet get builds from where the lab keeps them. The ends of --driver-file are made
    here unless they are given.
    """
    from vkbench_db.upkeep import bisections
    from vkbench_shaders.catalogue import problem

    with database.reading() as tx:
        complete = options.fill_from_regression(tx)
        check(complete)
        if not (is_own(complete.case) or program_of(complete.case)):
            problem(complete.case)  # a slip in its name is said before one in the bundles'
        if len(bisections.kinds(tx, devices)) != 1:
            raise UsageError("the devices are not alike in model, driver and clocks: give --device")
    search = _store_candidates(database, complete, devices if of_fleet else (), ends)
    new = bisections.NewBisection(
        devices=devices,
        case=search.case,
        variant=search.variant,
        metric=complete.metric,
        measure_seconds=complete.seconds,
        candidates=search.candidates,
        user=user_name(),
        regression=complete.regression or None,
        source=search.source,
        newest_first=search.newest_first,
    )
    with database.transaction() as tx:
        return bisections.create(tx, new, now=time.time())


def _store_candidates(
    database: Database, options: BisectOptions, fleet: Sequence[str], ends: MadeEnds | None
) -> Search:
    """The candidates, for devices of the fleet (keys) or of this machine; they are stored."""
    of_fleet = bool(fleet)
    if options.program:
        span = _range_of(options)
        return store_revisions(database, options.case, options.program, span, of_fleet=of_fleet)
    if options.driver_file:
        span, word = _range_of(options), options.driver_file
        made = ends or make_fleet_driver_ends(database, word, span, fleet)
        return search_driver_revisions(made, options.case, options.variant)
    if options.drivers:
        words = _split_names(options.drivers)
        return find_drivers(database, options.case, options.variant, words, fleet)
    if options.builds:
        names = _split_names(options.builds)
        return store_builds(database, options.case, names, of_fleet=of_fleet)
    return _store_bundles(database, options)


def _store_bundles(database: Database, options: BisectOptions) -> Search:
    """The candidates of --bundles or --revisions; their bundles are stored."""
    from vkbench.process.git import is_newer
    from vkbench_scheduler.planning.candidates import distinct, of_bundles, store

    with database.reading() as tx:
        named = options.names if options.bundles else []
        bundles = choose_bundles(tx, named, options.good, options.bad) if named else []
    declared = _of_declarations(options) if options.kernel_file else []
    posed = pose_case_to(
        bundles or [candidate.bundle for candidate in declared if candidate.bundle], options.case
    )
    built = of_bundles(posed, bundles) if bundles else declared or _of_revisions(posed, options)
    newest_first = not bundles and is_newer(_repository_of(options), *_ends(options))
    chosen = distinct(posed, built, newest_first=newest_first)
    with database.transaction() as tx:
        candidates = store(tx, chosen, time.time())
    return Search(
        case=posed.case.name,
        variant=options.variant,
        candidates=candidates,
        newest_first=newest_first,
    )


def check(options: BisectOptions) -> None:
    """UsageError unless the options name a case and one order of candidates."""
    if not options.case:
        raise UsageError("--case NAME is missing: give the full name of the case")
    if options.metric not in ("hot", "cold"):
        raise UsageError(f"--metric is hot or cold, not '{options.metric}'")
    is_of_others = bool(options.bundles or options.builds or options.kernel_file)
    if options.program and is_of_others:
        raise UsageError(
            "--program is built from --revisions: leave out --bundles, --builds and --kernel-file"
        )
    orders = [options.bundles, options.builds, options.drivers, options.revisions]
    orders = list(filter(None, orders))
    if len(orders) > 1:
        raise UsageError("give one of --bundles, --builds, --drivers and --revisions")
    _check_builds(options)
    if options.drivers:
        others = (options.good, options.bad, options.kernel_file, options.program)
        is_mixed = any((*others, options.driver_file))
        check_drivers("--drivers", options.case, options.metric, is_mixed)
    elif options.driver_file:
        is_mixed = is_of_others or bool(options.program or options.sources)
        check_drivers("--driver-file", options.case, options.metric, is_mixed)
    if (program := program_of(options.case)) and not (options.builds or options.program):
        raise UsageError(f"{options.case} is a case of the program {program}: give --builds of it")
    if not orders and not (options.good and options.bad):
        raise UsageError(
            "nothing to search: give --bundles SHA,SHA,..., --builds NAME,NAME,..., --drivers "
            "NAME,NAME,... or --revisions GOOD..BAD"
        )
    if options.bundles and not all(options.names):
        raise UsageError(f"--bundles has an empty name: '{options.bundles}'")


def _check_builds(options: BisectOptions) -> None:
    word = "--builds" if options.builds else "--program"
    is_of_program = bool(options.builds or options.program)
    if is_of_program and (options.variant != "auto" or options.metric != "hot"):
        raise UsageError(f"{word} has no code paths and times hot: leave out --variant, --metric")
    if options.builds and (options.good or options.bad or options.kernel_file):
        raise UsageError(
            "--builds begins with the good one and ends with the bad one: leave out --good, --bad "
            "and --kernel-file"
        )


def _of_revisions(posed: Problem, options: BisectOptions) -> list[Built]:
    from vkbench_scheduler.planning.candidates import of_revisions
    from vkbench_shaders.compile.revisions import FOLDER

    return of_revisions(posed, options.repository, *_ends(options), options.folder or FOLDER, _tell)


def _repository_of(options: BisectOptions) -> Path:
    """The git repository of the revisions, which --sources may name."""
    from vkbench_cli.own import split_sources

    return split_sources(options.sources)[0] if options.sources else options.repository


def _of_declarations(options: BisectOptions) -> list[Built]:
    from vkbench_cli.own import split_sources
    from vkbench_scheduler.planning import candidates

    if options.bundles or options.folder:
        raise UsageError("--kernel-file is for --revisions: leave out --bundles and --folder")
    ends, who = _ends(options), user_name()
    if options.sources:
        tree = candidates.SourceTree(*split_sources(options.sources))
        file = Path(options.kernel_file)
        return candidates.of_sources(options.case, tree, *ends, file, who, _tell)
    path = PurePosixPath(options.kernel_file)
    return candidates.of_declarations(options.case, options.repository, *ends, path, who, _tell)


def _range_of(options: BisectOptions) -> RevisionRange:
    good, bad = _ends(options)
    return RevisionRange(
        repository=options.repository,
        good=good,
        bad=bad,
        folder=options.folder or ".",
    )


def _ends(options: BisectOptions) -> tuple[str, str]:
    """The good revision and the bad one."""
    good, dots, bad = options.revisions.partition("..")
    ends = (good, bad) if dots else (options.good, options.bad)
    if not all(ends):
        raise UsageError("--revisions needs two ends: GOOD..BAD, or --good and --bad")
    return ends


def _tell(done: int, total: int, label: str) -> None:
    if sys.stderr.isatty() or done == total:
        tell(f"{done} of {total} revisions compiled: {label}")
