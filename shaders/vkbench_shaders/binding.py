"""What a kernel is given: storage buffers, and parameters, which may switch some of them off."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vkbench.case import SEED, WEIGHTS, Value
from vkbench.errors import UsageError
from vkbench.words import names


@dataclass(frozen=True, kw_only=True)
class Binding:
    """One storage buffer of a kernel; its place in the tuple is its Vulkan binding number."""

    name: str
    access: str  # in | out | inout: changed in place, its input there before every checked run
    types: tuple[str, ...]  # formats it may hold, the default first
    dims: tuple[str, ...]  # outermost first; a quantised format's blocks run along the last
    same_as: str = ""  # the binding whose format it always has, if any
    exact: bool = False  # an output judged bit for bit, whatever the path of what lies beside it
    description: str = ""
    # parameters and their values with which an input is read; with others its array is one number
    when: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)

    def is_read(self, params: Mapping[str, Value]) -> bool:
        """Whether parameters leave an input switched on."""
        return all(params[name] in values for name, values in self.when.items())

    @property
    def is_input(self) -> bool:
        """Whether a launch reads what the caller gives."""
        return self.access in ("in", "inout")

    @property
    def is_output(self) -> bool:
        """Whether a launch writes to it."""
        return self.access in ("out", "inout")


@dataclass(frozen=True, kw_only=True)
class Param:
    """A parameter of a kernel that is neither a size nor a format."""

    default: Value
    choices: tuple[Value, ...] = ()  # empty: any value of the default's type
    description: str = ""
    least: int | None = None  # smallest value, if numbers have one

    def with_choices(self, *more: Value) -> Param:
        """The same parameter with further choices."""
        return replace(self, choices=(*self.choices, *more))

    def chosen(self, value: Value, what: str) -> Value:
        """A value as declared, whatever its case; UsageError for one that may not be."""
        if self.choices:
            by_text = {str(choice): choice for choice in self.choices}
            return by_text[names.pick(str(value), by_text, what)]
        if not isinstance(value, type(self.default)):
            raise UsageError(f"the {what} is a {type(self.default).__name__}; got {value!r}")
        if self.least is not None and not isinstance(value, str) and value < self.least:
            raise UsageError(f"the {what} is at least {self.least}; got {value}")
        return value


def tensor_hash(value: Value) -> str:
    """The parameter `weights`: what a tensor hashes to."""
    if not re.fullmatch("[0-9a-f]{16}", str(value)):
        raise UsageError(f"{WEIGHTS} is the SHA-256 of a tensor, its first 16 digits; got {value}")
    return str(value)


def seed_of(value: Value) -> int:
    """The parameter `seed`: a whole number."""
    if not isinstance(value, int) or value < 0:
        raise UsageError(f"{SEED} is a whole number of at least 0; got {value}")
    return value
