"""What a bisection is to find: the options of `vkbench bisect`, and the bundles that they mean."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.errors import NothingToDo, UsageError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from vkbench_db.database import Database
    from vkbench_db.news import Change
    from vkbench_scheduler.candidates import Built
    from vkbench_shaders.bundle import Bundle
    from vkbench_shaders.kernel import Problem

PACKAGED = "packaged"


@dataclass(frozen=True, kw_only=True)
class Sought:
    """The case, and where between good and bad to look."""

    case: Annotated[str, Option(metavar="NAME", help="The case, as results show it.")] = ""
    variant: Annotated[str, Option(metavar="V", help="Code path; auto is the device's best.")] = (
        "auto"
    )
    metric: Annotated[str, Option(metavar="hot|cold", help="Which timing is compared.")] = "hot"
    bundles: Annotated[
        str,
        Option(metavar="SHA,SHA,...", help="Bundles in order, the good one first, the bad last."),
    ] = ""
    revisions: Annotated[
        str,
        Option(metavar="GOOD..BAD", help="Git revisions of a shader tree, with --repository."),
    ] = ""
    repository: Annotated[
        Path, Option(metavar="PATH", help="Where the revisions are.", show_default=True)
    ] = Path()
    folder: Annotated[
        str, Option(metavar="PATH", help="The shader tree in the repository; default: vkbench's.")
    ] = ""
    good: Annotated[
        str, Option(metavar="X", help="The good one: a revision, or one of --bundles.")
    ] = ""
    bad: Annotated[
        str, Option(metavar="Y", help="The bad one: a revision, or one of --bundles.")
    ] = ""
    regression: Annotated[
        int,
        Option(metavar="ID", help="Case, device and ends are those of this regression."),
    ] = 0
    seconds: Annotated[
        float,
        Option(metavar="S", min=0.001, help="Seconds of samples in each arm of a pair."),
    ] = 1.0

    def devices(self, tx: Connection) -> list[str]:
        """The device of the regression, where no other is named."""
        return [_change(tx, self.regression).device] if self.regression else []

    def filled(self, tx: Connection) -> Sought:
        """With what the regression says, where there is one."""
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
    def _has_order(self) -> bool:
        return bool(self.bundles or self.revisions or self.good)


def begun(database: Database, sought: Sought, devices: Sequence[str]) -> int:
    """A bisection on identical devices (keys), stored with its bundles; its number."""
    from vkbench_cli.store import user_name
    from vkbench_db import bisections
    from vkbench_scheduler.candidates import distinct, store
    from vkbench_shaders.catalogue import problem

    with database.reading() as tx:
        asked = sought.filled(tx)
        check(asked)
        posed = problem(asked.case)
        built = None if asked.bundles == "" else _of_bundles(tx, posed, asked)
        if len(bisections.kinds(tx, devices)) != 1:
            raise UsageError("the devices are not alike in model, driver and clocks: give --device")
    built = distinct(posed, built or _of_revisions(posed, asked))
    now = time.time()
    with database.transaction() as tx:
        return bisections.create(
            tx,
            devices=devices,
            case=posed.case.name,
            variant=asked.variant,
            metric=asked.metric,
            measure_seconds=asked.seconds,
            candidates=store(tx, built, now),
            user=user_name(),
            now=now,
            regression=asked.regression or None,
        )


def check(asked: Sought) -> None:
    """UsageError unless it says what to search, and where."""
    if not asked.case:
        raise UsageError("give the case, by its whole name: --case NAME")
    if asked.metric not in ("hot", "cold"):
        raise UsageError(f"--metric is hot or cold, not '{asked.metric}'")
    if asked.bundles and asked.revisions:
        raise UsageError("--bundles and --revisions are two orders: give one of them")
    if not (asked.bundles or asked.revisions or (asked.good and asked.bad)):
        raise UsageError("give the order: --bundles SHA,SHA,... or --revisions GOOD..BAD")


def _of_bundles(tx: Connection, posed: Problem, asked: Sought) -> list[Built]:
    from vkbench_scheduler.candidates import of_bundles

    found = [_bundle(tx, word.strip()) for word in asked.bundles.split(",") if word.strip()]
    first = _place(found, asked.good) if asked.good else 0
    last = _place(found, asked.bad) if asked.bad else len(found) - 1
    return of_bundles(posed, found[first : last + 1])


def _of_revisions(posed: Problem, asked: Sought) -> list[Built]:
    from vkbench_scheduler.candidates import of_revisions
    from vkbench_shaders.revisions import FOLDER

    good, dots, bad = asked.revisions.partition("..")
    ends = (good, bad) if dots else (asked.good, asked.bad)
    if not all(ends):
        raise UsageError("--revisions is GOOD..BAD, or give --good and --bad")
    return of_revisions(posed, asked.repository, *ends, asked.folder or FOLDER, _tell)


def _bundle(tx: Connection, word: str) -> Bundle:
    from vkbench_cli.store import bundle_named
    from vkbench_shaders.bundle import packaged

    found = None if word == PACKAGED else bundle_named(tx, word)
    return found or packaged()


def _place(found: Sequence[Bundle], word: str) -> int:
    places = [place for place, each in enumerate(found) if each.sha.startswith(word.lower())]
    if len(places) != 1:
        raise UsageError(f"'{word}' is not one of --bundles")
    return places[0]


def _change(tx: Connection, regression: int) -> Change:
    """The largest change of a regression that a kernel made; NothingToDo where none did."""
    from vkbench_db import news

    told = news.of_regression(tx, regression)
    if told.direction == "faster":
        raise NothingToDo(f"regression {regression} is an improvement: none of its bundles is bad")
    moved = [each for each in told.changes if each.before_bundle != each.after_bundle]
    if not moved:
        raise NothingToDo(
            f"regression {regression} came with the same kernels before and after: "
            f"its cause is {told.cause}, and bundles have no part in it"
        )
    return max(moved, key=lambda each: (each.direction == "wrong", each.ratio or 0.0))


def _between(tx: Connection, change: Change) -> str:
    from vkbench_db.bisections import bundles_between

    return ",".join(bundles_between(tx, change.before_bundle, change.after_bundle))


def _tell(done: int, total: int, label: str) -> None:
    if sys.stderr.isatty() or done == total:
        print(f"{done} of {total} revisions compiled: {label}", file=sys.stderr)
