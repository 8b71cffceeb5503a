"""Products with a few vectors, fused with the norm or gated linear unit that follows in a model.

A launch of its own for each of these costs more than its work. A norm is taken apart: the product
before it adds the residual, multiplies by the norm's weights and adds up squares; the products
behind it divide by the root of the mean of these.

Quantised weights are multiplied by blocks of q8_1, dense ones by numbers. What is left for the next
product is of the same form, which the names of kernels say as those of norms and gated units do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders import formats
from vkbench_shaders.binding import declare_input, declare_output
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import (
    Arguments,
    Binding,
    Check,
    Choice,
    Forms,
    Kernel,
    Launch,
    Param,
    Problem,
    Variant,
    Work,
)
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.matrices.vectors import joined_reference as reference
from vkbench_shaders.kernels.matrices.vectors.teams import (
    BLOCK,
    SPEED,
    TUNING,
    launch,
    refuses_teams,
)
from vkbench_shaders.kernels.shared.gates import GATES, Gate, values

_GATED = ("swiglu", "geglu")  # the gates that models have
_DIMS = ("m", "n", "k")


@dataclass(frozen=True, kw_only=True)
class Form:
    """Weights, and the format of vectors that they are multiplied by and make."""

    weights: tuple[str, ...]
    vectors: str
    suffix: str  # of kernels' names
    rounded: str  # what descriptions say of results


_QUANTISED = Form(
    weights=formats.WEIGHTS, vectors="q8_1", suffix="_q8_1", rounded=", rounded to q8_1"
)
_DENSE = Form(weights=formats.PLAIN, vectors="f32", suffix="", rounded="")
_FORMS = (_QUANTISED, _DENSE)


def _meet(types: Mapping[str, str]) -> bool:
    """Whether weights and vectors are of one form."""
    return products.is_blocks(types) == format_named(types["weights"]).quantised


Given = Callable[[Mapping[str, str], tuple[str, str]], tuple[str, ...]]


def _variants(
    module: str, launched: Callable[[bool, Problem, DeviceFacts], Launch], given: Given, *of: Form
) -> tuple[Variant, ...]:
    """Code paths; `given` are generic arguments, from how threads multiply and add up."""

    def arguments(factors: str, teams: str) -> Arguments:
        return lambda types: given(types, (factors, teams))

    def portable(types: Mapping[str, str]) -> tuple[str, ...]:
        factors = "blocks_portable" if products.is_blocks(types) else "numbers_f32"
        return given(types, (factors, "by_tree"))

    def fast(name: str, factors: str, requires: tuple[str, ...], form: Form) -> Variant:
        return Variant(
            name=name,
            module=module,
            arguments=arguments(factors, "by_subgroups"),
            launch=partial(launched, True),
            arithmetic="f32",
            requires=(*requires, "subgroup_arithmetic"),
            accepts=lambda types: types["x"] == form.vectors,
            refuses=refuses_teams,
        )

    ways = {
        _QUANTISED.vectors: fast("int_dot", "blocks_packed", ("int_dot",), _QUANTISED),
        _DENSE.vectors: fast("subgroup", "numbers_f32", (), _DENSE),
    }
    return (
        *(ways[form.vectors] for form in of),
        Variant(
            name="portable",
            module=module,
            arguments=portable,
            launch=partial(launched, False),
            arithmetic="f32",
            refuses=products.refuses,
            choice=Choice(candidates=lambda problem, device: [{}]),
        ),
    )


def _results(types: Mapping[str, str]) -> str:
    return "as_blocks" if types["y"] == _QUANTISED.vectors else "as_numbers"


def _factors(description: str, *of: Form) -> tuple[Binding, Binding]:
    """Bindings of the weights and of the vectors."""
    weights = declare_input(
        "weights", tuple(fmt for form in of for fmt in form.weights), ("m", "k"), description
    )
    x = declare_input("x", tuple(form.vectors for form in of), ("n", "k"), "vectors, one a row")
    return weights, x


_EPS = Param(default=1e-5, least=0, description="what keeps vectors of 0 finite")
_SQUARES = (
    "sums of squares, of 32 numbers each for blocks of q8_1 and of 8 for numbers, before these "
    "were multiplied by a norm's weights"
)

# threads of teams and workgroups, blocks or eights of numbers that a thread takes at a time
_SETTINGS = ((32, 128, 1), (64, 256, 2), (64, 512, 1), (128, 1024, 2))
_SHAPES = ("m32_n1_k4096", "m96_n3_k512")
_SHORT = ("m64_n2_k96",)  # blocks of 32
_RAGGED = ("m1_n1_k1", "m37_n2_k127")  # no blocks
_MORE = (
    "m64_n9_k1024",
    "m32_n1_k256",
    *(f"m64_n2_k2048/team={team},threads={size},units={units}" for team, size, units in _SETTINGS),
)
_MORE_FOR = ("q4_0", "q4_K", "f16")


def _name_case(name: str, form: Form, fmt: str, first: Form, shape: str) -> Case:
    """A case; the first of a kernel's forms is the one whose vectors need no mention."""
    x = "" if form is first else f":x={form.vectors}"
    return parse(f"{name}/{fmt}{x}/{shape}")


def _list_cases(
    name: str, *of: Form, shapes: tuple[str, ...] = (), usual: tuple[str, ...] = _SHAPES
) -> tuple[Case, ...]:
    """Cases: some of each format, and more of a few, these shapes too."""

    def shapes_of(fmt: str) -> Iterator[str]:
        yield from usual
        elements = format_named(fmt).elements
        yield from _RAGGED if elements == 1 else ()
        yield from _SHORT if elements == BLOCK else ()
        yield from (*_MORE, *shapes) if fmt in _MORE_FOR else ()

    return tuple(
        _name_case(name, form, fmt, of[0], shape)
        for form in of
        for fmt in form.weights
        for shape in shapes_of(fmt)
    )


def _timed_cases(name: str, small: str, large: str, *of: Form) -> tuple[Case, ...]:
    """Shapes of an 8B model; of dense weights those of a 1B one too, small enough for CPUs."""
    return tuple(
        _name_case(name, form, fmt, of[0], shape)
        for form in of
        for fmt in form.weights
        for shape in ((small, large) if form is _DENSE else (large,))
    )


_RMS = Kernel(
    name="mul_mat_vec_rms",
    description="Products of a matrix and a few vectors, over these vectors' root mean square.",
    group="matmul",
    dims=_DIMS,
    bindings=(
        *_factors("matrix, row by row", *_FORMS),
        declare_input("squares", ("f32",), ("n", "k"), _SQUARES),
        declare_output("y", ("f32",), ("n", "m"), "products, one vector a row"),
    ),
    params={"eps": _EPS, **SPEED},
    tuning=TUNING,
    forms=Forms(
        layout=partial(reference.layout, 1),
        infer=partial(reference.infer, 1),
        accepts=_meet,
    ),
    variants=_variants(
        "mul_mat_vec_rms",
        partial(launch, {}),
        lambda types, how: (types["weights"], *how),
        *_FORMS,
    ),
    inputs=reference.inputs,
    check=Check(reference=reference.rms, rows="m"),
    work=Work(flops=products.flops),
    cases=CaseList(
        lambda: _list_cases("mul_mat_vec_rms", *_FORMS, usual=("m32_n1_k4096", "m109_n3_k512"))
    ),
    timed=CaseList(
        lambda: _timed_cases("mul_mat_vec_rms", "m2048_n1_k2048", "m4096_n1_k14336", *_FORMS)
    ),
)


def _launch_gated(gate: Gate, fast: bool, problem: Problem, device: DeviceFacts) -> Launch:
    params = values(gate, problem)
    return launch({"params": (*params, *(0.0,) * (4 - len(params)))}, fast, problem, device)


def _gated_kernel(gate: Gate, form: Form) -> Kernel:
    name = f"mul_mat_vec_{gate.name}{form.suffix}"
    return Kernel(
        name=name,
        description=(
            f"{gate.description}{form.rounded}; a and b are the halves of products of a matrix "
            "and a few vectors."
        ),
        group="matmul",
        dims=_DIMS,
        bindings=(
            *_factors("rows that make gates, and as many that make what these pass", form),
            declare_input("squares", ("f32",), ("n", "k"), _SQUARES, when={"norm": ("rms",)}),
            declare_output("y", (form.vectors,), ("n", "m"), f"what has passed{form.rounded}"),
        ),
        params={
            "norm": Param(
                default="rms",
                choices=("rms", "none"),
                description="whether products are divided by the root mean square of x",
            ),
            "eps": _EPS,
            **gate.params,
            **SPEED,
        },
        tuning=TUNING,
        forms=Forms(layout=partial(reference.layout, 2), infer=partial(reference.infer, 2)),
        variants=_variants(
            "mul_mat_vec_glu",
            partial(_launch_gated, gate),
            lambda types, how: (types["weights"], gate.struct("f32"), *how, _results(types)),
            form,
        ),
        inputs=reference.gated_inputs,
        check=Check(reference=partial(reference.gate_products, gate)),
        work=Work(flops=products.flops),
        cases=CaseList(
            lambda: _list_cases(
                name,
                form,
                shapes=("m32_n2_k512/norm=none", "m64_n1_k256/eps=0.1"),
                usual=_SHAPES if gate.name == _GATED[0] else _SHAPES[:1],
            )
        ),
        timed=CaseList(lambda: _timed_cases(name, "m8192_n1_k2048", "m14336_n1_k4096", form)),
    )


def _add(form: Form) -> Kernel:
    name = f"mul_mat_vec_add{form.suffix}"
    return Kernel(
        name=name,
        description=(
            "Adds products of a matrix and a few vectors to a residual, and multiplies the sum by "
            f"factors{form.rounded}."
        ),
        group="matmul",
        dims=_DIMS,
        bindings=(
            *_factors("matrix, row by row", form),
            declare_input("residual", ("f32",), ("n", "m"), "what products are added to"),
            declare_input("factors", ("f32",), ("m",), "what sums are multiplied by"),
            declare_output("y", (form.vectors,), ("n", "m"), f"sums times factors{form.rounded}"),
            declare_output("sum", ("f32",), ("n", "m"), "the sums"),
            declare_output("squares", ("f32",), ("n", "m"), _SQUARES),
        ),
        params=SPEED,
        tuning=TUNING,
        forms=Forms(layout=partial(reference.layout, 1), infer=partial(reference.infer, 1)),
        variants=_variants(
            "mul_mat_vec_add",
            partial(launch, {}),
            lambda types, how: (types["weights"], *how, _results(types)),
            form,
        ),
        inputs=reference.inputs,
        check=Check(reference=reference.add_products),
        work=Work(flops=products.flops),
        cases=CaseList(lambda: _list_cases(name, form)),
        timed=CaseList(lambda: _timed_cases(name, "m2048_n1_k8192", "m4096_n1_k14336", form)),
    )


JOINED_VEC = (
    _RMS,
    *(_gated_kernel(gate, form) for form in _FORMS for gate in GATES if gate.name in _GATED),
    *(_add(form) for form in _FORMS),
)
