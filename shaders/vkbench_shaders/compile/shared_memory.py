"""How much shared memory a SPIR-V module takes under its specialisation constants."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from vkbench_shaders.compile.spirv import Decoration, Instruction, MalformedSpirv, Op, read

_WORKGROUP: Final = 4  # storage class
_EXTRACT: Final = 81  # OpCompositeExtract, as of the workgroup's size
_WORD: Final = (1 << 32) - 1
# OpSpecConstantOp's operations that sizes of arrays are made with
_COMPUTE: Final[Mapping[int, Callable[..., int]]] = {
    114: lambda x: x,  # SConvert
    113: lambda x: x,  # UConvert
    124: lambda x: x,  # Bitcast
    128: operator.add,
    130: operator.sub,
    132: operator.mul,
    134: operator.floordiv,
    135: operator.floordiv,
    137: operator.mod,
    164: operator.eq,
    165: operator.ne,
    166: lambda x, y: x or y,
    167: lambda x, y: x and y,
    168: operator.not_,
    169: lambda condition, x, y: x if condition else y,
    170: operator.eq,
    171: operator.ne,
    172: operator.gt,
    173: operator.gt,
    174: operator.ge,
    175: operator.ge,
    176: operator.lt,
    177: operator.lt,
    178: operator.le,
    179: operator.le,
    194: operator.rshift,
    195: operator.rshift,
    196: operator.lshift,
    197: operator.or_,
    198: operator.xor,
    199: operator.and_,
}


def measure_shared_bytes(code: bytes, constants: Iterable[tuple[int, int]]) -> int:
    """Bytes of shared memory of a module, for values of its constants by their ids.

    An array whose length follows from what is not known here counts as none: the driver decides.
    """
    _, instructions, _ = read(code)
    pointers = {ops[0]: ops[2] for op, ops in instructions if op == Op.TYPE_POINTER}
    shared = [
        pointers[ops[0]] for op, ops in instructions if op == Op.VARIABLE and ops[2] == _WORKGROUP
    ]
    if not shared:
        return 0
    sizes = _Sizes(instructions, _list_values(instructions, dict(constants)))
    return sum(map(sizes.measure, shared))


def _list_values(instructions: list[Instruction], constants: Mapping[int, int]) -> dict[int, int]:
    """The whole numbers of a module by what stands for them."""
    ids = {
        ops[0]: ops[2]
        for op, ops in instructions
        if op == Op.DECORATE and ops[1] == Decoration.SPEC_ID
    }
    values: dict[int, int] = {}
    parts = {ops[1]: ops[2:] for op, ops in instructions if op == Op.SPEC_COMPOSITE}
    for op, ops in instructions:
        if op in (Op.CONSTANT, Op.SPEC_CONSTANT):
            values[ops[1]] = constants.get(ids.get(ops[1], -1), ops[2])
        elif op in (Op.SPEC_TRUE, Op.SPEC_FALSE):
            values[ops[1]] = constants.get(ids.get(ops[1], -1), int(op == Op.SPEC_TRUE))
        elif op == Op.SPEC_OPERATION and ops[2] == _EXTRACT and ops[3] in parts:
            values |= _compute(ops[1], int, [values.get(parts[ops[3]][ops[4]])])
        elif op == Op.SPEC_OPERATION and (compute := _COMPUTE.get(ops[2])):
            values |= _compute(ops[1], compute, [values.get(at) for at in ops[3:]])
    return values


def _compute(
    made: int, compute: Callable[..., int], operands: Sequence[int | None]
) -> dict[int, int]:
    """The number of one operation, if all that it is made of is known."""
    if None in operands:
        return {}
    try:
        return {made: int(compute(*operands)) & _WORD}
    except ZeroDivisionError:  # of a path that is not taken
        return {}


class _Sizes:
    """Bytes of types in shared memory, one after another."""

    def __init__(self, instructions: list[Instruction], values: Mapping[int, int]) -> None:
        self._values = values
        self._defined = {
            ops[0]: (op, ops) for op, ops in instructions if Op.TYPE_BOOL <= op <= Op.TYPE_STRUCT
        }

    def measure(self, kind: int) -> int:
        op, ops = self._defined[kind]
        if op in (Op.TYPE_INT, Op.TYPE_FLOAT):
            return ops[1] // 8
        if op == Op.TYPE_BOOL:
            return 4
        if op == Op.TYPE_VECTOR:
            return ops[2] * self.measure(ops[1])
        if op == Op.TYPE_ARRAY:
            return self._values.get(ops[2], 0) * self.measure(ops[1])
        if op == Op.TYPE_STRUCT:
            return sum(map(self.measure, ops[1:]))
        raise MalformedSpirv(f"shared memory holds a type of instruction {op}")
