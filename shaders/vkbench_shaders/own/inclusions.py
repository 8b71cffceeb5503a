"""Tells whether a kernel's sources changed: the files that it is compiled from, and no others."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vkbench_shaders.own import declaration
from vkbench_shaders.own.declaration import Recipe
from vkbench_shaders.own.sources import MOST_SOURCE_BYTES
from vkbench_shaders.own.steps.dispatches import list_dispatches

_INCLUDE: Final = re.compile(rb'^\s*#\s*include\s*(?:"([^"\n]+)"|<([^>\n]+)>|(\w+))', re.MULTILINE)


def digest_of_sources(path: Path, owner: str, folder: Path) -> str:
    """SHA-256 of the files in a folder that may be part of the kernel that a file declares."""
    declared = declaration.read(path, owner, folder)
    recipes = [
        declared.recipe(step, MOST_SOURCE_BYTES)
        for code, _ in declared.codes
        for step in list_dispatches(code)
    ]
    files = {file for recipe in recipes for file in _files_of(recipe, folder.resolve())}
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(f"{os.path.relpath(file, folder.resolve())}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _files_of(recipe: Recipe, folder: Path) -> Iterator[Path]:
    """The source and what it includes, under any condition; all files where its text does not say.

    Slang imports modules by names, and a macro may be the name of what is included.
    """
    waiting, seen = [recipe.source], {recipe.source}
    while waiting:
        file = waiting.pop()
        yield file
        put_before = recipe.preamble.encode() if file == recipe.source else b""
        names = _INCLUDE.findall(put_before + file.read_bytes())
        if file.suffix == ".slang" or any(macro for *_, macro in names):
            yield from (path for path in folder.rglob("*") if path.is_file())
            return
        for quoted, angled, _ in names:
            name = (quoted or angled).decode(errors="replace")
            for place in (file.parent, recipe.source.parent, *recipe.include):
                included = (place / name).resolve()
                if included.is_file() and included not in seen:
                    seen.add(included)
                    waiting.append(included)
