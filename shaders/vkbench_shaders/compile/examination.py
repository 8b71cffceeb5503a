"""Examines a stranger's SPIR-V before a driver sees it: drivers crash, or worse, on what is wrong.

The whole module is read. It has to be one compute shader that needs no more than vkbench's own
kernels do, and takes from a launch what the bundle's manifest says of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from vkbench_shaders.bundle import MOST_CODE_BYTES, Entry
from vkbench_shaders.compile import reflection
from vkbench_shaders.compile.spirv import (
    LOCAL_SIZE,
    MAGIC,
    Decoration,
    Instruction,
    MalformedSpirv,
    Op,
)
from vkbench_shaders.launch import Interface

MOST_IDS: Final = 0x3FFFFF  # SPIR-V's own limit
MOST_PUSH_BYTES: Final = 4096  # devices take 128 to 4096
NEWEST_MINOR: Final = 6
_ENTRY_POINT, _EXT_INST_IMPORT = 15, 11
_FUNCTION_END, _FUNCTION_CALL = 56, 57
_GL_COMPUTE, _LOGICAL, _ADDRESSES = 5, 0, 5348
_INPUT, _UNIFORM, _WORKGROUP, _PRIVATE, _FUNCTION = 1, 2, 4, 6, 7
_PUSH_CONSTANT, _STORAGE_BUFFER = 9, 12
_OTHERS: Final = (_INPUT, _WORKGROUP, _PRIVATE, _FUNCTION, _PUSH_CONSTANT)
_BUFFERS: Final = {_UNIFORM: "a uniform buffer", _STORAGE_BUFFER: "a storage buffer"}
_DESCRIPTOR_SET = 34
FOLLOWS_ADDRESSES: Final = (
    "it follows addresses of buffers (PhysicalStorageBufferAddresses), whose bounds no driver "
    "checks: bind the buffers instead"
)
_SETS: Final = ("GLSL.std.450", "NonSemantic.")  # extended instructions, by how their names begin
# where an instruction before the functions has the number of what it makes
_RESULT_AT: Final = {
    _EXT_INST_IMPORT: 0,
    **dict.fromkeys((19, 20, 21, 22, 23, 24, 28, 29, 30, 32, 33, 4456), 0),
    **dict.fromkeys((41, 42, 43, 44, 46, 48, 49, 50, 51, 52, Op.VARIABLE), 1),
}


class UnfitSpirv(MalformedSpirv):
    """The module is not one that vkbench gives to a driver."""


@dataclass(frozen=True, kw_only=True)
class _Module:
    version: int
    bound: int
    head: list[Instruction]  # all before the first function


def examine(code: bytes, entry: Entry, interface: Interface) -> frozenset[int]:
    """The bindings that a module uses; UnfitSpirv says what is wrong with it, or untrue of it."""
    try:
        module = _read(code)
        _check_numbers(module)
        _check_kind(module)
        _check_manifest(code, entry, interface)
        return _bindings(module)
    except (MalformedSpirv, LookupError, ValueError, RecursionError, struct.error) as error:
        why = str(error) if isinstance(error, MalformedSpirv) else "it cannot be understood"
        raise UnfitSpirv(f"the code of {entry.key} is refused: {why}") from error
    except StopIteration as error:
        raise UnfitSpirv(f"the code of {entry.key} is refused: it lacks a definition") from error


def _read(code: bytes) -> _Module:
    if len(code) > MOST_CODE_BYTES:
        raise MalformedSpirv(f"it has {len(code)} bytes, and {MOST_CODE_BYTES} are allowed")
    if len(code) < 20 or len(code) % 4:
        raise MalformedSpirv("it is no module")
    words = memoryview(code).cast("I")
    magic, version, _, bound, schema = words[:5]
    if magic != MAGIC or schema:
        raise MalformedSpirv("it is no module")
    if version & 0xFF0000FF or version >> 16 != 1 or version >> 8 & 0xFF > NEWEST_MINOR:
        raise MalformedSpirv(f"its version is {version:#x}")
    if not 0 < bound <= MOST_IDS:
        raise MalformedSpirv(f"it says that it has {bound} numbers")
    head: list[Instruction] = []
    functions: set[int] = set()
    called: set[int] = set()
    depth = 0
    for op, at, end in _instructions(words):
        if op == Op.FUNCTION:
            functions.update(words[at + 2 : at + 3])
            depth += 1
        elif op == _FUNCTION_END:
            depth -= 1
        elif op == _FUNCTION_CALL:
            called.update(words[at + 3 : at + 4])
        elif not functions:
            head.append((op, tuple(words[at + 1 : end])))
            if op == _ENTRY_POINT:
                called.update(words[at + 2 : at + 3])
        if depth not in (0, 1):
            raise MalformedSpirv("its functions do not end as they begin")
    if depth or not called <= functions:
        raise MalformedSpirv("it lacks a function, or the end of one")
    return _Module(version=version, bound=bound, head=head)


def _instructions(words: memoryview[int]) -> Iterator[tuple[int, int, int]]:
    """The opcode of each instruction, and where it begins and ends."""
    at = 5
    while at < len(words):
        length, op = words[at] >> 16, words[at] & 0xFFFF
        if not length or at + length > len(words):
            raise MalformedSpirv(f"an instruction at word {at} is cut off")
        yield op, at, at + length
        at += length


def _check_numbers(module: _Module) -> None:
    made: set[int] = set()
    for op, operands in module.head:
        if op in (Op.DECORATE, Op.MEMBER_DECORATE, Op.NAME, Op.MEMBER_NAME):
            numbers = operands[:1]
        elif op in _RESULT_AT:
            numbers = operands[_RESULT_AT[op] : _RESULT_AT[op] + 1]
            if made.intersection(numbers):
                raise MalformedSpirv(f"number {numbers[0]} is made twice")
            made.update(numbers)
        else:
            continue
        if not numbers or not 0 < numbers[0] < module.bound:
            raise MalformedSpirv(f"instruction {op} names a number beyond the bound")


def _check_kind(module: _Module) -> None:
    entries = [operands for op, operands in module.head if op == _ENTRY_POINT]
    if [ops[0] for ops in entries] != [_GL_COMPUTE] or _text(entries[0][2:]) != "main":
        raise MalformedSpirv("it is not one compute shader named main")
    models = [operands[0] for op, operands in module.head if op == Op.MEMORY_MODEL]
    if _ADDRESSES in models:
        raise MalformedSpirv(FOLLOWS_ADDRESSES)
    if models != [_LOGICAL]:
        raise MalformedSpirv("its addresses are not logical")
    modes = {operands[1] for op, operands in module.head if op == Op.EXECUTION_MODE}
    if modes - {LOCAL_SIZE} or any(op == Op.EXECUTION_MODE_ID for op, _ in module.head):
        raise MalformedSpirv("it has execution modes beside a workgroup size")
    for op, operands in module.head:
        if op == _EXT_INST_IMPORT and not _text(operands[1:]).startswith(_SETS):
            raise MalformedSpirv(f"it imports {_text(operands[1:])[:40]!r}")


def _check_manifest(code: bytes, entry: Entry, interface: Interface) -> None:
    actual = reflection.form(code)
    if unknown := [name for name in actual.capabilities if name.isdigit()]:
        raise MalformedSpirv(f"it needs capability {unknown[0]}, which no kernel of vkbench does")
    if any(max(offset, 4 * count) >= MOST_PUSH_BYTES for _, count, offset in actual.push):
        raise MalformedSpirv(f"its push constants take {MOST_PUSH_BYTES} bytes or more")
    claims: Sequence[tuple[str, object, object]] = (
        ("bytes", len(code), entry.bytes),
        ("capabilities", actual.capabilities, tuple(entry.capabilities)),
        ("workgroup size", actual.local_size, entry.local_size),
        ("push constants", actual.push, [(p.type, p.count, p.offset) for p in interface.push]),
        ("specialisation constants", actual.constants, {c.id: c.type for c in interface.constants}),
        ("constants of its size", actual.sized_by, _sizing(interface)),
    )
    for what, measured, claimed in claims:
        if measured != claimed:
            raise MalformedSpirv(
                f"its {what}: {_short(measured)}; by the manifest: {_short(claimed)}"
            )


def _sizing(interface: Interface) -> tuple[int | None, ...]:
    ids = {constant.name: constant.id for constant in interface.constants}
    return tuple(ids[name] if name else None for name in interface.sized_by)


def _bindings(module: _Module) -> frozenset[int]:
    """The numbers of the buffers; each is a block by itself, in set 0, and of one kind."""
    kinds = {ops[0]: op for op, ops in module.head if op == Op.TYPE_STRUCT}
    pointers = {ops[0]: ops[1:3] for op, ops in module.head if op == Op.TYPE_POINTER}
    decorated = {
        (ops[0], ops[1]): ops[2]
        for op, ops in module.head
        if op == Op.DECORATE
        and ops[1] in (Decoration.BINDING, _DESCRIPTOR_SET, Decoration.BUILT_IN)
    }
    old = {
        ops[0] for op, ops in module.head if op == Op.DECORATE and ops[1] == Decoration.BUFFER_BLOCK
    }
    numbers: dict[int, int] = {}  # and their kinds
    for op, ops in module.head:
        if op != Op.VARIABLE:
            continue
        if ops[2] not in (*_OTHERS, *_BUFFERS):
            raise MalformedSpirv(f"it has a variable of storage class {ops[2]}")
        if ops[2] == _INPUT and (ops[1], Decoration.BUILT_IN) not in decorated:
            raise MalformedSpirv("it has an input that is not built in")
        if ops[2] in _BUFFERS:
            kind, block = pointers[ops[0]]
            number = decorated[ops[1], Decoration.BINDING]
            if kind != ops[2]:
                raise MalformedSpirv(f"binding {number} is of another kind than its pointer")
            if decorated.get((ops[1], _DESCRIPTOR_SET)) != 0 or block not in kinds or block in old:
                raise MalformedSpirv("it has a buffer that is no block in set 0")
            if numbers.setdefault(number, ops[2]) != ops[2]:
                raise MalformedSpirv(
                    f"binding {number} is {' and '.join(_BUFFERS.values())} at once"
                )
    return frozenset(numbers)


def _text(words: Sequence[int]) -> str:
    return struct.pack(f"<{len(words)}I", *words).split(b"\0")[0].decode(errors="replace")


def _short(value: object) -> str:
    return str(value)[:80]
