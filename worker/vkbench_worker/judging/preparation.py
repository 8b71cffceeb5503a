"""What a case needs before it runs: inputs as they lie in memory, and its reference.

Both follow from the case alone. Weights that the case names come from the file that the job names,
if they are what the case says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from vkbench.case import WEIGHTS
from vkbench.job import Source
from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Array, Arrays, Layout, Problem
from vkbench_shaders.tolerance import limits_of
from vkbench_worker.judging.judge import Expected
from vkbench_worker.judging.rounding import round_values
from vkbench_worker.judging.weights import weights_of
from vkbench_worker.phases import phase
from vkbench_worker.runtime.program import POISON_A

EXACT: Final = "exact"  # the path whose limits look at nothing but the reference
LEAST_ROWS: Final = 64
# elementary steps that a reference may take before it is sampled: about as long as the job itself
WORK: Final = 2e8
_STEPS_AN_ITEM: Final = 20.0  # what making one float64 from its storage costs, in multiply-adds
_EDGES: Final = (32, 64, 128, 256)  # tile sizes whose first and last rows are looked at


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Inputs as flat storage arrays, and the expected outputs."""

    storages: Mapping[str, Array]
    expected: Expected  # with all that the limits of the path look at
    path: str = EXACT

    @property
    def nbytes(self) -> int:
        """Bytes that a prepared case holds."""
        held, expected = self.storages, self.expected
        arrays = (*held.values(), *expected.outputs.values(), *expected.deviations.values())
        return sum(array.nbytes for array in arrays)


def prepare(problem: Problem, source: Source | None = None, path: str = EXACT) -> Prepared:
    """Inputs and reference of a case that an arithmetic path will compute."""
    with phase("inputs"):
        inputs = problem.kernel.inputs(problem)
        if WEIGHTS in problem.case.params:
            inputs[problem.kernel.bindings[0].name] = weights_of(problem, source)
        storages = {
            name: lay_out_array(array, problem.layout(name)) for name, array in inputs.items()
        }
    with phase("reference"):
        prepared = Prepared(storages=storages, expected=expect(problem, inputs))
    return for_path(problem, prepared, path)


def expect(problem: Problem, inputs: Arrays) -> Expected:
    """The reference on given inputs: all rows where that is cheap, else a sample of them."""
    rows = sample_rows(problem)
    values = problem.kernel.check.reference(problem, inputs, rows)
    outputs = {
        name: _round_to_stored(array, problem.format(name)) for name, array in values.items()
    }
    return Expected(outputs=outputs, rows=rows)


def _round_to_stored(array: Array, fmt: Format) -> Array:
    """Numbers rounded to their format; those that become blocks stay, for they are judged so."""
    return array if fmt.quantised else round_values(array, fmt)


def for_path(problem: Problem, prepared: Prepared, path: str) -> Prepared:
    """The case with all that the limits of an arithmetic path look at."""
    rounding = limits_of(path).rounding
    if not rounding or rounding == limits_of(prepared.path).rounding:
        return prepared
    views = {
        name: problem.layout(name).view(storage) for name, storage in prepared.storages.items()
    }
    if problem.kernel.check.deviations is None:
        raise ValueError(f"{problem.kernel.name} does not say what rounding its factors does")
    with phase("reference"):
        deviations = problem.kernel.check.deviations(
            problem, views, prepared.expected.rows, rounding
        )
    return replace(prepared, expected=replace(prepared.expected, deviations=deviations), path=path)


def sample_rows(problem: Problem) -> Array | None:
    """Rows whose reference is worked out, sorted; None for all.

    The first and last ones, those at the edges of tiles, and seeded random ones.
    """
    if not problem.kernel.check.rows:
        return None
    count = problem.shape[problem.kernel.check.rows]
    items = sum(prod(problem.array_shape(b.name)) for b in problem.kernel.bindings)
    work = problem.flops / 2 + _STEPS_AN_ITEM * items
    most = max(LEAST_ROWS, int(count * WORK / work)) if work else count
    if most >= count:
        return None
    edges = {row for edge in _EDGES for row in (edge - 1, edge, count - edge, count - edge - 1)}
    rows = {row for row in {0, count - 1, *edges} if 0 <= row < count}
    random = np.random.Generator(np.random.Philox(key=problem.seed("rows")))
    for row in random.permutation(count):
        if len(rows) >= most:
            break
        rows.add(int(row))
    return np.array(sorted(rows))


def lay_out_array(array: Array, layout: Layout) -> Array:
    """An array as it lies in its buffer; gaps hold poison, so that reading one shows."""
    if layout == Layout.contiguous(array.shape):
        return np.ascontiguousarray(array).reshape(-1)
    size = layout.storage * array.itemsize
    flat = np.full(-(-size // 4), POISON_A, np.uint32).view(np.uint8)[:size].view(array.dtype)
    layout.view(flat)[...] = array
    return flat
