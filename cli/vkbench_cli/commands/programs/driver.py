"""`vkbench driver`: drivers of Vulkan devices, which are things under test."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench.drivers.packages import unpack_release
from vkbench.errors import EXIT_INTERRUPTED, NothingToDo, UsageError
from vkbench.settings import settings
from vkbench_cli.builds import make_build
from vkbench_cli.commands.programs.driver_prune import prune_drivers, tell_own_copies
from vkbench_cli.drivers import (
    driver_declared,
    find_both_routes,
    kept_drivers,
    store_host_devices,
)
from vkbench_cli.groups import CommandGroup
from vkbench_cli.machine import open_alone
from vkbench_cli.options.making import MakeOptions
from vkbench_cli.options.records import Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.options.try_options import TryOptions
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import say, tell
from vkbench_cli.show.tryout import await_rounds, exit_code_of, show_tryout
from vkbench_cli.store import open_database
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench.drivers.store import Driver
    from vkbench.settings import Settings
    from vkbench_db.database import Database
    from vkbench_scheduler.planning.selection import Selection

DRIVERS = (
    Column(key="name", heading="driver", rank=Rank.KEY),
    Column(key="sha", heading="files", kind=ValueKind.TEXT),
    Column(key="bytes", heading="size", kind=ValueKind.BYTES),
    Column(key="added_at", heading="added", kind=ValueKind.TIME),
    Column(key="commit", heading="made of", prose=True),
    Column(key="manifest", heading="manifest", prose=True),
)
FILES = (
    Column(key="path", heading="file", rank=Rank.KEY),
    Column(key="bytes", heading="size", kind=ValueKind.BYTES),
    Column(key="sha", heading="SHA-256"),
)
SUITE = "quick"  # that is tried where no option chooses cases
NOTHING_YET = "no driver was added yet: `vkbench driver add NAME --icd FILE` adds one"

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)

Timed = tuple[int, tuple[str, str], bool]  # a run, both names, and whether it came to its end

DriverWord = Annotated[
    str, Argument(metavar="DRIVER", help="Name of a driver, or the beginning of its hash.")
]


@app.callback()
def group() -> None:
    """Add drivers, and time kernels through one or another of them."""


@app.command("add")
def add_driver(
    name: Annotated[str, Argument(metavar="NAME", help="What to call it, such as mesa-26.1.")],
    icd: Annotated[
        Path | None,
        Option("--icd", metavar="FILE", help="The driver's manifest for the Vulkan loader."),
    ] = None,
    folder: Annotated[
        Path | None,
        Option("--folder", metavar="DIR", help="Copy the driver's libraries from this folder."),
    ] = None,
    packages: Annotated[
        str,
        Option(
            metavar="SUITE",
            help="Fetch and copy Mesa's driver --icd of this release of Debian: trixie, forky.",
        ),
    ] = "",
) -> None:
    """Add a driver that kernels can be run through; prints the hash of its files.

    The loader's manifests of installed drivers lie in /usr/share/vulkan/icd.d and in
    /etc/vulkan/icd.d. Their files stay in place, and are held against their hashes before each
    run. With --folder all libraries of a folder are copied, so that your next build there is
    another driver. With --packages they are unpacked from packages of another release, with the C
    library that they need; nothing is installed. Nothing is loaded.

    \b
    vkbench driver add system --icd /usr/share/vulkan/icd.d/radeon_icd.x86_64.json
    vkbench driver add mine --folder ~/mesa/install
    vkbench driver add trixie --packages trixie --icd lvp_icd.json
    """
    store = kept_drivers(settings())
    if packages and folder:
        raise UsageError("--packages are fetched: leave out --folder")
    if packages:
        root = unpack_release(packages, settings().cache / "packages", tell)
        driver = store.add_packages(name, packages, str(icd or ""), root)
    elif folder:
        driver = store.add_folder(name, folder, icd)
    elif icd:
        driver = store.add(name, icd)
    else:
        raise UsageError("give the driver's manifest by --icd FILE, or a folder by --folder DIR")
    say(driver.sha)


@app.command("make")
@spread
def make_driver(
    word: Annotated[
        str,
        Argument(metavar="FILE", help="The file that declares the driver, or the name in it."),
    ],
    *,
    options: MakeOptions,
) -> None:
    """Build a driver from a git revision, and add it; prints the hash of its files.

    The file says by which command the driver is built in a clean checkout, and where its libraries
    and its manifest lie afterwards, which are copied. The command runs in a temporary folder
    (TMPDIR), on this machine and with your rights, as `make` would: trust it as much. A revision
    is built once by the same command, and revisions that have the same files are one driver.

    \b
    vkbench driver make mesa.toml --repository ~/mesa --revision mesa-26.1.0
    vkbench driver make mesa.toml --repository ~/mesa --revision HEAD --name mine
    """
    from vkbench.drivers.store import DriverProduct

    current = settings()
    declared = driver_declared(word, current)
    product = DriverProduct(declared=declared, store=kept_drivers(current))
    say(make_build(product, current.driver_folder() / "logs", options).sha)


@app.command("ls")
@spread
def list_drivers(*, output: Output) -> None:
    """List the drivers that were added on this machine."""
    rows = [_describe_driver(driver) for driver in kept_drivers(settings()).list_drivers()]
    show(Table(columns=DRIVERS, rows=rows, nothing=NOTHING_YET), output)
    tell_own_copies(settings())


@app.command("show")
@spread
def show_driver(word: DriverWord, *, output: Output) -> None:
    """Show the files of a driver."""
    driver = kept_drivers(settings()).find(word)
    rows: list[dict[str, Cell]] = [
        {
            "path": str(Path(driver.build.folder, file.path)),
            "bytes": file.nbytes,
            "sha": file.sha,
        }
        for file in driver.build.files
    ]
    show(Table(columns=FILES, rows=rows), output)


@app.command("try")
@spread
def try_drivers(
    *,
    old: Annotated[
        str, Option("--old", metavar="DRIVER", help="The driver to compare with: its name or hash.")
    ],
    new: Annotated[
        str, Option("--new", metavar="DRIVER", help="The driver to try: its name or hash.")
    ],
    options: TryOptions,
    variant: Annotated[
        str,
        Option(metavar="V", help="Variant to run; 'auto' is the best one that a driver supports."),
    ] = "auto",
    submit: Annotated[
        bool, Option("--submit", help="Let the fleet's workers do it, and wait for them.")
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
    vkbench driver try --old mesa-26.0 --new mine --device '*' --submit

    Exit codes: 0 nothing became worse, 1 slower, 3 wrong, 4 a case fails, 7 nothing was compared,
    130 interrupted.
    """
    from vkbench_detection.compare.tryouts import tryout_of
    from vkbench_detection.steps import require

    options.check(output)
    require()
    current, selection = store.settings(), options.choose(SUITE, variant)
    with open_database(current) if submit else open_alone(current) as database:
        time_drivers = _time_in_fleet if submit else _time_here
        run, names, ended = time_drivers(database, current, (old, new), selection, options)
        with database.reading() as tx:
            tryout = tryout_of(tx, run, old=names[0], new=names[1])
    show_tryout(tryout, output, all_rows=options.all_rows, markdown=options.markdown)
    return exit_code_of(tryout) if ended else EXIT_INTERRUPTED


def _time_here(
    database: Database,
    current: Settings,
    pair: tuple[str, str],
    selection: Selection,
    options: TryOptions,
) -> Timed:
    """Time two drivers on the devices of this machine, with no server."""
    from vkbench_cli.show.waiting import RunProgress
    from vkbench_local.tryout import time_rounds
    from vkbench_scheduler.planning.tryouts import TriedDrivers, submit_tryout

    end = time.monotonic() + options.limit_seconds
    old, new = _choose_drivers(*pair, current)
    routes = find_both_routes(old, new, options.device, current)
    devices = [route.facts for route in routes]
    store_host_devices(database, routes)
    tried = TriedDrivers(old=old.sha, new=new.sha)
    words = options.say_words(old.name, new.name)
    limit = options.limit_seconds
    run = submit_tryout(database, tried, selection, devices, words, limit_seconds=limit).id
    view = partial(RunProgress, database)
    ended = time_rounds(database, current, run, devices, end - time.monotonic(), view)
    return run, (old.name, new.name), ended


def _time_in_fleet(
    database: Database,
    current: Settings,
    pair: tuple[str, str],
    selection: Selection,
    options: TryOptions,
) -> Timed:
    """Have the fleet's workers time two drivers, and wait for them."""
    from vkbench_cli.fleet_drivers import find_fleet_arms
    from vkbench_cli.show.waiting import warn
    from vkbench_db.ask import queries
    from vkbench_db.ask.devices.names import served_keys
    from vkbench_scheduler.planning.tryouts import TriedDrivers, submit_tryout

    end = time.monotonic() + options.limit_seconds
    with database.reading() as tx:
        known = [row.facts for row in queries.devices(tx)]
        keys = served_keys(tx, options.device)
    arms = find_fleet_arms(database, pair, keys)
    if len(arms) < len(pair):
        raise _refuse_equal(*pair)
    (old, old_name), (new, new_name) = arms.items()
    tried, chosen = TriedDrivers(old=old, new=new), replace(selection, devices=tuple(keys))
    words = options.say_words(old_name, new_name)
    limit = options.limit_seconds
    run = submit_tryout(database, tried, chosen, known, words, limit_seconds=limit).id
    warn(database, f"run {run}", run=run)
    return run, (old_name, new_name), await_rounds(database, run, end)


@app.command("rm")
def remove_driver(word: DriverWord) -> None:
    """Forget a driver; its results stay, and so do files that are not copies."""
    store = kept_drivers(settings())
    driver = store.find(word)
    store.remove(driver)
    tell(f"driver {driver.name} is forgotten")


app.command("prune")(prune_drivers)


def _describe_driver(driver: Driver) -> dict[str, Cell]:
    return {
        "name": driver.name,
        "sha": driver.sha,
        "bytes": driver.build.nbytes,
        "added_at": driver.build.added_at,
        "commit": driver.build.made_of,
        "manifest": str(Path(driver.build.folder, driver.manifest))
        if driver.is_in_place
        else "copied",
    }


def _choose_drivers(old: str, new: str, settings: Settings) -> tuple[Driver, Driver]:
    store = kept_drivers(settings)
    before, after = store.find(old), store.find(new)
    if before.sha == after.sha:
        raise _refuse_equal(old, new)
    return before, after


def _refuse_equal(old: str, new: str) -> NothingToDo:
    return NothingToDo(f"{old} and {new} are one driver: there is nothing to compare")
