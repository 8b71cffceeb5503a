"""`vkbench try`: two builds of a program timed in pairs, to see what a change does."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.case import parse_shape
from vkbench.errors import (
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_REGRESSION,
    NothingToDo,
    UsageError,
    VkbenchError,
    WrongResult,
)
from vkbench.process.user import user_name
from vkbench.run import RunWords
from vkbench_cli.builds import kept_builds
from vkbench_cli.commands.measure.run import open_alone
from vkbench_cli.options.choices import seconds_of
from vkbench_cli.options.records import Devices, Formats, Kernels, Shapes, Store, Suite
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import hand_over, tell
from vkbench_scheduler.planning.selection import Selection
from vkbench_tables.comparisons import tryout

if TYPE_CHECKING:
    from vkbench.settings import Settings
    from vkbench_db.database import Database
    from vkbench_detection.compare.tryouts import Tryout
    from vkbench_scheduler.planning.tryouts import TriedBuilds

SUITE = "peers"


def try_builds(
    *,
    program: Annotated[
        str,
        Argument(metavar="PROGRAM", help="The program; `vkbench program ls` lists them."),
    ],
    old: Annotated[
        str, Option("--old", metavar="BUILD", help="The build to compare with: its name or hash.")
    ],
    new: Annotated[
        str, Option("--new", metavar="BUILD", help="The build with the change: its name or hash.")
    ],
    suite: Suite = "",
    kernel: Kernels = [],  # noqa: B006 - Typer's own copy
    format: Formats = [],  # noqa: B006
    shape: Shapes = [],  # noqa: B006
    case: Annotated[
        list[str],
        Option(metavar="NAME", help="Only this case: its full name; may be repeated."),
    ] = [],  # noqa: B006
    device: Devices = [],  # noqa: B006
    budget: Annotated[
        str,
        Option(metavar="TIME", help="Begin no pair after this time: seconds, or 10m, or 1h."),
    ] = "10m",
    seconds: Annotated[
        float,
        Option(metavar="S", min=0.001, help="Seconds to sample each side of a pair."),
    ] = 0.3,
    all_rows: Annotated[
        bool, Option("--all/--changed", help="Show cases that did not change too.")
    ] = False,
    markdown: Annotated[
        bool, Option("--markdown", help="Print a comment for a pull request.")
    ] = False,
    store: Store,
    output: Output,
) -> int:
    """Time two builds of a program in pairs, and say what became slower or wrong.

    Each case is timed in turns, old, new, new, old, each build in a process that stays, and both
    are judged at every visit. Cases that seem to have changed are measured again until that is
    certain or the time is over; what is left of it goes to the others.

    \b
    vkbench try ggml-vulkan --old b8121 --new mine
    vkbench try ggml-vulkan --old b8121 --new mine --kernel 'mul_mat*' --budget 5m --markdown

    Exit codes: 0 nothing became worse, 1 slower, 3 wrong, 4 a case fails, 7 nothing was compared,
    130 interrupted.
    """
    if output.json + output.csv + markdown > 1:
        raise UsageError("only one of --json, --csv and --markdown can be printed")
    settings = store.settings()
    selection = Selection(
        suite=suite or ("" if any((kernel, format, shape, case)) else SUITE),
        kernels=tuple(kernel),
        formats=tuple(format),
        shapes=tuple(parse_shape(text) for text in shape),
        cases=tuple(case),
        measure_seconds=seconds,
    )
    builds = _choose_builds(settings, program, old, new)
    with open_alone(settings) as database:
        tried, ended = _time(
            database, settings, builds, selection, device, seconds_of(budget, "--budget")
        )
    cases = tried.cases if all_rows else tried.changed
    if markdown:
        hand_over(tryout.in_markdown(tried))
    elif cases or output.json or output.csv:
        show(tryout.table(tried, cases), output)
    tell("\n".join(tryout.lines(tried)))
    return _exit_code(tried) if ended else EXIT_INTERRUPTED


def _choose_builds(settings: Settings, program: str, old: str, new: str) -> TriedBuilds:
    """The two builds that were named; UsageError if they are one, or of another program."""
    from vkbench.programs.program import program_named
    from vkbench_scheduler.planning.tryouts import TriedBuilds

    known, kept = program_named(program), kept_builds(settings)
    builds = TriedBuilds(old=kept.find(old), new=kept.find(new))
    for build in (builds.old, builds.new):
        if build.program != known.name:
            raise UsageError(f"{build.name or build.sha[:12]} is a build of {build.program}")
    if builds.old.sha == builds.new.sha:
        raise NothingToDo(f"{old} and {new} have the same files: there is nothing to compare")
    return builds


def _time(
    database: Database,
    settings: Settings,
    builds: TriedBuilds,
    selection: Selection,
    selectors: list[str],
    budget: float,
) -> tuple[Tryout, bool]:
    """What pairs on this machine's chosen devices say, and whether they ended by themselves."""
    from vkbench_cli.show.waiting import RunProgress
    from vkbench_db.work.devices import store_device
    from vkbench_detection.compare.tryouts import tryout_of
    from vkbench_detection.steps import require
    from vkbench_local.machine import chosen_devices
    from vkbench_local.tryout import time_rounds
    from vkbench_scheduler.planning.tryouts import submit_tryout

    require()
    begun = time.monotonic()
    devices = chosen_devices(selectors, settings)
    with database.transaction() as tx:
        for facts in devices:
            store_device(tx, facts)
    names = [build.name or build.sha[:12] for build in (builds.old, builds.new)]
    words = RunWords(user=user_name(), label=f"try {names[0]} {names[1]}")
    run = submit_tryout(database, builds, selection, devices, words)
    left = budget - (time.monotonic() - begun)
    view = partial(RunProgress, database)
    ended = time_rounds(database, settings, run.id, devices, left, view)
    with database.reading() as tx:
        return tryout_of(tx, run.id, old=names[0], new=names[1]), ended


def _exit_code(tried: Tryout) -> int:
    from vkbench_detection.compare.tryouts import TryVerdict

    counts = tried.counts
    if counts[TryVerdict.WRONG]:
        return WrongResult.exit_code
    if counts[TryVerdict.FAILED]:
        return VkbenchError.exit_code
    if not tried.timed and not counts[TryVerdict.FIXED]:
        raise NothingToDo("no case was timed by both builds: --all shows why")
    return EXIT_REGRESSION if counts[TryVerdict.SLOWER] else EXIT_OK
