"""`vkbench program build make` and `prune`: builds that come from revisions, and go when unused."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.settings import settings
from vkbench.words.units import count_of
from vkbench_cli.builds import kept_builds, make_build, program_chosen
from vkbench_cli.options.ages import seconds_of_age
from vkbench_cli.options.making import MakeOptions
from vkbench_cli.options.records import Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.telling import say, tell
from vkbench_cli.store import reading

if TYPE_CHECKING:
    from vkbench.programs.build import Build


@spread
def make_program_build(
    program: Annotated[
        str, Argument(metavar="PROGRAM|FILE", help="Its name, or the file that declares it.")
    ],
    *,
    options: MakeOptions,
) -> None:
    """Make a build of a program from a git revision; prints its hash.

    The command that the program's declaration names runs in a clean checkout, in a temporary folder
    (TMPDIR); the repository's work tree stays as it is. It runs on this machine and with your
    rights, as `make` would: trust it as much. A revision is built once by the same command; if
    ccache is installed, CMake uses it.

    \b
    vkbench program build make ggml-vulkan --revision b9000
    """
    from vkbench.programs.making import ProgramProduct

    current = settings()
    chosen = program_chosen(program, current)
    product = ProgramProduct(program=chosen, store=kept_builds(current))
    build = make_build(product, current.build_folder() / "logs", options)
    say(build.sha)


@spread
def prune_builds(
    *,
    older_than: Annotated[
        str, Option("--older-than", metavar="AGE", help="Age, such as 180d, 26w or 1y.")
    ],
    dry_run: Annotated[bool, Option("--dry-run", help="Only say what would go.")] = False,
    store: Store,
) -> None:
    """Remove builds from this machine that nothing needs.

    A build stays if it was added or ran within that age, or if an unsettled change, a baseline, a
    schedule, a running bisection or an unfinished job of the database needs it. Results stay in any
    case. Files that other builds have too stay, as does what a user keeps in place.

    \b
    vkbench program build prune --older-than 90d --dry-run
    """
    before = time.time() - seconds_of_age(older_than)
    kept = kept_builds(store.settings())
    old = [build for build in kept.list_builds() if build.added_at < before]
    unneeded = _leave_out_needed(old, before, store)
    for build in unneeded:
        tell(f"{build.sha[:12]} {build.name} of {build.program}".replace("  ", " "))
    nbytes = kept.measure(unneeded) if dry_run else kept.remove(unneeded)
    done = "would be removed" if dry_run else "removed"
    say(f"{count_of(len(unneeded), 'build')}, {nbytes / 1e6:,.1f} MB, {done}")


def _leave_out_needed(builds: list[Build], before: float, store: Store) -> list[Build]:
    from vkbench_db.upkeep.prune import needed_arms

    with reading(store.settings()) as tx:
        needed = needed_arms(tx, [build.sha for build in builds], before)
    return [build for build in builds if not needed & {build.sha, build.name}]
