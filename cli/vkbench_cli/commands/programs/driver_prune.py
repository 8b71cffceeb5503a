"""`vkbench driver prune`: copies of drivers that nothing needs go."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.words.units import count_of, rate_column
from vkbench_cli.drivers import kept_drivers
from vkbench_cli.options.ages import seconds_of_age
from vkbench_cli.options.records import Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.telling import say, tell
from vkbench_cli.store import reading

if TYPE_CHECKING:
    from vkbench.programs.build import Build
    from vkbench.settings import Settings


@spread
def prune_drivers(
    *,
    older_than: Annotated[
        str, Option("--older-than", metavar="AGE", help="Age, such as 180d, 26w or 1y.")
    ],
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would go.")] = False,
    store: Store,
) -> None:
    """Remove copies of drivers from this machine that nothing needs.

    They are drivers that were made, or copied as they were added, and what workers keep of the
    host's own. One stays if it was added or ran within that age, or if an unsettled change, a
    baseline, a schedule, a running bisection or an unfinished job of the database needs it. Drivers
    that stay in place cost nothing, and are not touched. Results stay in any case.

    \b
    vkbench driver prune --older-than 90d --dry-run
    """
    from vkbench.device import EVERY_DRIVER
    from vkbench.drivers.copies import library_of, remove_copies
    from vkbench.programs.store import BuildStore

    before, settings = time.time() - seconds_of_age(older_than), store.settings()
    added, own = kept_drivers(settings).builds, BuildStore(settings.own_driver_folder())
    needed = _ask_needed(before, settings)
    old = [build for build in added.list_builds() if build.added_at < before and not build.folder]
    unneeded = [build for build in old if not _is_needed(build, needed, EVERY_DRIVER)]
    old_own = [build for build in own.list_builds() if build.added_at < before]
    unneeded_own = [one for one in old_own if not _is_needed(one, needed, library_of(one))]
    for build, kind in (
        *((build, "driver") for build in unneeded),
        *((build, "copy of this host's own driver") for build in unneeded_own),
    ):
        tell(f"{build.sha[:12]} {build.name}, {kind}")
    if dry_run:
        nbytes, done = added.measure(unneeded) + own.measure(unneeded_own), "would be removed"
    else:
        nbytes = added.remove(unneeded) + remove_copies(unneeded_own, own.folder)
        done = "removed"
    drivers = count_of(len(unneeded) + len(unneeded_own), "driver")
    say(f"{drivers}, {nbytes / 1e6:,.1f} MB, {done}")


def tell_own_copies(settings: Settings) -> None:
    """Say how much the copies take that workers keep of this host's own drivers, if there are."""
    from vkbench.programs.store import BuildStore

    own = BuildStore(settings.own_driver_folder())
    copies = own.list_builds()
    if copies:
        unit, [size] = rate_column([own.measure(copies)], "B")
        tell(
            f"copies of {count_of(len(copies), 'driver')} that this host ran on take {size} "
            f"{unit}: `vkbench driver prune` removes those that nothing needs"
        )


def _ask_needed(before: float, settings: Settings) -> set[str]:
    from vkbench_db.upkeep.prune import needed_drivers

    with reading(settings) as tx:
        return needed_drivers(tx, before)


def _is_needed(build: Build, needed: set[str], also: str) -> bool:
    """Whether a driver is needed by its hash or name, or by another word that may mean it."""
    from vkbench.programs.build import SHA_SHOWN

    return bool(needed & {build.sha, build.sha[:SHA_SHOWN], build.name, also})
