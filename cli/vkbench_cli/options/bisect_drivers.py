"""The candidates of `vkbench bisect` that are drivers, and the device that they all show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vkbench.case import is_own
from vkbench.errors import UsageError
from vkbench_cli.options.bisect_builds import Search

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench.settings import Settings
    from vkbench_db.database import Database


def check_drivers(case: str, metric: str, has_others: bool) -> None:
    """UsageError where --drivers meets what bundles, builds or revisions are searched by."""
    if metric != "hot":
        raise UsageError("two drivers are timed hot alone: leave out --metric")
    if has_others or is_own(case):
        raise UsageError(
            "--drivers run the packaged kernels, and begin with the good one: leave out --good, "
            "--bad, --kernel-file, --program and cases of your own kernels"
        )


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


def choose_device_of_drivers(
    words: Sequence[str], selectors: Sequence[str], settings: Settings
) -> DeviceFacts:
    """The first chosen device of this machine that the first driver and the last one show.

    One in between that does not show it cannot be judged, and is passed over.
    """
    from vkbench_cli.drivers import find_both_routes, kept_drivers

    good, bad = (kept_drivers(settings).find(words[place]) for place in (0, -1))
    return find_both_routes(good, bad, selectors, settings)[0].host_device.facts
