"""Users' own kernels: compiles what `--kernel-file` names, or reads them from a bundle."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.case import parse_shape
from vkbench.errors import UsageError
from vkbench.process.git import describe_folder
from vkbench.process.user import user_name

if TYPE_CHECKING:
    from vkbench_scheduler.planning.selection import OwnCases
    from vkbench_shaders.bundle import Bundle
    from vkbench_shaders.own.building import Built

Sources = Annotated[
    str,
    Option(
        metavar="REPOSITORY[:FOLDER]",
        help="Folder of the sources that the declaration names; default: its own.",
    ),
]


@cache
def build_own(
    path: Path,
    shapes: tuple[str, ...],
    seeds: tuple[int, ...] = (),
    *,
    batches: bool = False,
    sources: str = "",
) -> Built:
    """The kernel that a file declares, with its cases or those of other shapes, and more of them.

    Those are the cases with other inputs, by seeds, and the parts of their batches.
    """
    from vkbench_shaders.own.building import build

    sized, folder = [parse_shape(text) for text in shapes], folder_of_sources(sources)
    built = build(path, user_name(), sized, seeds, batches=batches, sources=folder)
    made_of = tuple(filter(None, [describe_folder(folder or path.parent)]))
    return replace(built, bundle=replace(built.bundle, made_of=made_of))


def refuse_sources(text: str) -> None:
    """UsageError for `--sources` where no declaration is given."""
    if text:
        raise UsageError("--sources are those of a --kernel-file FILE")


def folder_of_sources(text: str) -> Path | None:
    """The folder that `--sources` names; None where it names none."""
    if not text:
        return None
    repository, folder = split_sources(text)
    path = repository / folder
    if not path.is_dir():
        raise UsageError(f"--sources {text}: {path} is no folder")
    return path


def split_sources(text: str) -> tuple[Path, str]:
    """The repository of `--sources REPOSITORY[:FOLDER]`, and the folder in it."""
    repository, colon, folder = text.rpartition(":")
    if not colon or Path(text).is_dir():
        repository, folder = text, "."
    return Path(repository), folder or "."


def cases_of(bundle: Bundle | None, kernel: Built | None) -> OwnCases | None:
    """The cases that can be chosen of a bundle's declared kernel; None if it declares none.

    Of a kernel that was compiled just now, the parts of batches cannot.
    """
    from vkbench_scheduler.planning.own import cases_of as declared

    kernels = bundle.manifest.kernels if bundle else ()
    if not kernels:
        return None
    choices = declared(kernels[0])
    parts = kernel.parts if kernel else ()
    cases, seeded = (
        tuple(name for name in names if name not in parts)
        for names in (choices.cases, choices.seeded)
    )
    return replace(choices, cases=cases, seeded=seeded)
