"""Reads the file in which a user declares a kernel: TOML, each field checked, nothing run."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, get_args, get_type_hints

import msgspec

from vkbench.errors import UsageError
from vkbench.process.plain_file import open_plain
from vkbench.words import names
from vkbench_shaders.own.formulas import Formula
from vkbench_shaders.own.records import WORD, UnfitDeclaration

MOST_FILE_BYTES: Final = 1 << 20
MOST_DOTS: Final = 2000  # in a line: a name of a million parts takes hours to read
_ENDINGS: Final = (".comp", ".glsl", ".slang", ".spv")

Push = Mapping[str, Formula | tuple[Formula, ...]]


@dataclass(frozen=True, kw_only=True)
class BindingTable:
    """[[bindings]]: a storage buffer."""

    name: str
    access: str
    format: str
    dims: tuple[str, ...]
    exact: bool = False
    values: str = "noise"
    range: tuple[Formula, Formula] | None = None


@dataclass(frozen=True, kw_only=True)
class VariantTable:
    """[[variants]]: a code path."""

    name: str
    source: str
    entry: str = ""
    groups: tuple[Formula, ...]
    push: Push = field(default_factory=dict)
    constants: Mapping[str, Formula] = field(default_factory=dict)
    workgroup: tuple[int, ...] | None = None
    features: tuple[str, ...] = ()
    tolerance: str | Mapping[str, float] | None = None


@dataclass(frozen=True, kw_only=True)
class CaseTable:
    """[[cases]]: sizes, and what the kernel is checked with there."""

    shape: Mapping[str, int]
    params: Mapping[str, int | float | str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    npz: str = ""
    timed: bool = True


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """A user's whole file that declares a kernel."""

    name: str
    owner: str = ""
    description: str = ""
    shadows: str = ""
    deterministic: bool = True
    batch: str = ""  # dimension whose rows know nothing of each other
    flops: Formula = 0
    tolerance: str | Mapping[str, float] = "f32"
    reference: str = ""
    bindings: tuple[BindingTable, ...] = ()
    params: Mapping[str, int | float] = field(default_factory=dict)
    sizes: Mapping[str, Formula] = field(default_factory=dict)  # that follow from others
    variants: tuple[VariantTable, ...]
    cases: tuple[CaseTable, ...]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A declaration, and the folder that its files lie in."""

    path: Path
    table: Declaration

    def file(self, name: str, endings: tuple[str, ...], most_bytes: int) -> Path:
        """A file that the declaration names; it lies in its folder, links followed."""
        folder = self.path.resolve().parent
        path = (folder / name).resolve()
        if Path(name).is_absolute() or not path.is_relative_to(folder):
            raise UnfitDeclaration(f"{name} is outside of the folder of {self.path.name}")
        if path.suffix not in endings:
            raise UnfitDeclaration(f"{name} does not end in {', '.join(endings)}")
        if not path.is_file():
            raise UnfitDeclaration(f"{name} is no file in {folder}")
        if (size := path.stat().st_size) > most_bytes:
            raise UnfitDeclaration(f"{name} has {size} bytes; {most_bytes} are allowed")
        return path

    def source(self, variant: VariantTable, most_bytes: int) -> Path:
        """The file of a variant's source."""
        return self.file(variant.source, _ENDINGS, most_bytes)


def read(path: Path, owner: str) -> Declared:
    """The declaration in a file; its owner, where it names none, is the one given.

    UsageError says in one line which field is wrong, and why.
    """
    with open_plain(path) as file:
        text = file.read(MOST_FILE_BYTES + 1)
    if len(text) > MOST_FILE_BYTES:
        raise UsageError(f"{path} has over {MOST_FILE_BYTES} bytes: it is no declaration")
    if max(line.count(b".") for line in text.splitlines() or [b""]) > MOST_DOTS:
        raise UsageError(f"{path} has a line of over {MOST_DOTS} dots: it is no declaration")
    try:
        table = tomllib.loads(text.decode())
        _check_fields(table, Declaration, "")
        declaration = msgspec.convert(table, Declaration)
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8: byte {error.start} is wrong") from error
    except (msgspec.ValidationError, UsageError, UnfitDeclaration) as error:
        raise UsageError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:  # Python reads no number of 5,000 digits
        raise UsageError(f"{path} is no TOML: {error}") from error
    owner = declaration.owner or owner
    for what, word in (("owner", owner), ("name", declaration.name)):
        if not WORD.fullmatch(word):
            raise UsageError(
                f"{path}: the {what} is {word!r}: give letters, digits and _, a letter first"
            )
    return Declared(path=path, table=replace(declaration, owner=owner))


def _check_fields(table: object, kind: type, where: str) -> None:
    """UsageError for a field that a table may not have: msgspec would leave it out silently."""
    if not isinstance(table, dict):
        return  # msgspec says what it should be
    known = {item.name for item in fields(kind)}
    for name in table:
        names.pick(name, known, f"field of {where or 'the file'}")
    for name, inner in _hints(kind).items():
        rows = table.get(name)
        record = next((item for item in get_args(inner) if is_dataclass(item)), None)
        if isinstance(record, type) and isinstance(rows, list):
            for row in rows:
                _check_fields(row, record, f"[[{name}]]")


@cache
def _hints(kind: type) -> dict[str, object]:
    return get_type_hints(kind)
