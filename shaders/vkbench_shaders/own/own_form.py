"""Makes any compiler's SPIR-V vkbench's own form.

That form has one entry point, named main, no source texts and no buffers that its functions never
name, and a workgroup size that every version of Vulkan takes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Final

from vkbench_shaders.compile import spirv
from vkbench_shaders.compile.spirv import Decoration, Instruction, MalformedSpirv, Op, text_of
from vkbench_shaders.own import uses

_MAIN: Final = (struct.unpack("<I", b"main")[0], 0)
_ENTRY_POINT, _IMPORT = 15, 11
_MODES: Final = (Op.EXECUTION_MODE, Op.EXECUTION_MODE_ID)
# what tells where in a source each instruction comes from: OpSourceContinued, OpSourceExtension,
# OpString, OpLine, OpNoLine, OpModuleProcessed
_OF_SOURCES: Final = frozenset({2, 4, 7, 8, 317, 330})


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
        kept, body = _without_lines(kept, body)
        kept = _without_unused(kept, uses.list_numbers(body))
        return spirv.portable(spirv.write(header, [*kept, *_numbers(kept)]) + body)
    except (LookupError, StopIteration, struct.error, ValueError) as error:
        raise MalformedSpirv("it is no SPIR-V module of a compute shader") from error


def _entry(instructions: Sequence[Instruction], name: str) -> int:
    """The number of the entry point asked for."""
    numbers = {text_of(ops[2:]): ops[1] for op, ops in instructions if op == _ENTRY_POINT}
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
        words = len(text_of(ops[2:]).encode()) // 4 + 1
        return op, (*ops[:2], *_MAIN, *ops[2 + words :])
    return None if op in _MODES and ops[0] != entry else instruction


def _without_lines(instructions: list[Instruction], body: bytes) -> tuple[list[Instruction], bytes]:
    """A module without lines and names of source files, unless other instructions point at them."""
    if any(
        op == _IMPORT and text_of(ops[1:]).startswith("NonSemantic.") for op, ops in instructions
    ):
        return instructions, body
    words = memoryview(body).cast("I")
    kept = [one for one in instructions if one[0] not in _OF_SOURCES]
    lines = [(at, end) for op, at, end in uses.instructions(words) if op in _OF_SOURCES]
    starts, ends = [0, *(end for _, end in lines)], [*(at for at, _ in lines), len(words)]
    pieces = (words[start:end].tobytes() for start, end in zip(starts, ends, strict=True))
    return kept, b"".join(pieces)


def _without_unused(instructions: list[Instruction], numbers: frozenset[int]) -> list[Instruction]:
    """A module without the buffers that its functions do not name, as headers declare for all."""
    bound = {
        ops[0] for op, ops in instructions if op == Op.DECORATE and ops[1] == Decoration.BINDING
    }
    unused = bound - numbers

    def keep(instruction: Instruction) -> Instruction | None:
        op, ops = instruction
        if op == _ENTRY_POINT:
            name = ops[: 2 + len(_MAIN)]
            return op, (*name, *(used for used in ops[len(name) :] if used not in unused))
        target = ops[1] if op == Op.VARIABLE else ops[0] if op in (Op.NAME, Op.DECORATE) else 0
        return None if target in unused else instruction

    return [one for instruction in instructions if (one := keep(instruction))]


def _numbers(instructions: Sequence[Instruction]) -> Iterator[Instruction]:
    """Names for what a launch gives values and a compiler gave no name.

    glslang makes a constant of its own for a workgroup's size that another constant has the number
    of: it gets that one's name.
    """
    named = {
        ops[0]: text for op, ops in instructions if op == Op.NAME and (text := text_of(ops[1:]))
    }
    special = [
        ops for op, ops in instructions if op == Op.DECORATE and ops[1] == Decoration.SPEC_ID
    ]
    by_number = {ops[2]: named[ops[0]] for ops in special if ops[0] in named}
    members = {ops[:2] for op, ops in instructions if op == Op.MEMBER_NAME and text_of(ops[2:])}
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
