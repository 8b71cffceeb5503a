"""Makes a bundle of a user's kernel: its code, its cases, and the arrays that judge them.

All that is wrong with a declaration, its sources and its reference is said here, in one line, on
the machine of whoever wrote them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from vkbench.case import SEED, Case, parse
from vkbench.errors import UsageError
from vkbench.words import names as words
from vkbench_shaders import catalogue
from vkbench_shaders.bundle import Bundle, interface_name, manifest_text
from vkbench_shaders.compile.compiler import CompileError
from vkbench_shaders.compile.spirv import MalformedSpirv
from vkbench_shaders.kernel import Array, Kernel, Problem
from vkbench_shaders.kernels.batches import dims_of, parts_along
from vkbench_shaders.launch import LaunchMismatch
from vkbench_shaders.own import declaration, posing, records, references
from vkbench_shaders.own.declaration import CaseTable, Declaration, Declared
from vkbench_shaders.own.formulas import Number, value_of, whole_number
from vkbench_shaders.own.launching.own_launch import OwnLaunch
from vkbench_shaders.own.launching.own_unit import OwnUnit
from vkbench_shaders.own.records import (
    MOST_STORED_BYTES,
    PART_BYTES,
    OwnBinding,
    OwnCase,
    OwnKernel,
    OwnVariant,
    UnfitDeclaration,
)
from vkbench_shaders.own.sources import Compiled
from vkbench_shaders.own.steps import composition
from vkbench_shaders.own.steps.composition import Composition
from vkbench_shaders.tolerance import limits_of, path_of

EXAMPLE: Final = Path(__file__).parent / "example"  # a kernel to begin with

_FAULTS: Final = (UnfitDeclaration, UsageError, MalformedSpirv, LaunchMismatch, CompileError)


@dataclass(frozen=True, kw_only=True)
class Built:
    """A user's kernel, ready to run anywhere."""

    bundle: Bundle
    kernel: OwnKernel
    # by variant, or the name of each of its steps, behind which is what formats it is for, if any
    units: Mapping[str, OwnUnit]
    launches: Mapping[str, OwnLaunch]  # the first launch of any case
    parts: frozenset[str] = frozenset()  # cases that are there as parts of others


@dataclass(frozen=True, kw_only=True)
class _Draft:
    """What the cases of a declaration are made from."""

    declared: Declared
    head: OwnKernel  # without its cases
    kernel: Kernel
    compositions: Sequence[Composition]  # of each variant, for each combination of formats
    function: references.Function | None
    blobs: dict[str, bytes] = field(default_factory=dict)  # of arrays, by SHA-256
    launches: dict[str, OwnLaunch] = field(default_factory=dict)  # the first of any case


def build(
    path: Path,
    owner: str,
    shapes: Sequence[Mapping[str, int]] = (),
    seeds: Collection[int] = (),
    *,
    batches: bool = False,
    sources: Path | None = None,
) -> Built:
    """The bundle of the kernel that a file declares, with its cases or those of other shapes.

    With seeds it also has these cases with the inputs of each, but for those whose inputs a file
    brings. With batches it has the parts of its cases, by which a worker checks whether a row's
    bits depend on how many there are. The sources lie in the declaration's folder, or in another.

    UsageError says in one line what is wrong, and where.
    """
    declared = declaration.read(path, owner, sources)
    try:
        draft = _draft(declared)
        given = [CaseTable(shape=shape) for shape in shapes] or declared.table.cases
        tables = [one for table in given for one in _with_formats(draft, table)]
        cases = [_case(draft, table) for table in (*tables, *_vary_seeds(draft, tables, seeds))]
        named = {case.name for case in cases}
        beside = [_case(draft, table) for table in (_parts(draft, cases) if batches else ())]
        beside = [case for case in beside if case.name not in named]
        own = replace(draft.head, cases=(*cases, *beside))
        records.check(own)
    except _FAULTS as error:
        raise UsageError(f"{path}: {' '.join(str(error).split())}") from error
    parts = frozenset(case.name for case in beside)
    return Built(
        bundle=_bundle(own, draft),
        kernel=own,
        units={_word(unit): unit for unit in _units(draft)},
        launches=draft.launches,
        parts=parts,
    )


def _draft(declared: Declared) -> _Draft:
    table = declared.table
    head = _head(table)
    records.check_head(head)
    bindings = posing.outline_kernel(head).bindings
    composition.check_scratch(table, {binding.name for binding in bindings})
    compiled: dict[str, Compiled] = {}
    compositions = [
        composed
        for variant in table.variants
        for composed in composition.compose(declared, variant, head, bindings, compiled)
    ]
    variants = (_with_code(variant, compositions) for variant in head.variants)
    head = replace(head, variants=tuple(variants))
    records.check_head(head)
    function = references.function_of(declared)
    kernel = posing.outline_kernel(head)
    return _Draft(
        declared=declared,
        head=head,
        kernel=kernel,
        compositions=compositions,
        function=function,
    )


def _with_code(variant: OwnVariant, compositions: Sequence[Composition]) -> OwnVariant:
    """A variant with what all its codes ask for, and what those for some formats need beside."""
    own = [composed for composed in compositions if composed.variant.name == variant.name]
    shared = set(own[0].features).intersection(*(composed.features for composed in own))
    more = {
        ",".join(composed.formats): tuple(sorted(rest))
        for composed in own
        if (rest := set(composed.features) - shared)
    }
    return replace(
        variant,
        requires=tuple(sorted(shared)),
        requires_more=more,
        steps=len(own[0].units),
        scratch=own[0].names,
        counters=own[0].counters,
    )


def _word(unit: OwnUnit) -> str:
    """What a kernel's code is called behind the kernel's name."""
    return unit.entry.key.partition("/")[2]


def _head(table: Declaration) -> OwnKernel:
    axes = table.matrix.axes if table.matrix else {}
    _check_axes(table, axes)
    order = [binding.name for binding in table.bindings]
    firsts = {
        name: min(names, key=order.index) if not table.shadows else names[0]
        for names in axes
        for name in names
    }
    same = {name: first for name, first in firsts.items() if name != first}
    choices = {name: tuple(formats) for names, formats in axes.items() for name in names}
    return OwnKernel(
        name=f"{table.owner}.{table.name}",
        description=table.description,
        shadows=table.shadows,
        deterministic=table.deterministic,
        dims=tuple(dict.fromkeys(dim for binding in table.bindings for dim in binding.dims)),
        bindings=tuple(
            OwnBinding(
                name=binding.name,
                access=binding.access,
                format=choices.get(binding.name, (binding.format,))[0],
                more=choices.get(binding.name, ())[1:],
                same_as=same.get(binding.name, ""),
                dims=binding.dims,
                exact=binding.exact,
                values=binding.values,
            )
            for binding in (() if table.shadows else table.bindings)
        ),
        by_format=tuple(dict.fromkeys(firsts.values())),
        params=table.params,
        variants=tuple(
            OwnVariant(name=variant.name, arithmetic=_path(variant.tolerance or table.tolerance))
            for variant in table.variants
        ),
        cases=(),
    )


def _check_axes(table: Declaration, axes: Collection[tuple[str, ...]]) -> None:
    kernel = catalogue.kernel_named(table.shadows) if table.shadows else table
    known = [binding.name for binding in kernel.bindings]
    for names in axes:
        for name in names:
            if name not in known:
                words.pick(name, known, f"binding of {table.shadows or table.name} in [matrix]")
                raise UnfitDeclaration(f"[matrix] writes {name} otherwise than the binding")


def _path(tolerance: str | Mapping[str, float]) -> str:
    path = tolerance if isinstance(tolerance, str) else path_of(tolerance)
    limits_of(path)
    return path


def _case(draft: _Draft, case_table: CaseTable) -> OwnCase:
    """A case with its launches and its arrays."""
    table = draft.declared.table
    problem = Problem(draft.kernel, _name_case(draft, case_table))
    known = _numbers(problem)
    ranges = {
        each.name: (float(value_of(low, known)), float(value_of(high, known)))
        for each in table.bindings
        if each.values == "uniform"
        for low, high in [each.range or (0, 1)]
    }
    name, types = problem.case.name, draft.head.codes_of(problem.types)
    compositions = {one.variant.name: one for one in draft.compositions if one.formats == types}
    launches = {at: composition.launches_of(one, known, name) for at, one in compositions.items()}
    sizes = {at: composition.sizes_of(one, known, name) for at, one in compositions.items()}
    case = OwnCase(
        name=problem.case.name,
        is_timed=case_table.timed,
        flops=whole_number(table.flops, known),
        launches=launches,
        scratch={at: bytes_of_all for at, bytes_of_all in sizes.items() if bytes_of_all},
        ranges=ranges,
    )
    for at, composed in compositions.items():
        for unit, launch in zip(composed.units, case.steps(at), strict=True):
            draft.launches.setdefault(_word(unit), launch)
    records.check_case(draft.head, case)  # before arrays of its sizes are made
    if not draft.head.shadows:
        return _with_arrays(draft, problem, case, case_table.npz)
    if case_table.npz or draft.function:
        raise UnfitDeclaration(f"{draft.head.shadows} brings its own inputs and reference")
    return case


def _with_formats(draft: _Draft, table: CaseTable) -> Iterator[CaseTable]:
    """A case in each combination of formats that it admits."""
    choices = [choice for choice in draft.declared.choices if choice.matches(table.types)]
    if not choices:
        types = ", ".join(f"{name} {fmt}" for name, fmt in table.types.items())
        raise UnfitDeclaration(f"a case has the types {types}, which [matrix] has not")
    for choice in choices:
        yield replace(table, types={**table.types, **choice.formats})


def _vary_seeds(
    draft: _Draft, cases: Sequence[CaseTable], seeds: Collection[int]
) -> Iterator[CaseTable]:
    """Cases with other inputs, to be checked only."""
    if SEED in draft.kernel.params:
        return
    for case, seed in product(cases, sorted(seeds)):
        if not case.npz and SEED not in case.params:
            yield replace(case, params={**case.params, SEED: seed}, timed=False)


def _parts(draft: _Draft, cases: Sequence[OwnCase]) -> Iterator[CaseTable]:
    """Parts of the rows of cases, each once."""
    dim = draft.declared.table.batch
    dims = (dim,) if dim else dims_of(draft.kernel) if draft.head.shadows else ()
    if not dims:
        raise UnfitDeclaration("it does not say which size is a batch's: give batch = 'SIZE'")
    if dim and dim not in dims_of(draft.kernel):
        raise UnfitDeclaration(f"batch = '{dim}' is no size of all of its outputs")
    parts = {
        part.case.name: part.case
        for case in cases
        for along in dims
        for part in parts_along(parse(case.name), along)
    }
    for case in parts.values():
        types = {draft.kernel.bindings[0].name: case.format, **case.types}
        yield CaseTable(shape=case.shape, params=case.params, types=types, timed=False)


def _name_case(draft: _Draft, case_table: CaseTable) -> Case:
    kernel, shape = draft.kernel, dict(case_table.shape)
    sizes = draft.declared.table.sizes
    needed = [dim for dim in kernel.dims if dim not in sizes]
    if not shape.keys() >= set(needed):
        given = ", ".join(shape) or "none"
        raise UnfitDeclaration(f"a shape has the sizes {', '.join(needed)}; got {given}")
    for dim, formula in sizes.items():
        if dim not in shape:
            shape[dim] = whole_number(formula, shape)
    first = kernel.bindings[0]
    return kernel.case({first.name: first.types[0], **case_table.types}, shape, case_table.params)


def _numbers(problem: Problem) -> dict[str, Number]:
    """What formulas may name: sizes and parameters."""
    params = {n: v for n, v in problem.params.items() if isinstance(v, int | float)}
    return {**params, **problem.shape}


def _with_arrays(draft: _Draft, problem: Problem, case: OwnCase, npz: str) -> OwnCase:
    """A case with the inputs that a file brings, and with what is expected of it."""
    path = draft.declared.file(npz, (".npz",), MOST_STORED_BYTES) if npz else None
    given = references.from_npz(path, problem) if path else {}
    numbers = {
        table.name: references.store_numbers(problem, table.name, table.numbers, _numbers(problem))
        for table in draft.declared.table.bindings
        if table.numbers
    }
    given = numbers | given
    there = [binding for binding in draft.head.bindings if binding.name in given]
    inputs = {binding.name: given[binding.name] for binding in there if binding.access != "out"}
    outputs = {binding.name: given[binding.name] for binding in there if binding.access == "out"}
    case = replace(case, inputs=_keep_arrays(draft, inputs))
    made = posing.generate_inputs(draft.head, problem, case)
    output_names = {binding.name for binding in draft.head.bindings if binding.access != "in"}
    if missing := sorted(output_names - outputs.keys()):
        if draft.function is None:
            raise UnfitDeclaration(
                f"{case.name} has no expected {missing[0]}: give reference = 'FILE.py:FUNCTION', "
                "or, for what is only written, an npz file that holds it"
            )
        computed = references.outputs_by(
            draft.function, draft.declared, problem, {**made, **inputs}
        )
        outputs = {**computed, **outputs}
    return replace(case, made=posing.digest_of(made), outputs=_keep_arrays(draft, outputs))


def _keep_arrays(draft: _Draft, arrays: Mapping[str, Array]) -> dict[str, tuple[str, ...]]:
    """Arrays cut into blobs: the hashes of each one's."""
    shas = {}
    for name, array in arrays.items():
        content = np.ascontiguousarray(array).tobytes()
        parts = [content[at : at + PART_BYTES] for at in range(0, len(content), PART_BYTES)]
        hashes = tuple(hashlib.sha256(part).hexdigest() for part in parts)
        draft.blobs.update(zip(hashes, parts, strict=True))
        shas[name] = hashes
    total = sum(map(len, draft.blobs.values()))
    if total > MOST_STORED_BYTES:
        raise UnfitDeclaration(
            f"its cases have arrays of over {MOST_STORED_BYTES} bytes, which travel with it: "
            "declare fewer or smaller cases"
        )
    return shas


def _units(draft: _Draft) -> list[OwnUnit]:
    """The code of all variants."""
    return [unit for composed in draft.compositions for unit in composed.units]


def _bundle(own: OwnKernel, draft: _Draft) -> Bundle:
    units = _units(draft)
    text = manifest_text(
        "; ".join(dict.fromkeys(unit.by for unit in units)),
        "",
        [unit.entry for unit in units],
        {interface_name(unit.interface): unit.interface for unit in units},
        [own],
    )
    code = {unit.entry.sha256: unit.code for unit in units}
    return Bundle(text=text, blobs={**code, **draft.blobs}, name=own.name).check()
