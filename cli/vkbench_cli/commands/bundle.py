"""`vkbench bundle`: sets of compiled kernels, made from a shader tree and kept by their hash."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError, VkbenchError
from vkbench.settings import settings
from vkbench_cli.layout import Rank
from vkbench_cli.options import Output, spread
from vkbench_cli.printing import Cell, Column, Kind, Table, show

if TYPE_CHECKING:
    from vkbench_shaders.bundle import Bundle, BundleStore

COLUMNS = (
    Column(key="sha", heading="bundle", rank=Rank.KEY),
    Column(key="name", heading="name"),
    Column(key="kernels", heading="kernels", kind=Kind.COUNT),
    Column(key="bytes", heading="size", kind=Kind.BYTES),
    Column(key="compiler", heading="Slang"),
    Column(key="trouble", heading="trouble", prose=True),
)

app = Typer(rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Build and list sets of compiled kernels."""


@app.command()
def build(
    tree: Annotated[Path, Argument(metavar="TREE", help="Folder of an edited shader tree.")],
    out: Annotated[
        Path | None, Option("--output", "-o", metavar="DIR", help="Write a copy to this folder.")
    ] = None,
) -> None:
    """Compile a shader tree; prints the bundle's hash.

    The bundle is kept on this machine; `--bundle` with its hash, or the beginning of it, runs or
    submits it. Workers fetch a bundle that they lack, so that a local edit runs on the whole fleet.
    Only what has changed is compiled.
    """
    from vkbench_shaders.build import build as compile_tree
    from vkbench_shaders.build import progress_bar

    if not tree.is_dir():
        raise UsageError(f"{tree} is no folder")
    _check_folder(out)
    with TemporaryDirectory(prefix="vkbench-") as scratch:
        bundle = compile_tree(tree, out or Path(scratch, "bundle"), progress_bar())
        kept().put(bundle)
    print(bundle.sha)


@app.command("ls")
@spread
def list_(*, output: Output) -> None:
    """List the packaged bundle and those kept on this machine."""
    rows = {row["sha"]: row for row in map(_row, ["", *kept().list()])}
    show(Table(columns=COLUMNS, rows=list(rows.values())), output)


def kept() -> BundleStore:
    """The bundles of this machine."""
    from vkbench_shaders.bundle import BundleStore

    return BundleStore(settings().cache / "bundles")


def _check_folder(out: Path | None) -> None:
    # a bundle's folder is its own: blobs of an older one are removed from it
    if out is None or not out.exists() or (out / "manifest.json").is_file():
        return
    if not out.is_dir() or any(out.iterdir()):
        raise UsageError(f"{out} is neither empty nor a bundle: nothing is written there")


def _row(sha: str) -> dict[str, Cell]:
    try:
        return _described(kept().get(sha))
    except VkbenchError as error:
        return {"sha": sha, "name": "" if sha else "packaged", "trouble": str(error)}


def _described(bundle: Bundle) -> dict[str, Cell]:
    return {
        "sha": bundle.sha,
        "name": bundle.name if bundle.name != bundle.sha else "",
        "kernels": len(bundle.entries),
        "bytes": sum(map(len, bundle.blobs.values())),
        "compiler": bundle.manifest.slang,
        "trouble": "",
    }
