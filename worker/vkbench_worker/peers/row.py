"""How a library does a kernel of the catalogue: a row of its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vkbench_shaders.kernel import Problem

# An array as a library has it: what those of numpy, torch and ggml have in common has no type.
View = Any
Views = Mapping[str, View]
Arguments = Callable[[Problem, Views], tuple[object, ...]]  # the outputs last
# an output in our order, from what the library stored and, by name, what it was given
Order = Callable[[Problem, np.ndarray, Callable[[str], np.ndarray]], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Row:
    """How a library does a kernel."""

    function: str
    arguments: Arguments
    params: frozenset[str] = frozenset()  # that a case may have beside those about arrays
    fits: Callable[[Problem], str] = lambda problem: ""  # what of a case it cannot do, or ""
    converted: tuple[str, ...] = ()  # factors that may be in the working format
    # arithmetic whose limits apply; "": that of the plainest variant
    path: str | Callable[[Problem], str] = ""
    on_gpu: str = ""  # the same on a GPU
    factors: tuple[str, ...] = ()  # inputs that have to be of one format to be multiplied
    # the same where factors were rounded to the format of the narrowest
    rounded: Mapping[str, str] = field(default_factory=dict)
    # how an output that the library stores otherwise becomes ours
    order: Mapping[str, Order] = field(default_factory=dict)
