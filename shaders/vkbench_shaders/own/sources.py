"""Compiles what a user's kernel is written in, by the compiler that its declaration names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from vkbench_shaders.compile import compiler
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.compile.spirv import MalformedSpirv
from vkbench_shaders.own import compilers
from vkbench_shaders.own.declaration import Recipe
from vkbench_shaders.own.own_form import own_form
from vkbench_shaders.own.records import UnfitDeclaration
from vkbench_shaders.own.slots import Buffer, buffers_of

MOST_SOURCE_BYTES: Final = 8 << 20


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """SPIR-V, and which compiler made it."""

    code: bytes
    named: bytes  # the same with names, where the compiler kept some
    buffers: Sequence[Buffer]  # that the source declares, those that nothing uses too
    by: str


def compile_source(recipe: Recipe) -> Compiled:
    """A variant's kernel; UnfitDeclaration carries a compiler's first complaint."""
    name = recipe.source.name
    try:
        if recipe.source.suffix == ".spv":
            _refuse_words(recipe, "SPIR-V, which nothing compiles")
            return _make_own(recipe.source.read_bytes(), recipe.entry, _made_by(recipe.source))
        if recipe.source.suffix == ".slang":
            return _from_slang(recipe)
        text, program = compilers.compile_text(recipe)
        if not compilers.optimises(recipe):
            return _make_own(text, "", program)
        named = _make_own(compilers.compile_unoptimised(recipe), "", program)
        return replace(named, code=own_form(text, ""))
    except MalformedSpirv as error:
        raise UnfitDeclaration(f"{name}: {error}") from error
    except compiler.CompileError as error:
        complaint = compilers.first_line(str(error).splitlines()[1:])
        raise UnfitDeclaration(f"{name}: {complaint}") from error


def _from_slang(recipe: Recipe) -> Compiled:
    if recipe.compiler not in ("", "slangc"):
        raise UnfitDeclaration(
            f"{recipe.source.name} is Slang, which the compiler '{recipe.compiler}' does not read: "
            "give slangc"
        )
    if recipe.preamble:
        raise UnfitDeclaration(
            f"{recipe.source.name} is Slang, which has no #version: leave out preamble"
        )
    slang = compiler.find()
    flags = (
        *(f"-D{name}={value}" for name, value in recipe.defines.items()),
        *(word for folder in recipe.include for word in ("-I", str(folder))),
        *recipe.flags,
    )
    unit = Unit(module=recipe.source.stem, entry=recipe.entry or "main")
    code = slang.compile(unit, recipe.source.parent, flags)
    return _make_own(code, "", f"slangc {slang.version}")


def _make_own(text: bytes, entry: str, by: str) -> Compiled:
    code = own_form(text, entry)
    return Compiled(code=code, named=code, buffers=buffers_of(text), by=by)


def _refuse_words(recipe: Recipe, what: str) -> None:
    words = (recipe.compiler, recipe.defines, recipe.include, recipe.flags, recipe.preamble)
    if any(words):
        raise UnfitDeclaration(
            f"{recipe.source.name} is {what}: leave out compiler, defines, include, flags and "
            "preamble"
        )


def _made_by(source: Path) -> str:
    """The compiler's number in a module's header, by Khronos's list."""
    number = int.from_bytes(source.read_bytes()[8:12], "little") >> 16
    return _GENERATORS.get(number, f"generator {number}")


# the number that each tool registered with Khronos
_GENERATORS: Final = {
    7: "spirv-as",
    8: "glslang",
    13: "shaderc",
    14: "dxc",
    21: "clspv",
    22: "MLIR",
    23: "tint",
    27: "rust-gpu",
    28: "naga",
    40: "slang",
    41: "zig",
}
