"""`vkbench driver`: drivers of Vulkan devices, which are things under test."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError
from vkbench.settings import settings
from vkbench_cli.commands.programs.driver_try import try_drivers
from vkbench_cli.drivers import kept_drivers
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import say, tell
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench.drivers.store import Driver

DRIVERS = (
    Column(key="name", heading="driver", rank=Rank.KEY),
    Column(key="sha", heading="files", kind=ValueKind.TEXT),
    Column(key="bytes", heading="size", kind=ValueKind.BYTES),
    Column(key="added_at", heading="added", kind=ValueKind.TIME),
    Column(key="manifest", heading="manifest", prose=True),
)
FILES = (
    Column(key="path", heading="file", rank=Rank.KEY),
    Column(key="bytes", heading="size", kind=ValueKind.BYTES),
    Column(key="sha", heading="SHA-256"),
)
NOTHING_YET = "no driver was added yet: `vkbench driver add NAME --icd FILE` adds one"

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)

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
) -> None:
    """Add a driver that kernels can be run through; prints the hash of its files.

    The loader's manifests of installed drivers lie in /usr/share/vulkan/icd.d and in
    /etc/vulkan/icd.d. Their files stay in place, and are held against their hashes before each
    run. With --folder all libraries of a folder are copied, so that your next build there is
    another driver. Nothing is loaded.

    \b
    vkbench driver add system --icd /usr/share/vulkan/icd.d/radeon_icd.x86_64.json
    vkbench driver add mine --folder ~/mesa/install
    """
    store = kept_drivers(settings())
    if folder:
        driver = store.add_folder(name, folder, icd)
    elif icd:
        driver = store.add(name, icd)
    else:
        raise UsageError("give the driver's manifest by --icd FILE, or a folder by --folder DIR")
    say(driver.sha)


@app.command("ls")
@spread
def list_drivers(*, output: Output) -> None:
    """List the drivers that were added on this machine."""
    rows = [_describe_driver(driver) for driver in kept_drivers(settings()).list_drivers()]
    show(Table(columns=DRIVERS, rows=rows, nothing=NOTHING_YET), output)


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


app.command("try")(try_drivers)


@app.command("rm")
def remove_driver(word: DriverWord) -> None:
    """Forget a driver; its results stay, and so do files that are not copies."""
    store = kept_drivers(settings())
    driver = store.find(word)
    store.remove(driver)
    tell(f"driver {driver.name} is forgotten")


def _describe_driver(driver: Driver) -> dict[str, Cell]:
    return {
        "name": driver.name,
        "sha": driver.sha,
        "bytes": driver.build.nbytes,
        "added_at": driver.build.added_at,
        "manifest": str(Path(driver.build.folder, driver.manifest))
        if driver.is_in_place
        else "copied",
    }
