"""The compilers of GLSL and HLSL that a declaration may name, and how each is called."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from vkbench_shaders.own.declaration import Recipe
from vkbench_shaders.own.records import UnfitDeclaration

SECONDS: Final = 120.0
_GLSLANG: Final = ("-V", "--target-env", "vulkan1.2", "-S", "comp", "--quiet")
_GLSLC: Final = ("--target-env=vulkan1.2", "-fshader-stage=compute")
_DXC: Final = ("-spirv", "-T", "cs_6_6", "-fspv-target-env=vulkan1.2")
_COMMON: Final = {  # the words that ask for a compute shader of Vulkan 1.2
    "glslangValidator": _GLSLANG,
    "glslang": _GLSLANG,
    "glslc": _GLSLC,
    "dxc": _DXC,
}
_PACKAGES: Final = {"glslc": "glslc"}  # of Debian; the others come with glslang-tools
_OF_GLSL: Final = ("glslangValidator", "glslang", "glslc")
_OF_HLSL: Final = ("dxc", "glslc")
_INCLUDES: Final = re.compile(rb"^\s*#\s*include\b", re.MULTILINE)
_INCLUDES_ASKED: Final = b"GL_GOOGLE_include_directive"  # without it glslang includes nothing
_VERSION: Final = re.compile(rb"^[ \t]*#[ \t]*version\b[^\n]*\n?", re.MULTILINE)
_PLACE: Final = re.compile(r":\d+: |\(\d+\): ")  # file and line of a complaint


def compile_text(recipe: Recipe) -> tuple[bytes, str]:
    """The SPIR-V of GLSL or HLSL, and which compiler made it."""
    program = _find_program(recipe)
    if program != "dxc" and recipe.entry not in ("", "main"):
        raise UnfitDeclaration(
            f"{recipe.source.name} is GLSL, whose entry point is main, not {recipe.entry}"
        )
    return _compile(program, recipe), program


def optimises(recipe: Recipe) -> bool:
    """Whether its flags have a compiler optimise: glslc and dxc leave out names then."""
    return any(flag.startswith("-O") for flag in recipe.flags)


def compile_unoptimised(recipe: Recipe) -> bytes:
    """The same as `compile_text`, with its names, and nothing optimised."""
    plain = tuple(flag for flag in recipe.flags if not flag.startswith("-O"))
    return _compile(_find_program(recipe), replace(recipe, flags=plain))


def first_line(lines: Sequence[str]) -> str:
    """The line that says most, and the place that Slang puts below it; compilers say more."""
    complaint, *places = [line.strip() for line in lines if line.strip()] or ["it does not compile"]
    place = next((line for line in places[:1] if line.startswith("-->")), "")
    return f"{complaint} {place}".strip()


def _find_program(recipe: Recipe) -> str:
    name, language = recipe.source.name, "HLSL" if recipe.source.suffix == ".hlsl" else "GLSL"
    known = _OF_HLSL if language == "HLSL" else _OF_GLSL
    if wish := recipe.compiler:
        if wish not in known:
            raise UnfitDeclaration(
                f"{name} is {language}, which the compiler '{wish}' does not read: "
                f"give {' or '.join(known)}"
            )
        if not shutil.which(wish):
            package = f" (Debian: {_PACKAGES.get(wish, 'glslang-tools')})" * (wish != "dxc")
            raise UnfitDeclaration(f"{name}: there is no {wish} here: install it{package}")
        return wish
    if language == "GLSL" and _needs_glslc(recipe.source.read_bytes()):
        known = ("glslc", *known)
    program = next(filter(shutil.which, known), "")
    if not program:
        package = " (Debian: glslang-tools)" if language == "GLSL" else ""
        raise UnfitDeclaration(
            f"{name} is {language}, and there is no {' or '.join(dict.fromkeys(known))} here: "
            f"install one{package}, or give SPIR-V"
        )
    return program


def _needs_glslc(text: bytes) -> bool:
    """Whether a source includes files, and does not ask glslang to allow that."""
    return bool(_INCLUDES.search(text)) and _INCLUDES_ASKED not in text


def _compile(program: str, recipe: Recipe) -> bytes:
    with TemporaryDirectory(prefix="vkbench-") as folder:
        out, source = Path(folder, "kernel.spv"), recipe.source
        if recipe.preamble:
            source = Path(folder, source.name)
            source.write_bytes(_put_behind_version(recipe.preamble, recipe.source.read_bytes()))
        done = _run(_command(program, recipe, source, out), source)
        if done.returncode or not out.exists():
            lines = (done.stdout + done.stderr).splitlines()
            placed = [line for line in lines if _PLACE.search(line)]
            complaints = [line for line in placed if "warning:" not in line.casefold()]
            complaint = first_line(complaints or lines)
            complaint = complaint.removeprefix("ERROR: ")
            for place in (source.parent, recipe.source.parent):
                complaint = complaint.replace(f"{place}/", "")
            raise UnfitDeclaration(complaint)
        return out.read_bytes()


def _put_behind_version(preamble: str, text: bytes) -> bytes:
    """A source with more text behind its #version, or before all; its lines keep their numbers."""
    found = _VERSION.search(text)
    head = text[: found.end()] if found else b""
    following = head.count(b"\n") + 1
    between = f"{preamble.rstrip()}\n#line {following}\n".encode()
    return (
        (head if not head or head.endswith(b"\n") else head + b"\n") + between + text[len(head) :]
    )


def _command(program: str, recipe: Recipe, source: Path, out: Path) -> list[str]:
    entry = ("-E", recipe.entry or "main") if program == "dxc" else ()
    into = "-Fo" if program == "dxc" else "-o"
    return [
        program,
        *_COMMON[program],
        *entry,
        *(f"-D{name}={value}" for name, value in recipe.defines.items()),
        *(f"-I{folder}" for folder in (recipe.source.parent, *recipe.include)),
        *recipe.flags,
        into,
        str(out),
        str(source),
    ]


def _run(command: Sequence[str], source: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=SECONDS, errors="replace"
        )
    except subprocess.TimeoutExpired as error:
        raise UnfitDeclaration(f"{source.name} takes over {SECONDS:g} s to compile") from error
