"""Several declarations of kernels at once: files that are named, and those of folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from vkbench.errors import NothingToDo, UsageError
from vkbench.words.units import count_of
from vkbench_cli.show.telling import tell

T = TypeVar("T")
_MARK = "[[variants]]"  # what a TOML file has that declares a kernel


def find_declarations(paths: Sequence[Path]) -> list[Path]:
    """The files that are named, and of each folder its TOML files that declare a kernel.

    The others of a folder are named on stderr, each in a line.
    """
    return list(dict.fromkeys(file for path in paths for file in _find_files(path)))


def for_each_declaration(files: Sequence[Path], do: Callable[[Path], T]) -> list[T]:
    """What `do` gives for each file; a line says which were skipped, and why.

    UsageError if all were. What is wrong with a single file is raised as it is.
    """
    if len(files) == 1:
        return [do(files[0])]
    done = []
    for file in files:
        try:
            done.append(do(file))
        except (UsageError, NothingToDo) as error:
            tell(f"skipped {_with_path(file, str(error))}")
    if not done:
        raise UsageError(f"none of {count_of(len(files), 'declaration')} can be run")
    return done


def _find_files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    files = sorted(path.glob("*.toml"))
    declarations = [file for file in files if _declares_kernel(file)]
    if not declarations:
        raise UsageError(f"the folder {path} has no TOML file that declares a kernel")
    for file in files:
        if file not in declarations:
            tell(f"skipped {file}: it declares no kernel: it has no {_MARK}")
    yield from declarations


def _declares_kernel(file: Path) -> bool:
    return file.is_file() and _MARK in file.read_text(errors="replace")


def _with_path(file: Path, complaint: str) -> str:
    return complaint if complaint.startswith(str(file)) else f"{file}: {complaint}"
