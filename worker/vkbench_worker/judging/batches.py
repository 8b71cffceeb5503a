"""Checks that a row's bits do not depend on the number of rows, by launches over parts of them.

Each part has the inputs of its rows, and is computed by the same code path as a job of that size
would be, with the settings that it would choose. Its bits have to be those of the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from vkbench.errors import UsageError
from vkbench.result import Verdict
from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Array, Arrays, Problem
from vkbench_shaders.kernels.batches import Part, is_independent, parts
from vkbench_shaders.own.posing import NotDeclared
from vkbench_worker.judging.judge import Expected
from vkbench_worker.judging.preparation import expect
from vkbench_worker.judging.rounding import bits, is_float, widen_values
from vkbench_worker.runtime.errors import Unsupported


@dataclass(frozen=True, kw_only=True)
class Whole:
    """A case that was judged right, with its inputs and outputs, and how it ran."""

    problem: Problem
    inputs: Arrays
    outputs: Mapping[str, Array]
    expected: Expected
    path: str  # code path and settings


Pose = Callable[[Part], Problem]
Run = Callable[[Problem, Arrays], tuple[Mapping[str, Array], str]]  # outputs, and the path


def judge_batch(verdict: Verdict, whole: Whole, pose: Pose, run: Run) -> Verdict:
    """The verdict on a case that was right, after its parts ran; Unsupported where it has none."""
    if not whole.problem.kernel.check.deterministic:
        raise Unsupported("its bits may differ between two runs of the same rows")
    tried = 0
    for part, posed, inputs in _pose_parts(whole, pose):
        try:
            outputs, path = run(posed, inputs)
        except Unsupported:
            continue
        tried += 1
        for name, array in outputs.items():
            kept = part.cut(whole.problem.kernel, name, whole.outputs[name])
            if (differ := _differing(kept, array, whole.problem.format(name))).any():
                return _break_verdict(verdict, whole, part, name, (kept, array, differ), path)
    if not tried:
        raise Unsupported("it has no rows that know nothing of each other, or only one")
    return verdict


def _pose_parts(whole: Whole, pose: Pose) -> Iterator[tuple[Part, Problem, Arrays]]:
    """Parts whose rows are independent of the others, with their inputs."""
    kernel = whole.problem.kernel
    for part in parts(whole.problem):
        try:
            posed = pose(part)
        except (NotDeclared, UsageError):  # no case of the kernel, or not one of its bundle's
            continue
        arrays = {**whole.inputs, **whole.outputs}
        if not all(
            part.fits(kernel, name, array, posed.array_shape(name))
            for name, array in arrays.items()
        ):
            continue
        inputs = {name: part.cut(kernel, name, array) for name, array in whole.inputs.items()}
        if kernel.content or _is_independent(whole, part, posed, inputs):
            yield part, posed, inputs


def _is_independent(whole: Whole, part: Part, posed: Problem, inputs: Arrays) -> bool:
    if whole.expected.rows is not None:  # of few rows the reference is known
        return True
    kernel = whole.problem.kernel
    expected = {
        name: part.cut(kernel, name, array) for name, array in whole.expected.outputs.items()
    }
    return is_independent(expected, expect(posed, inputs).outputs)


def _differing(one: Array, other: Array, fmt: Format) -> Array:
    differ = np.asarray(bits(np.ascontiguousarray(one)) != bits(np.ascontiguousarray(other)))
    if is_float(fmt) and differ.any():
        differ &= ~(np.isnan(widen_values(one, fmt)) & np.isnan(widen_values(other, fmt)))
    return differ


def _break_verdict(
    verdict: Verdict,
    whole: Whole,
    part: Part,
    name: str,
    compared: tuple[Array, Array, Array],
    path: str,
) -> Verdict:
    kept, array, differ = compared
    count, at = int(np.count_nonzero(differ)), np.unravel_index(int(differ.argmax()), differ.shape)
    rows = part.rows.stop - part.rows.start
    by = f"{path} beside {whole.path}" if path != whole.path else path
    return replace(
        verdict,
        passed=False,
        reason=(
            f"{count} of {differ.size} elements of {name} have other bits with {part.dim} {rows} "
            f"than with {part.dim} {part.of} ({by})"
        ),
        unrepeated=count,
        first_bad=(
            f"{name}[{','.join(map(str, at))}] of {part.dim} {part.rows.start} to "
            f"{part.rows.stop - 1}: found {kept[at]} among {part.of}, {array[at]} among {rows}"
        ),
    )
