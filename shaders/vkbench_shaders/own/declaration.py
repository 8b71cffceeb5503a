"""Reads the file in which a user declares a kernel: TOML, each field checked, nothing run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from vkbench.errors import UsageError
from vkbench.process.toml_file import read_toml
from vkbench_shaders.own.formulas import Formula
from vkbench_shaders.own.records import WORD, UnfitDeclaration

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
    declaration = read_toml(path, Declaration)
    owner = declaration.owner or owner
    for what, word in (("owner", owner), ("name", declaration.name)):
        if not WORD.fullmatch(word):
            raise UsageError(
                f"{path}: the {what} is {word!r}: give letters, digits and _, a letter first"
            )
    return Declared(path=path, table=replace(declaration, owner=owner))
