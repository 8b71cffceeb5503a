"""Options of `vkbench bisect`, and the bundles between good and bad that they name."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.case import is_own
from vkbench.configuration import is_divided
from vkbench.errors import NothingToDo, UsageError
from vkbench.process.user import user_name
from vkbench_cli.show.telling import tell

if TYPE_CHECKING:
    from vkbench.settings import Settings
    from vkbench_db.database import Database, Transaction
    from vkbench_detection.regress.news import ChangedCase
    from vkbench_scheduler.planning.candidates import Built
    from vkbench_shaders.bundle import Bundle
    from vkbench_shaders.kernel import Problem

PACKAGED = "packaged"


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
    revisions: Annotated[
        str,
        Option(metavar="GOOD..BAD", help="Range of git revisions in --repository."),
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
        return [_change(tx, self.regression).device] if self.regression else []

    def filled(self, tx: Transaction) -> BisectOptions:
        """These options, completed from the regression of --regression."""
        if not self.regression:
            return self
        change = _change(tx, self.regression)
        return replace(
            self,
            case=self.case or change.case,
            variant=change.variant if self.variant == "auto" else self.variant,
            metric=change.metric if change.metric in ("hot", "cold") else self.metric,
            bundles=self.bundles if self._has_order else _between(tx, change),
        )

    @property
    def names(self) -> list[str]:
        """What --bundles names, in its order."""
        return [word.strip() for word in self.bundles.split(",")]

    @property
    def _has_order(self) -> bool:
        return bool(self.bundles or self.revisions or self.good)


def begin_here(
    database: Database, wanted: BisectOptions, selectors: Sequence[str], ours: Settings
) -> int:
    """A bisection for the first of the chosen devices of this machine."""
    from vkbench_db.work.devices import store_device
    from vkbench_local.machine import chosen_devices

    with database.reading() as tx:
        selectors = list(selectors) or wanted.devices(tx)
    facts, *_ = chosen_devices(selectors, ours)
    with database.transaction() as tx:
        store_device(tx, facts)
    return begin(database, wanted, [facts.key])


def begin(database: Database, wanted: BisectOptions, devices: Sequence[str]) -> int:
    """A bisection on identical devices (keys), stored with its bundles; its number."""
    from vkbench_db.upkeep import bisections
    from vkbench_scheduler.planning.candidates import distinct, of_bundles, store
    from vkbench_shaders.catalogue import problem

    with database.reading() as tx:
        asked = wanted.filled(tx)
        check(asked)
        if not is_own(asked.case):
            problem(asked.case)  # a slip in its name is said before one in the bundles'
        bundles = _bundles(tx, asked)
        if len(bisections.kinds(tx, devices)) != 1:
            raise UsageError("the devices are not alike in model, driver and clocks: give --device")
    declared = _of_declarations(asked) if asked.kernel_file else []
    posed = _pose_case(bundles or [each.bundle for each in declared if each.bundle], asked.case)
    built = of_bundles(posed, bundles) if bundles else declared or _of_revisions(posed, asked)
    built = distinct(posed, built)
    now = time.time()
    with database.transaction() as tx:
        return bisections.create(
            tx,
            bisections.NewBisection(
                devices=devices,
                case=posed.case.name,
                variant=asked.variant,
                metric=asked.metric,
                measure_seconds=asked.seconds,
                candidates=store(tx, built, now),
                user=user_name(),
                regression=asked.regression or None,
            ),
            now=now,
        )


def check(asked: BisectOptions) -> None:
    """UsageError unless the options name a case and one order of candidates."""
    if not asked.case:
        raise UsageError("--case NAME is missing: give the full name of the case")
    if asked.metric not in ("hot", "cold"):
        raise UsageError(f"--metric is hot or cold, not '{asked.metric}'")
    if asked.bundles and asked.revisions:
        raise UsageError("give --bundles or --revisions, not both")
    if not (asked.bundles or asked.revisions or (asked.good and asked.bad)):
        raise UsageError("nothing to search: give --bundles SHA,SHA,... or --revisions GOOD..BAD")
    if asked.bundles and not all(asked.names):
        raise UsageError(f"--bundles has an empty name: '{asked.bundles}'")


def _pose_case(bundles: Sequence[Bundle], case: str) -> Problem:
    """The case, as the first of the bundles declares it that has it; else by the catalogue."""
    from vkbench_shaders import catalogue
    from vkbench_shaders.own.posing import NotDeclared, pose_case

    for bundle in bundles:
        with suppress(NotDeclared):
            return pose_case(bundle, case)
    if is_own(case):
        raise UsageError(f"no bundle declares {case}: give --bundles, or --kernel-file")
    return catalogue.problem(case)


def _bundles(tx: Transaction, asked: BisectOptions) -> list[Bundle]:
    """What --bundles names, between --good and --bad; none where revisions are to be searched."""
    if not asked.bundles:
        return []
    found = [_bundle(tx, name) for name in asked.names]
    first = _place(found, asked.good) if asked.good else 0
    last = _place(found, asked.bad) if asked.bad else len(found) - 1
    return found[first : last + 1]


def _of_revisions(posed: Problem, asked: BisectOptions) -> list[Built]:
    from vkbench_scheduler.planning.candidates import of_revisions
    from vkbench_shaders.compile.revisions import FOLDER

    return of_revisions(posed, asked.repository, *_ends(asked), asked.folder or FOLDER, _tell)


def _of_declarations(asked: BisectOptions) -> list[Built]:
    from vkbench_scheduler.planning.candidates import of_declarations

    if asked.bundles or asked.folder:
        raise UsageError("--kernel-file is for --revisions: leave out --bundles and --folder")
    file = PurePosixPath(asked.kernel_file)
    ends = _ends(asked)
    return of_declarations(asked.case, asked.repository, *ends, file, user_name(), _tell)


def _ends(asked: BisectOptions) -> tuple[str, str]:
    """The good revision and the bad one."""
    good, dots, bad = asked.revisions.partition("..")
    ends = (good, bad) if dots else (asked.good, asked.bad)
    if not all(ends):
        raise UsageError("--revisions needs two ends: GOOD..BAD, or --good and --bad")
    return ends


def _bundle(tx: Transaction, word: str) -> Bundle:
    from vkbench_cli.bundles import bundle_named
    from vkbench_shaders.bundle import packaged

    found = None if word == PACKAGED else bundle_named(tx, word)
    return found or packaged()


def _place(found: Sequence[Bundle], word: str) -> int:
    places = [place for place, each in enumerate(found) if each.sha.startswith(word.lower())]
    if len(places) != 1:
        raise UsageError(f"'{word}' does not name one of --bundles")
    return places[0]


def _change(tx: Transaction, regression: int) -> ChangedCase:
    """The largest change of a regression that a kernel made; NothingToDo where none did."""
    from vkbench_detection.regress import news

    told = news.of_regression(tx, regression)
    if told.direction == "faster":
        raise NothingToDo(
            f"regression {regression} is an improvement: there is no bad bundle to find"
        )
    moved = [each for each in told.changes if each.before_bundle != each.after_bundle]
    if not moved:
        raise NothingToDo(
            f"the kernels of regression {regression} are the same before and after: "
            f"its cause is {told.cause}, so that no bundle is to blame"
        )
    paired = [each for each in moved if not is_divided(each.variant)]
    if not paired:
        raise NothingToDo(f"regression {regression} is of shards, which pairs do not measure")
    return max(paired, key=lambda each: (each.direction == "wrong", each.ratio or 0.0))


def _between(tx: Transaction, change: ChangedCase) -> str:
    from vkbench_db.upkeep.bisections import bundles_between

    return ",".join(bundles_between(tx, change.before_bundle, change.after_bundle))


def _tell(done: int, total: int, label: str) -> None:
    if sys.stderr.isatty() or done == total:
        tell(f"{done} of {total} revisions compiled: {label}")
