"""Reduces an array of four dimensions along some of them: see slang/reductions/reduce.slang."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, prod

from vkbench.device import DeviceFacts
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Launch, Layout, Memory, Problem, Push, Stage, Variant, grid
from vkbench_shaders.kernels.shared.rows import gaps
from vkbench_shaders.launch import divisor, power_of_two
from vkbench_shaders.tuning.rates import busy

DIMS = ("b", "c", "h", "w")
FLOATS = ("f32", "f16", "bf16")  # which are reduced as f32
ORDERS = {"x": "bhwc", "y": "cbhw"}  # permuted: how dimensions lie in memory, outermost first
THREADS = 256  # where nothing else is asked for
AT_ONCE, SINGLES_AT_ONCE = 4, 8  # loads of a thread: of 16 bytes, of numbers
WITHOUT_GAPS, ONE_STRIDE, ANY = range(3)  # how the numbers of a result lie
# workgroups of a compute unit that need no others beside them, and as many as a few results get
ENOUGH_GROUPS, MANY_GROUPS = 2, 8
LEAST_PART = 8192  # numbers that are worth a workgroup


@dataclass(frozen=True, kw_only=True)
class Dimension:
    """Size of a dimension, and the step along it in each of some arrays."""

    size: int
    steps: tuple[int, ...]

    def around(self, inner: Dimension) -> bool:
        """Whether it begins again where the inner one ends."""
        return self.steps == tuple(inner.size * step for step in inner.steps)


@dataclass(frozen=True, kw_only=True)
class ReducePlan:
    """What threads and workgroups do."""

    kept: tuple[Dimension, ...]  # steps in x and y
    reduced: tuple[Dimension, ...]  # steps in x
    results: int
    length: int  # numbers a result
    along: bool  # neighbouring threads have numbers of one result
    form: int
    down: int  # threads a result
    part: int  # numbers that a workgroup takes of each result
    parts: int
    threads: int = THREADS  # of a workgroup

    @property
    def groups(self) -> int:
        return -(-self.results * self.down // self.threads) * self.parts


def axes(problem: Problem) -> tuple[int, ...]:
    """Which dimensions are reduced."""
    return tuple(at for at, dim in enumerate(DIMS) if dim in str(problem.params["axes"]))


def layout(problem: Problem, binding: str) -> Layout:
    """Where the arrays lie; of y, reduced dimensions have size 1."""
    shape = [problem.shape[dim] for dim in DIMS]
    if binding == "y":
        shape = [1 if at in axes(problem) else size for at, size in enumerate(shape)]
    match problem.params["layout"]:
        case "strided":
            return Layout.with_gaps(shape, *gaps(problem, binding))
        case "permuted":
            return Layout.in_order(shape, [DIMS.index(dim) for dim in ORDERS[binding]])
        case _:
            return Layout.contiguous(shape)


def plan(problem: Problem, device: DeviceFacts, in_order: bool) -> ReducePlan:
    """The plan of a reduction, by what lies side by side; numbers keep their order if asked."""
    x, y, chosen = problem.layout("x"), problem.layout("y"), axes(problem)
    dims = [
        Dimension(size=size, steps=(x_step, y_step))
        for size, x_step, y_step in zip(x.shape, x.strides, y.strides, strict=True)
    ]
    kept = _merge_dimensions(
        _sort_dimensions(dim for at, dim in enumerate(dims) if at not in chosen)
    )
    reduced = [Dimension(size=dims[at].size, steps=dims[at].steps[:1]) for at in chosen]
    rest = _merge_dimensions(reduced if in_order else _sort_dimensions(reduced))
    results, length = prod(dim.size for dim in kept), prod(dim.size for dim in rest)
    along = bool(rest) and rest[-1].steps == (1,)
    form = ANY if len(rest) > 1 else WITHOUT_GAPS if along else ONE_STRIDE
    threads = int(problem.params.get("threads", 0)) or THREADS
    wide = AT_ONCE * 16 // problem.item_bytes("x")
    at_once = wide if form == WITHOUT_GAPS else SINGLES_AT_ONCE
    down = _down(results, length, at_once, along, threads)
    part, parts = _parts(device, -(-results * down // threads), length, down * at_once)
    return ReducePlan(
        kept=kept,
        reduced=rest,
        results=results,
        length=length,
        along=along,
        form=form,
        down=down,
        part=part,
        parts=parts,
        threads=threads,
    )


def rows_in_parts(problem: Problem, part: int, parts: int) -> ReducePlan:
    """For an array h w: a workgroup for each part of each row."""
    (rows, columns), x, y = problem.shape.values(), problem.layout("x"), problem.layout("y")
    return ReducePlan(
        kept=(Dimension(size=rows, steps=(x.strides[0], y.strides[0])),),
        reduced=(Dimension(size=columns, steps=(1,)),),
        results=rows,
        length=columns,
        along=True,
        form=WITHOUT_GAPS,
        down=THREADS,
        part=part,
        parts=parts,
    )


def reduce_variant(
    name: str,
    path: str,
    *,
    formats: tuple[str, ...],
    least: bool = False,
    mean: bool = False,
    variant: str = "portable",
    requires: tuple[str, ...] = (),
) -> Variant:
    """A code path of a reduction, for x in these formats."""

    def make_plan(problem: Problem, device: DeviceFacts) -> ReducePlan:
        return plan(problem, device, in_order=name == "position")

    def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
        return _launches(problem, make_plan(problem, device), least=least, mean=mean)

    def scratch(problem: Problem, device: DeviceFacts) -> tuple[int, ...]:
        made = make_plan(problem, device)
        item = 8 if name != "position" or problem.types["x"] in FLOATS else 16
        return (item * made.results * made.parts if made.parts > 1 else item,)

    def arguments(types: Mapping[str, str]) -> tuple[str, ...]:
        return _reduction(name, types["x"]), _values(types["x"]), _results(types["y"])

    def arguments_of_parts(types: Mapping[str, str]) -> tuple[str, ...]:
        return _reduction(name, types["x"]), _results(types["y"])

    return Variant(
        name=variant,
        module="reduce",
        arguments=arguments,
        more=(Stage(entry="reduce_parts", arguments=arguments_of_parts),),
        launch=launch,
        own=Memory(scratch=scratch),
        arithmetic=path,
        requires=requires,
        accepts=lambda types: types["x"] in formats,
    )


def _reduction(name: str, fmt: str) -> str:
    """A struct of slang/reductions/reductions.slang or integer_reductions.slang."""
    if fmt in FLOATS:
        return name
    kind = "f64" if fmt == "f64" else "integer"
    match name:
        case "total":
            return f"{kind}_total"
        case "position":  # of integers of any size, which are extended to 64 bits
            return f"position_of<{'f64_ranks' if kind == 'f64' else 'integer_keys<8, 1>'}>"
        case _:
            keys = "f64_keys" if kind == "f64" else f"integer_keys<{_size_and_sign(fmt)}>"
            return f"extreme_of<{keys}>"


def _values(fmt: str) -> str:
    """A struct of slang/reductions/values.slang that reads numbers."""
    return f"floats<{fmt}>" if fmt in FLOATS else f"integers<{_size_and_sign(fmt)}>"


def _results(fmt: str) -> str:
    """A struct of slang/reductions/values.slang that stores numbers."""
    return f"float_results<{fmt}>" if fmt in FLOATS else f"integer_results<{_bytes(fmt)}>"


def _size_and_sign(fmt: str) -> str:
    return f"{_bytes(fmt)}, {int(not fmt.startswith('u'))}"


def _bytes(fmt: str) -> int:
    return format_named(fmt).bytes


def partial(
    problem: Problem, made: ReducePlan, *, scale: float = 1.0, least: bool = False, entry: str = ""
) -> Launch:
    """What makes results, or of several parts what each of them gives."""
    groups = grid(made.groups)
    return Launch(
        groups=groups,
        push=_push(problem, made, groups[0], scale),
        constants={
            "THREADS": made.threads,
            "DOWN": made.down,
            "ALONG": made.along,
            "FORM": made.form,
            "LEAST": least,
        },
        entry=entry,
    )


def _launches(problem: Problem, made: ReducePlan, *, least: bool, mean: bool) -> tuple[Launch, ...]:
    scale = 1.0 if not mean else 1 / made.length if made.length else inf  # 0 * inf is a NaN
    first = partial(problem, made, scale=scale, least=least)
    if made.parts == 1:
        return (first,)
    down = min(made.threads, power_of_two(made.parts))
    groups = grid(-(-made.results * down // made.threads))
    second = Launch(
        groups=groups,
        push=_push(problem, made, groups[0], scale),
        constants={"THREADS": made.threads, "DOWN": down, "LEAST": least},
        entry="reduce_parts",
    )
    return first, second


def _push(problem: Problem, made: ReducePlan, groups_x: int, scale: float) -> Push:
    kept, reduced = _four(made.kept, 2), _four(made.reduced, 1)
    outer, middle, inner = (divisor(max(1, dim.size)) for dim in reduced[1:])
    return {
        "kept": [dim.size for dim in kept[1:]],
        "length": made.length,
        "x_strides": [dim.steps[0] for dim in kept],
        "y_strides": [dim.steps[1] for dim in kept],
        "reduced_strides": [dim.steps[0] for dim in reduced],
        "outer": outer,
        "middle": middle,
        "inner": inner,
        "results": made.results,
        "part": made.part,
        "parts": made.parts,
        "groups_x": groups_x,
        "x_offset": problem.layout("x").offset,
        "y_offset": problem.layout("y").offset,
        "scale": scale,
    }


def _four(dims: tuple[Dimension, ...], arrays: int) -> tuple[Dimension, ...]:
    """Four dimensions: these, after others of size 1."""
    return (Dimension(size=1, steps=(0,) * arrays),) * (4 - len(dims)) + dims


def _sort_dimensions(dims: Iterable[Dimension]) -> list[Dimension]:
    """Dimensions as they lie in the first array, outermost first."""
    return sorted(dims, key=lambda dim: -dim.steps[0])


def _merge_dimensions(dims: Iterable[Dimension]) -> tuple[Dimension, ...]:
    """Dimensions without those of size 1; two that lie like one become one."""
    merged: list[Dimension] = []
    for dim in dims:
        if dim.size == 1:
            continue
        if merged and merged[-1].around(dim):
            dim = Dimension(size=merged.pop().size * dim.size, steps=dim.steps)
        merged.append(dim)
    return tuple(merged)


def _down(results: int, length: int, at_once: int, along: bool, threads: int) -> int:
    """Threads a result, of which each has so many numbers at once; few across columns."""
    enough = min(threads, power_of_two(-(-length // at_once)))
    if along:
        return enough
    return max(min(enough, 4), min(enough, threads // power_of_two(results)), 1)


def _parts(device: DeviceFacts, tiles: int, length: int, step: int) -> tuple[int, int]:
    """Numbers a workgroup takes of each result, some steps of them, and workgroups a result."""
    few = tiles < busy(device, ENOUGH_GROUPS)
    usual = -(-busy(device, MANY_GROUPS) // max(1, tiles)) if few else 1
    least = max(LEAST_PART, step) if tiles < 2 else step
    parts = max(1, min(usual, length // least))
    part = -(-length // (parts * step)) * step
    return (part, -(-length // part)) if part else (0, 1)
