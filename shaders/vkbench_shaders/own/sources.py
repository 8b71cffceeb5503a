"""Compiles what a user's kernel is written in, and makes any compiler's SPIR-V vkbench's own form.

That form has one entry point, named main, no source texts, and a workgroup size that every version
of Vulkan takes.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from vkbench_shaders.compile import compiler, spirv
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.compile.spirv import Decoration, Instruction, MalformedSpirv, Op
from vkbench_shaders.own.records import UnfitDeclaration

MOST_SOURCE_BYTES: Final = 8 << 20
SECONDS: Final = 120.0
_PLACE: Final = re.compile(r":\d+: ")  # file and line of a complaint
_MAIN: Final = (struct.unpack("<I", b"main")[0], 0)
_ENTRY_POINT: Final = 15
_MODES: Final = (Op.EXECUTION_MODE, Op.EXECUTION_MODE_ID)
# compilers of GLSL, with the words that ask for a compute shader of Vulkan 1.2
_GLSL: Final[Mapping[str, tuple[str, ...]]] = {
    "glslangValidator": ("-V", "--target-env", "vulkan1.2", "-S", "comp", "--quiet"),
    "glslang": ("-V", "--target-env", "vulkan1.2", "-S", "comp", "--quiet"),
    "glslc": ("--target-env=vulkan1.2", "-fshader-stage=compute"),
}


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """SPIR-V with its names, and which compiler made it."""

    code: bytes
    by: str


def compile_source(source: Path, entry: str) -> Compiled:
    """A source file's kernel; UnfitDeclaration carries a compiler's first complaint."""
    try:
        if source.suffix == ".spv":
            return Compiled(code=own_form(source.read_bytes(), entry), by=_made_by(source))
        if source.suffix == ".slang":
            slang = compiler.find()
            code = slang.compile(Unit(module=source.stem, entry=entry or "main"), source.parent)
            return Compiled(code=own_form(code, ""), by=f"slangc {slang.version}")
        return _from_glsl(source, entry)
    except MalformedSpirv as error:
        raise UnfitDeclaration(f"{source.name}: {error}") from error
    except compiler.CompileError as error:
        raise UnfitDeclaration(f"{source.name}: {_first(str(error).splitlines()[1:])}") from error


def own_form(code: bytes, entry: str) -> bytes:
    """A module with the entry point asked for, or its only one, as main.

    Push constants and specialisation constants without a name are named by their numbers.
    """
    try:
        header, instructions, body = spirv.read(code)
    except MalformedSpirv as error:
        raise MalformedSpirv("it is no SPIR-V module") from error
    try:
        number = _entry(instructions, entry)
        kept = [kept_one for one in instructions if (kept_one := _keep_instruction(one, number))]
        return spirv.portable(spirv.write(header, [*kept, *_numbers(kept)]) + body)
    except (LookupError, StopIteration, struct.error, ValueError) as error:
        raise MalformedSpirv("it is no SPIR-V module of a compute shader") from error


def _from_glsl(source: Path, entry: str) -> Compiled:
    program = next(filter(shutil.which, _GLSL), "")
    if not program:
        raise UnfitDeclaration(
            f"{source.name} is GLSL, and there is no {' or '.join(_GLSL)} here: install one "
            "(Debian: glslang-tools), or give SPIR-V"
        )
    if entry not in ("", "main"):
        raise UnfitDeclaration(f"{source.name} is GLSL, whose entry point is main, not {entry}")
    with TemporaryDirectory(prefix="vkbench-") as folder:
        out = Path(folder, "kernel.spv")
        done = _run([program, *_GLSL[program], "-o", str(out), str(source)], source)
        if done.returncode or not out.exists():
            lines = (done.stdout + done.stderr).splitlines()
            raise UnfitDeclaration(_first([line for line in lines if _PLACE.search(line)] or lines))
        return Compiled(code=own_form(out.read_bytes(), ""), by=program)


def _run(command: Sequence[str], source: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
    except subprocess.TimeoutExpired as error:
        raise UnfitDeclaration(f"{source.name} takes over {SECONDS:g} s to compile") from error


def _first(lines: Sequence[str]) -> str:
    """The line that says most, and the place that Slang puts below it; compilers say more."""
    complaint, *places = [line.strip() for line in lines if line.strip()] or ["it does not compile"]
    place = next((line for line in places[:1] if line.startswith("-->")), "")
    return f"{complaint} {place}".strip()


def _entry(instructions: Sequence[Instruction], name: str) -> int:
    """The number of the entry point asked for."""
    numbers = {_text(ops[2:]): ops[1] for op, ops in instructions if op == _ENTRY_POINT}
    if name in numbers:
        return numbers[name]
    if name or len(numbers) != 1:
        known = ", ".join(numbers) or "none"
        raise MalformedSpirv(f"it has the entry points {known}: say entry = one of them")
    return next(iter(numbers.values()))


def _keep_instruction(instruction: Instruction, entry: int) -> Instruction | None:
    """An instruction without what is of other entry points; the entry point itself as main."""
    op, ops = instruction
    if op == _ENTRY_POINT:
        if ops[1] != entry:
            return None
        words = len(_text(ops[2:]).encode()) // 4 + 1
        return op, (*ops[:2], *_MAIN, *ops[2 + words :])
    return None if op in _MODES and ops[0] != entry else instruction


def _numbers(instructions: Sequence[Instruction]) -> Iterator[Instruction]:
    """Names for what a launch gives values and a compiler gave no name.

    glslang makes a constant of its own for a workgroup's size that another constant has the number
    of: it gets that one's name.
    """
    named = {ops[0]: text for op, ops in instructions if op == Op.NAME and (text := _text(ops[1:]))}
    special = [
        ops for op, ops in instructions if op == Op.DECORATE and ops[1] == Decoration.SPEC_ID
    ]
    by_number = {ops[2]: named[ops[0]] for ops in special if ops[0] in named}
    members = {ops[:2] for op, ops in instructions if op == Op.MEMBER_NAME and _text(ops[2:])}
    for target, _, number in special:
        if target not in named:
            yield Op.NAME, (target, *_words(by_number.get(number, str(number))))
    for op, ops in instructions:
        if op == Op.TYPE_STRUCT:
            for at in range(len(ops) - 1):
                if (ops[0], at) not in members:
                    yield Op.MEMBER_NAME, (ops[0], at, *_words(str(at)))


def _words(text: str) -> tuple[int, ...]:
    padded = text.encode().ljust(len(text) // 4 * 4 + 4, b"\0")
    return struct.unpack(f"<{len(padded) // 4}I", padded)


def _text(words: Sequence[int]) -> str:
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode(errors="replace")


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
