"""Formulas of declarations: sums, products and quotients of numbers and names.

They are evaluated on the machine of whoever wrote them; a bundle carries what they give.
"""

from __future__ import annotations

import ast
import operator
import struct
from collections.abc import Callable, Mapping
from math import ceil
from typing import Final

from vkbench.words.names import nearest
from vkbench_shaders.own.launching.own_launch import LIMITS
from vkbench_shaders.own.records import SUBGROUP, UnfitDeclaration

Number = int | float
Formula = int | float | str

MOST_CHARACTERS: Final = 200
_LARGEST: Final = 2.0**63
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Number, Number], Number]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_WORDS: Final = "+ - * / // %, ceil_div, ceil_log2, pow, min, max, bits"
_COMPARISONS: Final[Mapping[type[ast.cmpop], tuple[str, Callable[[Number, Number], bool]]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
}


def _power(base: Number, exponent: Number) -> Number:
    size = float(abs(base)) ** exponent
    if not size <= 2 * _LARGEST:
        raise OverflowError
    if base < 0 and exponent != int(exponent):
        raise ValueError
    power: Number = base**exponent
    return power


def _ceil_log2(value: Number) -> int:
    """The least power of 2 that a number does not exceed: what fast divisions shift by."""
    if value < 1:
        raise ValueError
    return (ceil(value) - 1).bit_length()


_FUNCTIONS: Final[Mapping[str, Callable[..., Number]]] = {
    "ceil_div": lambda a, b: -(-a // b),
    "ceil_log2": _ceil_log2,
    "pow": _power,
    "min": min,
    "max": max,
    "bits": lambda a: int.from_bytes(struct.pack("<f", a), "little"),
}


def value_of(formula: Formula, names: Mapping[str, Number]) -> Number:
    """What a formula gives; UnfitDeclaration if it is none, or gives no sensible number."""
    if not isinstance(formula, str):
        value: Number = formula
    else:
        if len(formula) > MOST_CHARACTERS:
            raise UnfitDeclaration(f"a formula has over {MOST_CHARACTERS} characters")
        try:
            value = _evaluate_node(ast.parse(formula.strip(), mode="eval").body, names)
        except (SyntaxError, ValueError, RecursionError, MemoryError, TypeError) as error:
            raise UnfitDeclaration(f"'{formula}' is no formula of numbers and {_WORDS}") from error
        except ZeroDivisionError as error:
            raise UnfitDeclaration(f"'{formula}' divides by zero") from error
        except OverflowError as error:
            raise UnfitDeclaration(f"'{formula}' is too large a number") from error
    if not abs(value) <= _LARGEST:
        raise UnfitDeclaration(f"'{formula}' is {value:.3g}, too large a number")
    return value


def names_in(formula: Formula) -> frozenset[str]:
    """What a formula or a condition names; nothing where it is none."""
    if not isinstance(formula, str) or len(formula) > MOST_CHARACTERS:
        return frozenset()
    try:
        nodes = ast.walk(ast.parse(formula.strip(), mode="eval"))
        return (
            frozenset(node.id for node in nodes if isinstance(node, ast.Name)) - _FUNCTIONS.keys()
        )
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()


def holds(condition: str, names: Mapping[str, Number]) -> bool:
    """Whether a condition holds; UnfitDeclaration if it is none."""
    signs = dict(_COMPARISONS.values())
    return all(
        signs[sign](value_of(left, names), value_of(right, names))
        for left, sign, right in comparisons_in(condition)
    )


def comparisons_in(condition: str) -> list[tuple[str, str, str]]:
    """What a condition compares: two formulas, and the sign between them, each time."""
    refused = UnfitDeclaration(
        f"'{condition[:MOST_CHARACTERS]}' is no condition: give two formulas and one of "
        f"{' '.join(sign for sign, _ in _COMPARISONS.values())} between them"
    )
    if len(condition) > MOST_CHARACTERS:
        raise refused
    try:
        node = ast.parse(condition.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise refused from error
    if not isinstance(node, ast.Compare) or any(type(op) not in _COMPARISONS for op in node.ops):
        raise refused
    sides = [ast.unparse(side) for side in (node.left, *node.comparators)]
    signs = [_COMPARISONS[type(op)][0] for op in node.ops]
    return list(zip(sides, signs, sides[1:], strict=False))


def whole_number(formula: Formula, names: Mapping[str, Number]) -> int:
    """What a formula gives, which has to be a whole number."""
    value = value_of(formula, names)
    if value != int(value):
        raise UnfitDeclaration(f"'{formula}' is {value}, and has to be a whole number")
    return int(value)


def _evaluate_node(node: ast.expr, names: Mapping[str, Number]) -> Number:
    match node:
        case ast.Constant(value=bool()):
            raise ValueError
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name):
            if name not in names:
                raise UnfitDeclaration(_describe_unknown(name, names))
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_evaluate_node(operand, names)
        case ast.BinOp(left=left, op=sign, right=right) if type(sign) in _OPERATORS:
            return _OPERATORS[type(sign)](_evaluate_node(left, names), _evaluate_node(right, names))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](*(_evaluate_node(argument, names) for argument in args))
    raise ValueError


def _describe_unknown(name: str, names: Mapping[str, Number]) -> str:
    of_devices = (SUBGROUP, *LIMITS)
    if name in of_devices:
        return f"a formula names {name}, which only formulas of variants may name"
    near = nearest(name, [*names, *of_devices])
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"a formula names {name}, which is none of {', '.join(names) or 'none'}{hint}"
