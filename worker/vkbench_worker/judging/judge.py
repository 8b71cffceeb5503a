"""Is an output right: written, finite, repeatable, and near enough to its float64 reference?

The rules where they are not obvious:

- The reference is float64, rounded to the output's own format before it is compared, so that limits
  speak of the kernel's arithmetic and not of the format's width.
- NMSE is sum (y - ref)^2 / sum ref^2, per output; the worst output counts. The largest absolute
  error is limited in RMS of the reference. Where the reference is all zeros, both mean that every
  error must be 0.
- An element is unwritten when it holds poison A after a run over poison A, and poison B after one
  over poison B: exact for any type, for no right output follows the poison. What is changed in
  place is compared only, for an element of it may keep what it held.
- A NaN or Inf counts against the kernel unless the reference has the same there; where no reference
  was worked out (rows outside the sample), values have to be finite.
- Exact paths compare bits: -0 is not +0, denormals count; only a NaN may be any NaN, for IEEE
  leaves its bits open. A binding that is `exact` is judged so whatever the path.
- An output narrower than f32 may round to the other neighbour where the sum before the rounding lay
  next to the middle: as many as one element in 50, and two more, may be the reference's neighbour.
- Where an arithmetic rounds factors of products, each element may be off by so many standard
  deviations of what that rounding does to it. Where one factor becomes bytes, what becomes of it
  differs from case to case: then NMSE has the limit that follows. An output narrower than f32 may
  be a step further off, for it may be rounded to the other neighbour.
- An output of blocks that is not judged bit by bit is judged by the numbers that its blocks stand
  for: each within half a step of its block (see `blocks`), and what the arithmetic may be off by.
- Guard bands of every buffer, and the gaps of strided outputs, have to hold their poison after both
  runs. Counters have to be zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

from vkbench.result import Verdict
from vkbench_shaders.formats import Format
from vkbench_shaders.kernel import Array, Layout, Problem
from vkbench_shaders.tolerance import LIMITS, Limits, limits_of
from vkbench_worker.judging import blocks
from vkbench_worker.judging.distance import distance, errors, far, steps, without_neighbours
from vkbench_worker.judging.poison import changed_guards, poison_in
from vkbench_worker.judging.rounding import are_finite, bits, is_float, round_values, widen_values
from vkbench_worker.runtime.program import GUARD, Image

Images = Mapping[str, Image]  # binding -> what its buffer holds

COUNTERS = "the counters"  # so begin their names, and no binding's


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Reference values: of all rows, or of some."""

    outputs: Mapping[str, Array]  # float64, rounded to the output's format unless that has blocks
    rows: Array | None = None  # along the kernel's `rows` dimension; None: all
    # float64 RMS errors of the outputs by rounding factors, if a path does that
    deviations: Mapping[str, Array] = field(default_factory=dict)


@dataclass
class Findings:
    """Errors counted so far over all outputs."""

    compared: int = 0
    total: int = 0
    nonfinite: int = 0
    unwritten: int = 0
    guard_bytes: int = 0
    unrepeated: int = 0
    nmse: float = 0.0  # the worst output's
    nmse_limit: float = 0.0
    max_abs: float = 0.0  # of the output nearest to (or farthest past) its limit
    max_abs_limit: float = 0.0
    # rank, reason, first bad element
    complaints: list[tuple[int, str, str]] = field(default_factory=list)

    def complain(self, rank: int, reason: str, element: str = "") -> None:
        self.complaints.append((rank, reason, element))


# Ranks: the cause before the consequence.
_COUNTED, _UNWRITTEN, _GUARD, _NONFINITE, _UNREPEATED, _VALUES = range(6)


def judge(
    problem: Problem, path: str, first: Images, second: Images, expected: Expected
) -> Verdict:
    """The verdict on two runs of one problem, each over buffers with another poison."""
    findings, limits = Findings(), limits_of(path)
    for name in first:
        _judge_guards(name, first[name], second[name], findings)
        if name.startswith(COUNTERS):
            _judge_counters(first[name], second[name], findings)
    for binding in problem.kernel.bindings:
        if binding.is_output:
            output = _Output(
                problem, binding.name, first[binding.name], second[binding.name], expected
            )
            output.judge_written(findings)
            output.judge_repeated(findings)
            output.judge_values(findings, LIMITS["exact"] if binding.exact else limits)
    return _verdict(findings, path, limits)


class _Output:
    """One output of two runs, element by element."""

    def __init__(
        self, problem: Problem, name: str, first: Image, second: Image, expected: Expected
    ) -> None:
        self.name = name
        self.in_place = problem.kernel.binding(name).is_input
        self.format = problem.format(name)
        self.layout = problem.layout(name)
        self.deterministic = problem.kernel.check.deterministic
        self.images = (first, second)
        self.storages = [image.data.view(self.format.dtype) for image in self.images]
        self.views = [self.layout.view(storage) for storage in self.storages]
        self.numbers = expected.outputs[name]  # that blocks should stand for, where it has blocks
        self.reference = round_values(self.numbers, self.format)
        self.axis = _axis(problem, name) if expected.rows is not None else None
        self.rows = expected.rows
        self.deviations = expected.deviations

    def judge_written(self, findings: Findings) -> None:
        findings.total += self.views[0].size
        self._judge_gaps(findings)
        if self.in_place or not self.views[0].size:
            return
        unwritten = bits(self.views[0]) == self._poison_view(0)
        if unwritten.any():
            unwritten &= bits(self.views[1]) == self._poison_view(1)
        count = int(np.count_nonzero(unwritten))
        if count:
            findings.unwritten += count
            reason = f"{count} of {unwritten.size} elements of {self.name} were never written"
            findings.complain(_UNWRITTEN, reason, f"{self._at(unwritten)}: found the poison")

    def judge_repeated(self, findings: Findings) -> None:
        if not self.deterministic:
            return
        differ = bits(self.views[0]) != bits(self.views[1])
        count = int(np.count_nonzero(differ))
        if count:
            findings.unrepeated += count
            a, b = (view[self._first(differ)] for view in self.views)
            reason = (
                f"{count} elements of {self.name} differ between two runs of a deterministic kernel"
            )
            findings.complain(_UNREPEATED, reason, f"{self._at(differ)}: found {a}, then {b}")

    def judge_values(self, findings: Findings, limits: Limits) -> None:
        view, reference = self._sample_rows(self.views[0]), self.reference
        if view.shape != reference.shape:
            raise ValueError(
                f"reference of {self.name} is {reference.shape}, output is {view.shape}"
            )
        findings.compared += view.size
        self._judge_finite(findings)
        if limits.nmse == 0 and limits.max_abs == 0:
            self._judge_exact(findings, view, reference)
        elif self.format.quantised:
            self._judge_blocks(findings, view, limits)
        else:
            self._judge_near(findings, view, reference, limits)

    def _judge_gaps(self, findings: Findings) -> None:
        if prod(self.layout.shape) == self.layout.storage:
            return
        gap = _gaps(self.layout)
        pairs = zip(self.images, self.storages, strict=True)
        changed = sum(
            int(np.count_nonzero((bits(storage) != poison_in(image, storage))[gap]))
            for image, storage in pairs
        )
        if changed:
            findings.guard_bytes += changed * self.format.dtype.itemsize
            findings.complain(
                _GUARD,
                f"{changed} items were written in the gaps of {self.name}, outside its elements",
            )

    def _judge_finite(self, findings: Findings) -> None:
        """Complain of elements that are not finite where the reference is, or the reverse."""
        if all(are_finite(v, self.format).all() for v in (self.views[0], self.reference)):
            return
        wrong = ~are_finite(self.views[0], self.format)
        view, reference = self._sample_rows(self.views[0]), self.reference
        alike = _is_nan(view, self.format) & _is_nan(reference, self.format)
        alike |= widen_values(view, self.format) == widen_values(reference, self.format)
        both = are_finite(view, self.format) & are_finite(reference, self.format)
        sampled = ~both & ~alike
        if self.rows is None:
            wrong = sampled
        else:
            np.moveaxis(wrong, self.axis or 0, 0)[self.rows] = np.moveaxis(
                sampled, self.axis or 0, 0
            )
        count = int(np.count_nonzero(wrong))
        if count:
            findings.nonfinite += count
            value = self.views[0][self._first(wrong)]
            reason = f"{count} elements of {self.name} are NaN or Inf (or should be)"
            findings.complain(
                _NONFINITE, reason, f"{self._at(wrong)}: found {self._show_number(value)}"
            )

    def _judge_exact(self, findings: Findings, view: Array, reference: Array) -> None:
        differ = bits(view) != bits(np.ascontiguousarray(reference))
        if is_float(self.format) and differ.any():
            differ &= ~(_is_nan(view, self.format) & _is_nan(reference, self.format))
        count = int(np.count_nonzero(differ))
        if count:
            off = distance(view, reference, self.format)
            findings.nmse, findings.max_abs = (
                max(findings.nmse, off.nmse),
                max(findings.max_abs, off.worst),
            )
            reason = f"{count} of {view.size} elements of {self.name} are not exactly the reference"
            findings.complain(_VALUES, reason, self._describe_difference(differ, view, reference))

    def _judge_near(
        self, findings: Findings, view: Array, reference: Array, limits: Limits
    ) -> None:
        view = without_neighbours(view, reference, self.format)
        off = distance(view, reference, self.format, limits.each)
        nmse, worst = off.nmse, off.worst
        limit, nmse_limit = limits.max_abs * off.rms, limits.nmse
        allowed = np.asarray(limit)  # of each element
        if limits.rounding and view.size:
            spread = limits.deviations * self.deviations[self.name]
            allowed = limit + spread + steps(reference, self.format)
            if limits.result:
                allowed = allowed + limits.result * np.abs(reference)
            if limits.nmse_follows:
                nmse_limit += _relative(spread, off.rms)
            worst, limit = _nearest(errors(view, reference, self.format), allowed)
        findings.nmse, findings.nmse_limit = (
            max(findings.nmse, nmse),
            max(findings.nmse_limit, nmse_limit),
        )
        if _excess(worst, limit) >= _excess(findings.max_abs, findings.max_abs_limit):
            findings.max_abs, findings.max_abs_limit = worst, limit
        if nmse <= nmse_limit and worst <= limit and not off.far:
            return
        sizes = errors(view, reference, self.format)
        if nmse > nmse_limit:
            bad = sizes == sizes.max()
            reason = f"NMSE of {self.name} is {nmse:.3g}, the limit is {nmse_limit:.3g}"
        elif worst <= limit:
            bad = far(view, reference, self.format, limits.each)
            reason = (
                f"{off.far} elements of {self.name} are off by more than"
                f" {limits.each:g} of their value"
            )
        else:
            bad = sizes > allowed
            reason = (
                f"largest error of {self.name} is {worst:.3g}, the limit is {limit:.3g}"
                f" ({np.count_nonzero(bad)} elements exceed it)"
            )
        findings.complain(_VALUES, reason, self._describe_difference(bad, view, reference))

    def _judge_blocks(self, findings: Findings, view: Array, limits: Limits) -> None:
        off = blocks.compare_blocks(view, self.numbers, self.format, limits.max_abs)
        findings.nmse = max(findings.nmse, off.nmse)
        if _excess(off.worst, off.limit) >= _excess(findings.max_abs, findings.max_abs_limit):
            findings.max_abs, findings.max_abs_limit = off.worst, off.limit
        count = int(np.count_nonzero(off.bad))
        if count:
            at = self._first(off.bad)
            reason = (
                f"{count} numbers of {self.name} are off by more than half a step of their block"
            )
            values = f"found {off.values[at]:.9g}, expected {self.numbers[at]:.9g}"
            findings.complain(_VALUES, reason, f"{self._place(at)}: {values}")
        if (wrong := int(np.count_nonzero(off.wrong_sums))) > 0:
            findings.complain(
                _VALUES, f"{wrong} blocks of {self.name} hold wrong sums of their codes"
            )

    def _poison_view(self, run: int) -> Array:
        image, storage = self.images[run], self.storages[run]
        if storage.itemsize == 1:
            return self.layout.view(poison_in(image, storage))
        return poison_in(image, storage[:1])  # every item alike

    def _sample_rows(self, view: Array) -> Array:
        return view if self.rows is None else view.take(self.rows, axis=self.axis)

    def _describe_difference(self, where: Array, view: Array, reference: Array) -> str:
        at = self._first(where)
        made, expected = self._show_number(view[at]), self._show_number(reference[at])
        return f"{self._place(at)}: found {made}, expected {expected}"

    def _place(self, at: tuple[int, ...]) -> str:
        """An element of the sample, by its place in the whole output."""
        place = list(at)
        if self.rows is not None and self.axis is not None:
            place[self.axis] = int(self.rows[place[self.axis]])
        return f"{self.name}[{','.join(map(str, place))}]"

    def _show_number(self, value: Array) -> str:
        number = widen_values(np.asarray(value), self.format) if is_float(self.format) else value
        return f"{float(number):.9g}"

    def _at(self, where: Array) -> str:
        return f"{self.name}[{','.join(map(str, self._first(where)))}]"

    @staticmethod
    def _first(where: Array) -> tuple[int, ...]:
        return tuple(int(i) for i in np.unravel_index(int(np.argmax(where)), where.shape))


def _judge_guards(name: str, first: Image, second: Image, findings: Findings) -> None:
    both = [changed_guards(image) for image in (first, second)]
    count = sum(int(np.count_nonzero(side)) for sides in both for side in sides)
    if not count:
        return
    findings.guard_bytes += count
    before, after = next(sides for sides in both if any(side.any() for side in sides))
    place = (
        f"{int(np.argmax(after))} bytes behind it"
        if after.any()
        else f"{GUARD - int(np.argmax(before))} before it"
    )
    findings.complain(
        _GUARD, f"{count} guard bytes of {name} were overwritten, the first {place}", name
    )


def _judge_counters(first: Image, second: Image, findings: Findings) -> None:
    """Complain of counters that are not zero again: the next launch relies on that."""
    left = max(int(np.count_nonzero(image.data.view(np.uint32))) for image in (first, second))
    if left:
        total = first.data.size // 4
        findings.complain(
            _COUNTED, f"{left} of {total} counters are not zero after a launch", COUNTERS
        )


def _gaps(layout: Layout) -> Array:
    gap = np.ones(layout.storage, bool)
    layout.view(gap)[...] = False
    return gap


def _axis(problem: Problem, output: str) -> int:
    """The axis of the sampled rows, counted from the last one: batches come before."""
    dims = problem.kernel.binding(output).dims
    return dims.index(problem.kernel.check.rows) - len(dims)


def _is_nan(stored: Array, fmt: Format) -> Array:
    return np.asarray(np.isnan(widen_values(stored, fmt)))


def _relative(sizes: Array, rms: float) -> float:
    """The NMSE of errors of such sizes."""
    return float(np.mean(sizes**2)) / rms**2 if rms else 0.0


def _nearest(sizes: Array, allowed: Array) -> tuple[float, float]:
    """The error nearest its element's limit, or farthest past it, and that limit."""
    past = np.where(sizes > 0, np.inf, 0.0)
    at = np.argmax(np.divide(sizes, allowed, out=past, where=allowed > 0))
    return float(sizes.reshape(-1)[at]), float(allowed.reshape(-1)[at])


def _excess(error: float, limit: float) -> float:
    if limit:
        return error / limit
    return np.inf if error else 0.0


def _verdict(findings: Findings, path: str, limits: Limits) -> Verdict:
    _, reason, element = min(
        findings.complaints, default=(0, "", ""), key=lambda complaint: complaint[0]
    )
    measured = bool(findings.compared) and np.isfinite(findings.nmse) and not findings.nonfinite
    return Verdict(
        passed=not findings.complaints,
        reason=reason,
        path=path,
        nmse=findings.nmse if measured else None,
        nmse_limit=max(findings.nmse_limit, limits.nmse),
        max_abs=findings.max_abs if measured else None,
        max_abs_limit=findings.max_abs_limit,
        compared=findings.compared,
        total=findings.total,
        nonfinite=findings.nonfinite,
        unwritten=findings.unwritten,
        guard_bytes=findings.guard_bytes,
        unrepeated=findings.unrepeated,
        first_bad=element,
    )
