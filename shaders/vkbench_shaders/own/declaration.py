"""Reads the file in which a user declares a kernel: TOML, each field checked, nothing run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final, TypeVar

from vkbench.errors import UsageError
from vkbench.process.toml_file import read_toml
from vkbench_shaders.own.formulas import Formula
from vkbench_shaders.own.matrix import FormatChoice, MatrixTable, choose_formats, combine
from vkbench_shaders.own.records import WORD, UnfitDeclaration

_ENDINGS: Final = (".comp", ".glsl", ".slang", ".hlsl", ".spv")

T = TypeVar("T")
Source = str | tuple[str, ...]  # of several files, the first that is there
Push = Mapping[str, Formula | tuple[Formula, ...]]
Place = int | str  # a binding's number, SET:NUMBER, or what the code calls a block
Places = Place | tuple[Place, ...]
Bound = Mapping[str, Places]

Defines = Mapping[str, str | int | float | bool]  # macros; true is 1, and false is left out


@dataclass(frozen=True, kw_only=True)
class BindingTable:
    """[[bindings]]: a storage buffer; of a shadow, where the code has one of the catalogue's."""

    name: str
    access: str = ""
    format: str = ""
    dims: tuple[str, ...] = ()
    exact: bool = False
    values: str = "noise"
    range: tuple[Formula, Formula] | None = None
    numbers: tuple[Formula, ...] = ()  # what an input holds, instead of values
    binding: Places | None = None  # None: its place in the list
    set: int = 0
    optional: bool = False  # whether some versions of the code have it under none of these names


@dataclass(frozen=True, kw_only=True)
class ScratchTable:
    """[[scratch]]: a buffer that the code has beside the kernel's arrays, and that none judges."""

    name: str
    format: str = ""  # of its numbers, with dims; else it has bytes
    dims: tuple[Formula, ...] = ()
    bytes: Formula | None = None
    binding: Places | None = None  # None: where steps say that they have it
    set: int = 0
    zero: bool = False  # before the first launch, and after every one again


@dataclass(frozen=True, kw_only=True)
class CodeTable:
    """What a declaration says of the code of a dispatch, and of its launch."""

    source: Source = ""
    entry: str = ""
    compiler: str = ""
    defines: Defines = field(default_factory=dict)
    include: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    preamble: str = ""  # text that is put behind #version
    groups: tuple[Formula, ...] = ()
    push: Push = field(default_factory=dict)
    constants: Mapping[str, Formula] = field(default_factory=dict)
    workgroup: tuple[Formula, ...] | None = None
    subgroup_size: int = 0  # that the code is for; 0: whatever the device has
    bindings: Bound | None = None  # arrays and scratch that it has, and where; None: as declared


@dataclass(frozen=True, kw_only=True)
class StepTable(CodeTable):
    """[[variants.steps]]: a dispatch of a code path that has several; the variant says the rest."""

    full_subgroups: bool | None = None  # None: the variant's


@dataclass(frozen=True, kw_only=True)
class VariantTable(CodeTable):
    """[[variants]]: a code path; what it says of its code holds for its steps, if it has some."""

    name: str
    full_subgroups: bool = False
    features: tuple[str, ...] = ()
    where: tuple[str, ...] = ()  # conditions of sizes, constants and limits; else it is skipped
    tolerance: str | Mapping[str, float] | None = None
    steps: tuple[StepTable, ...] = ()


Code = TypeVar("Code", StepTable, VariantTable)


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
    # how all variants are compiled; each may say more
    compiler: str = ""
    defines: Defines = field(default_factory=dict)
    include: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    preamble: str = ""
    bindings: tuple[BindingTable, ...] = ()
    scratch: tuple[ScratchTable, ...] = ()
    steps: tuple[StepTable, ...] = ()  # of variants that have no source and no steps of their own
    params: Mapping[str, int | float] = field(default_factory=dict)
    sizes: Mapping[str, Formula] = field(default_factory=dict)  # that follow from others
    matrix: MatrixTable | None = None
    variants: tuple[VariantTable, ...]
    cases: tuple[CaseTable, ...]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What a variant is compiled from, and how."""

    source: Path
    entry: str
    compiler: str  # "": any that knows the language
    defines: Mapping[str, str]
    include: tuple[Path, ...]  # folders
    flags: tuple[str, ...]
    preamble: str  # "": none


@dataclass(frozen=True, kw_only=True)
class Declared:
    """A declaration, and the folders that its files lie in."""

    path: Path
    table: Declaration
    sources: Path | None = None  # folder of the sources; None: the declaration's

    def file(self, name: str, endings: tuple[str, ...], most_bytes: int) -> Path:
        """A file that the declaration names; it lies in its folder, links followed."""
        return _file_in(self.path.resolve().parent, self.path.name, name, endings, most_bytes)

    @cached_property
    def choices(self) -> list[FormatChoice]:
        """The combinations of formats that code is compiled for."""
        return choose_formats(self.table.matrix)

    @property
    def codes(self) -> Iterator[tuple[VariantTable, FormatChoice]]:
        """Each variant as it is compiled for each combination of formats."""
        for variant in self.table.variants:
            for choice in self.choices:
                yield self.code(variant, choice), choice

    def code(self, variant: VariantTable, choice: FormatChoice) -> VariantTable:
        """A variant, with its steps, as it is compiled for a combination of formats."""
        is_compiled = variant.steps or not is_spirv(variant.source)
        macros = choice.defines if is_compiled else {}
        filled = replace(variant, defines={**variant.defines, **macros})
        steps = tuple(_fill(step, choice) for step in variant.steps)
        return replace(_fill(filled, choice), steps=steps)

    def recipe(self, variant: VariantTable, most_bytes: int) -> Recipe:
        """How a variant is compiled."""
        folder = self._source_folder
        whose = f"--sources {self.sources}" if self.sources else self.path.name
        names = files_of(variant.source)
        name = next((name for name in names if (folder / name).is_file()), " or ".join(names))
        return Recipe(
            source=_file_in(folder, whose, name, _ENDINGS, most_bytes),
            entry=variant.entry,
            compiler=variant.compiler,
            defines={
                name: str(int(value) if isinstance(value, bool) else value)
                for name, value in variant.defines.items()
                if value is not False
            },
            include=tuple(_include_folder(folder, name) for name in variant.include),
            flags=variant.flags,
            preamble=variant.preamble,
        )

    @property
    def _source_folder(self) -> Path:
        return (self.sources or self.path.parent).resolve()


def files_of(source: Source) -> tuple[str, ...]:
    """The files of which one is the source; none where nothing says."""
    return tuple(filter(None, (source,) if isinstance(source, str) else source))


def is_spirv(source: Source) -> bool:
    """Whether a source is SPIR-V, which nothing compiles."""
    return any(name.endswith(".spv") for name in files_of(source))


def _fill(table: Code, choice: FormatChoice) -> Code:
    """What is said of code, with the format of an array for its name in braces."""
    source = (name for given in files_of(table.source) for name in choice.fill_name(given))
    return replace(table, source=tuple(source), defines=choice.fill_each(table.defines))


def _file_in(
    folder: Path, whose: str, name: str, endings: tuple[str, ...], most_bytes: int
) -> Path:
    path = (folder / name).resolve()
    if Path(name).is_absolute() or not path.is_relative_to(folder):
        raise UnfitDeclaration(f"{name} is outside of the folder of {whose}")
    if path.suffix not in endings:
        raise UnfitDeclaration(f"{name} does not end in {', '.join(endings)}")
    if not path.is_file():
        raise UnfitDeclaration(f"{name} is no file in {folder}")
    if (size := path.stat().st_size) > most_bytes:
        raise UnfitDeclaration(f"{name} has {size} bytes; {most_bytes} are allowed")
    return path


def _include_folder(folder: Path, name: str) -> Path:
    path = (folder / name).resolve()
    if not path.is_dir():
        raise UnfitDeclaration(f"include: {name} is no folder in {folder}")
    return path


def read(path: Path, owner: str, sources: Path | None = None) -> Declared:
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
    for binding in declaration.bindings:
        _check_fields(path, declaration, binding)
    try:
        variants = tuple(_variants_of(declaration))
    except UnfitDeclaration as error:
        raise UsageError(f"{path}: {error}") from error
    if declaration.steps and all(each.source or each.steps for each in declaration.variants):
        raise UsageError(f"{path}: no variant has the [[steps]]: each has a source or steps itself")
    table = replace(declaration, owner=owner, variants=variants)
    return Declared(path=path, table=table, sources=sources)


def _variants_of(declaration: Declaration) -> Iterator[VariantTable]:
    """The variants, each once for each combination of [matrix], compiled as is said for all."""
    by_name = {variant.name: variant for variant in declaration.variants}
    matrix = declaration.matrix
    if matrix is None or len(by_name) < len(declaration.variants):
        yield from (_join(declaration, variant) for variant in declaration.variants)
        return  # where two have one name, that is said later
    for each in combine(matrix, list(by_name)):
        variant = _join(declaration, by_name[each.of])
        yield replace(
            variant,
            name=each.name,
            defines={**variant.defines, **each.defines},
            constants={**variant.constants, **each.constants},
            where=(*variant.where, *each.where),
        )


def _join(declaration: Declaration, variant: VariantTable) -> VariantTable:
    """A variant with what all are compiled with, and their steps; SPIR-V is not compiled."""
    steps = variant.steps or (() if variant.source else declaration.steps)
    variant = replace(_name_each(variant), steps=tuple(map(_name_each, steps)))
    if is_spirv(variant.source) and not steps:
        return variant
    return replace(
        variant,
        compiler=variant.compiler or declaration.compiler,
        defines={**declaration.defines, **variant.defines},
        include=(*variant.include, *declaration.include),
        flags=(*declaration.flags, *variant.flags),
        preamble=declaration.preamble + variant.preamble,
    )


def _name_each(table: Code) -> Code:
    push, constants = _spread_names(table.push), _spread_names(table.constants)
    return replace(table, push=push, constants=constants)


def _spread_names(given: Mapping[str, T]) -> dict[str, T]:
    """What is given by name, where a declaration may give one value to several: "ne00 ne10"."""
    return {name: value for names, value in given.items() for name in names.split()}


def _check_fields(path: Path, declaration: Declaration, binding: BindingTable) -> None:
    given = {"access": binding.access, "format": binding.format, "dims": binding.dims}
    matrix = declaration.matrix
    if matrix and any(binding.name in names for names in matrix.axes):
        del given["format"]
        if binding.format:
            raise UsageError(
                f"{path}: {binding.name} has its formats in [matrix]: leave out its format"
            )
    if declaration.shadows and (any(given.values()) or binding.numbers):
        raise UsageError(
            f"{path}: {binding.name} is {declaration.shadows}'s, and has its access, format and "
            "dims: give name and binding alone"
        )
    if binding.optional and binding.access == "out":
        raise UsageError(f"{path}: {binding.name} is an output, which no version may lack")
    if binding.numbers and (binding.access != "in" or binding.values != "noise" or binding.range):
        raise UsageError(
            f'{path}: {binding.name} has numbers, so its access is "in" and it has no values or '
            "range"
        )
    lacking = [name for name, value in given.items() if not value]
    if lacking and not declaration.shadows:
        raise UsageError(f"{path}: the binding {binding.name} lacks {', '.join(lacking)}")
