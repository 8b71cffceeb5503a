"""`vkbench driver try`: kernels timed through two drivers in pairs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.case import parse_shape
from vkbench.errors import EXIT_INTERRUPTED, NothingToDo, UsageError
from vkbench.process.user import user_name
from vkbench.run import RunWords
from vkbench_cli.drivers import find_both_routes, kept_drivers, store_host_devices
from vkbench_cli.machine import open_alone
from vkbench_cli.options.choices import seconds_of
from vkbench_cli.options.records import Devices, Formats, Kernels, Shapes, Store, Suite
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output
from vkbench_cli.show.tryout import exit_code_of, show_tryout
from vkbench_detection.compare.tryouts import tryout_of
from vkbench_detection.steps import require
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.tryouts import TriedDrivers, submit_tryout

if TYPE_CHECKING:
    from vkbench.drivers.store import Driver
    from vkbench.settings import Settings

SUITE = "quick"


@spread
def try_drivers(
    *,
    old: Annotated[
        str, Option("--old", metavar="DRIVER", help="The driver to compare with: its name or hash.")
    ],
    new: Annotated[
        str, Option("--new", metavar="DRIVER", help="The driver to try: its name or hash.")
    ],
    suite: Suite = "",
    kernel: Kernels = [],  # noqa: B006 - Typer's own copy
    format: Formats = [],  # noqa: B006
    shape: Shapes = [],  # noqa: B006
    case: Annotated[
        list[str],
        Option(metavar="NAME", help="Only this case: its full name; may be repeated."),
    ] = [],  # noqa: B006
    variant: Annotated[
        str,
        Option(metavar="V", help="Variant to run; 'auto' is the best one that a driver supports."),
    ] = "auto",
    device: Devices = [],  # noqa: B006
    budget: Annotated[
        str,
        Option(metavar="TIME", help="Begin no pair after this time: seconds, or 10m, or 1h."),
    ] = "5m",
    seconds: Annotated[
        float,
        Option(metavar="S", min=0.001, help="Seconds to sample each side of a pair."),
    ] = 0.3,
    all_rows: Annotated[
        bool, Option("--all/--changed", help="Show cases that did not change too.")
    ] = False,
    markdown: Annotated[
        bool, Option("--markdown", help="Print a summary for GitHub, chat or mail.")
    ] = False,
    store: Store,
    output: Output,
) -> int:
    """Time kernels through two drivers in pairs, and say which are slower, faster or wrong.

    Each case is timed in turns, old, new, new, old, through each driver in a process that stays,
    and both are judged at every visit. Cases that seem to have changed are measured again until
    that is certain or the time is over; what is left of it goes to the others. Without options
    that choose cases, these are the suite `quick`.

    \b
    vkbench driver try --old system --new mine
    vkbench driver try --old system --new mine --kernel 'mul_mat*' --markdown

    Exit codes: 0 nothing became worse, 1 slower, 3 wrong, 4 a case fails, 7 nothing was compared,
    130 interrupted.
    """
    from vkbench_cli.show.waiting import RunProgress
    from vkbench_local.tryout import time_rounds

    if output.json + output.csv + markdown > 1:
        raise UsageError("only one of --json, --csv and --markdown can be printed")
    require()
    is_open = not any((suite, kernel, format, shape, case))
    selection = Selection(
        suite=SUITE if is_open else suite,
        kernels=tuple(kernel),
        formats=tuple(format),
        shapes=tuple(parse_shape(text) for text in shape),
        cases=tuple(case),
        variant=variant,
        measure_seconds=seconds,
    )
    limit, settings = seconds_of(budget, "--budget"), store.settings()
    drivers = _choose_drivers(old, new, settings)
    words = RunWords(user=user_name(), label=f"try {drivers[0].name} {drivers[1].name}")
    tried = TriedDrivers(old=drivers[0].sha, new=drivers[1].sha)
    with open_alone(settings) as database:
        routes = find_both_routes(*drivers, device, settings)
        devices = [route.facts for route in routes]
        store_host_devices(database, routes)
        run = submit_tryout(database, tried, selection, devices, words).id
        view = partial(RunProgress, database)
        ended = time_rounds(database, settings, run, devices, limit, view)
        with database.reading() as tx:
            tryout = tryout_of(tx, run, old=drivers[0].name, new=drivers[1].name)
    show_tryout(tryout, output, all_rows=all_rows, markdown=markdown)
    return exit_code_of(tryout) if ended else EXIT_INTERRUPTED


def _choose_drivers(old: str, new: str, settings: Settings) -> tuple[Driver, Driver]:
    store = kept_drivers(settings)
    before, after = store.find(old), store.find(new)
    if before.sha == after.sha:
        raise NothingToDo(f"{old} and {new} are one driver: there is nothing to compare")
    return before, after
