"""`vkbench bundle`: compiles shader trees into bundles, which are kept by their hash."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from vkbench.errors import UsageError, VkbenchError
from vkbench.process.git import describe_folder
from vkbench.settings import settings
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.records import Kernels
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import say
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_shaders.bundle import Bundle, BundleStore
    from vkbench_shaders.kernel import Kernel

COLUMNS = (
    Column(key="sha", heading="bundle", rank=Rank.KEY),
    Column(key="name", heading="name"),
    Column(key="kernels", heading="kernels", kind=ValueKind.COUNT),
    Column(key="bytes", heading="size", kind=ValueKind.BYTES),
    Column(key="compiler", heading="Slang"),
    Column(key="commit", heading="made of", prose=True),
    Column(key="trouble", heading="trouble", prose=True),
)

app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Build and list sets of compiled kernels."""


@app.command()
def build(
    tree: Annotated[Path, Argument(metavar="TREE", help="Folder of the shader tree to compile.")],
    out: Annotated[
        Path | None,
        Option("--output", "-o", metavar="DIR", help="Also write the bundle to this folder."),
    ] = None,
    kernels: Kernels = [],  # noqa: B006 (typer copies it)
) -> None:
    """Compile a shader tree into a bundle; prints its hash.

    The bundle is kept on this machine. Run or submit it with `--bundle` and its hash, or the
    beginning of it. Workers fetch bundles that they lack, so that a local edit runs on the whole
    fleet. Only changed kernels are compiled. With `--kernel` the bundle has those kernels alone.
    """
    from vkbench_shaders.bundle import kept_bundles
    from vkbench_shaders.compile.build import build as compile_tree
    from vkbench_shaders.compile.cached import progress_bar

    if not tree.is_dir():
        raise UsageError(f"{tree} is not a folder")
    _check_folder(out)
    with TemporaryDirectory(prefix="vkbench-") as scratch:
        bundle = compile_tree(
            tree, out or Path(scratch, "bundle"), progress_bar(), kernels=_choose_kernels(kernels)
        )
        kept = kept_bundles(settings())
        kept.put(bundle)
        kept.note_origin(bundle.sha, describe_folder(tree))
    say(bundle.sha)


@app.command("tree")
def copy_tree(
    folder: Annotated[Path, Argument(metavar="FOLDER", help="Folder to make.")],
) -> None:
    """Copy the packaged shader tree to a new folder, to edit it there."""
    from vkbench_shaders.compile.tree import TREE

    if folder.exists():
        raise UsageError(f"{folder} exists already: give another folder")
    shutil.copytree(TREE, folder)
    folder.chmod(0o700)  # what people change there is theirs
    say(f"vkbench bundle build {folder}")


@app.command("ls")
@spread
def list_(*, output: Output) -> None:
    """List the packaged bundle and the bundles kept on this machine."""
    from vkbench_shaders.bundle import kept_bundles

    kept = kept_bundles(settings())
    rows = {row["sha"]: row for row in (_row(kept, sha) for sha in ("", *kept.list()))}
    show(Table(columns=COLUMNS, rows=list(rows.values())), output)


def _choose_kernels(globs: Sequence[str]) -> Sequence[Kernel]:
    from vkbench_shaders.catalogue import KERNELS, matching

    names = {name for glob in globs for name in matching(glob)}
    return [kernel for kernel in KERNELS if not globs or kernel.name in names]


def _check_folder(out: Path | None) -> None:
    # a bundle's folder is its own: blobs of an older one are removed from it
    if out is None or not out.exists() or (out / "manifest.json").is_file():
        return
    if not out.is_dir() or any(out.iterdir()):
        raise UsageError(f"{out} is neither empty nor a bundle: give another folder")


def _row(kept: BundleStore, sha: str) -> dict[str, Cell]:
    try:
        bundle = kept.get(sha).check()
        return _describe_bundle(bundle) | {"commit": kept.list_origins(bundle.sha)}
    except VkbenchError as error:
        return {"sha": sha, "name": "" if sha else "packaged", "trouble": str(error)}


def _describe_bundle(bundle: Bundle) -> dict[str, Cell]:
    return {
        "sha": bundle.sha,
        "name": bundle.name if bundle.name != bundle.sha else _list_own_kernels(bundle),
        "kernels": len(bundle.entries),
        "bytes": sum(map(len, bundle.blobs.values())),
        "compiler": bundle.manifest.slang,
        "trouble": "",
    }


def _list_own_kernels(bundle: Bundle) -> str:
    """The names of kernels of users that a bundle declares."""
    return ", ".join(kernel.name for kernel in bundle.manifest.kernels)
