"""The candidates of `vkbench bisect` that are drivers, and the device that they all show.

They were added (--drivers), or are made of revisions by what a file declares (--driver-file).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vkbench.case import is_own, program_of
from vkbench.device import EVERY_DRIVER
from vkbench.errors import UsageError
from vkbench_cli.options.bisect_builds import MadeEnds, RevisionRange, Search, make_ends

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench.settings import Settings
    from vkbench_db.database import Database


def check_drivers(word: str, case: str, metric: str, has_others: bool) -> None:
    """UsageError where an option for drivers meets what bundles or builds are searched by."""
    from vkbench_shaders.catalogue import problem

    if metric != "hot":
        raise UsageError("two drivers are timed hot alone: leave out --metric")
    if has_others or is_own(case):
        run = "run the packaged kernels"
        reason = {
            "--drivers": f"--drivers {run}, and begin with the good one: leave out --good, --bad",
            "--driver-file": f"drivers of --driver-file {run}: leave out --bundles, --builds",
        }[word]
        raise UsageError(f"{reason}, --kernel-file, --program and cases of your own kernels")
    if not program_of(case):
        problem(case)  # a slip in its name is said before drivers are made


def find_drivers(
    database: Database, case: str, variant: str, words: Sequence[str], fleet: Sequence[str]
) -> Search:
    """The candidates of --drivers, here or on devices of the fleet (keys).

    Equal ones beside each other are one.
    """
    from vkbench.job import ArmKind
    from vkbench.settings import settings
    from vkbench_cli.drivers import kept_drivers
    from vkbench_cli.fleet_drivers import find_fleet_arms
    from vkbench_db.upkeep.bisections import Candidate
    from vkbench_shaders.catalogue import problem

    candidates: list[Candidate] = []
    if fleet:
        drivers = [
            pair for word in words for pair in find_fleet_arms(database, [word], fleet).items()
        ]
    else:
        drivers = [
            (driver.sha, driver.name) for driver in map(kept_drivers(settings()).find, words)
        ]
    for sha, name in drivers:
        if not candidates or candidates[-1].sha != sha:
            candidates.append(Candidate(sha=sha, label=name, kind=ArmKind.DRIVER))
    if len(candidates) < 2:
        raise UsageError("--drivers needs two drivers or more that differ, from good to bad")
    return Search(case=problem(case).case.name, variant=variant, candidates=candidates)


def make_fleet_driver_ends(
    database: Database, word: str, span: RevisionRange, fleet: Sequence[str]
) -> MadeEnds:
    """Make the first and the last driver of a range, if devices of the fleet (keys) take any."""
    from vkbench_scheduler.drivers import find_able

    with database.reading() as tx:
        find_able(tx, fleet, EVERY_DRIVER)
    return make_driver_ends(word, span, of_fleet=True)


def search_driver_revisions(ends: MadeEnds, case: str, variant: str) -> Search:
    """The candidates of --driver-file, of which both ends are made."""
    from vkbench_shaders.catalogue import problem

    return ends.search(problem(case).case.name, variant)


def make_driver_ends(word: str, span: RevisionRange, *, of_fleet: bool) -> MadeEnds:
    """Make the first and the last driver of a range, by a file that declares it or its name."""
    from vkbench.settings import settings
    from vkbench_cli.drivers import driver_declared

    declared = driver_declared(word, settings())
    return make_ends(span, of_fleet=of_fleet, driver=declared.name)


def choose_device_of_drivers(
    good: str, bad: str, selectors: Sequence[str], settings: Settings
) -> DeviceFacts:
    """The first chosen device of this machine that the first driver and the last one show.

    One in between that does not show it cannot be judged, and is passed over.
    """
    from vkbench_cli.drivers import find_both_routes, kept_drivers

    find = kept_drivers(settings).find
    return find_both_routes(find(good), find(bad), selectors, settings)[0].host_device.facts
