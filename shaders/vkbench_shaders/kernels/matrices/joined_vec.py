"""Products with a few vectors that do what follows them in a model: a norm, a gated linear unit.

A launch of its own for each of these costs more than its work. A norm is taken apart: the product
before it adds the residual, multiplies by the norm's weights, rounds to q8_1 and adds up squares;
the products behind it divide by the root of the mean of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench_shaders import formats, quants
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Binding,
    Kernel,
    Launch,
    Layout,
    Param,
    Problem,
    Shapes,
    Variant,
)
from vkbench_shaders.kernels.elementwise.glu import GATES, Gate, values
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.matrices.teams import (
    ADDING,
    BLOCK,
    SPEED,
    TUNING,
    launch,
    refuses_teams,
)
from vkbench_shaders.rounded_factors import Floats

_AT_A_TIME = 512  # rows that the reference multiplies
_SPREAD = (8.0, 64.0)  # sums of squares of blocks
# what random products are about, over the root of k: gates of larger ones pass all or nothing, and
# their products leave one number of a block
_LIKELY = 8.0
_GATED = ("swiglu", "geglu")  # the gates that models have
_DIMS = ("m", "n", "k")


def _layout(halves: int, problem: Problem, binding: str) -> Layout:
    """Sums of squares are one a block, and gates have their rows before those they pass."""
    shape = problem.full_shape(binding)
    if binding == "squares":
        shape = (shape[0], problem.shape[problem.kernel.binding(binding).dims[1]] // BLOCK)
    if binding == "weights":
        shape = (shape[0] * halves, shape[1])
    return Layout.contiguous(shape)


def _inputs(problem: Problem) -> dict[str, Array]:
    found = products.inputs(problem)
    for binding in problem.kernel.bindings[2:]:
        if not binding.is_input:
            continue
        if binding.name == "squares":
            found[binding.name] = data.uniform(problem, binding.name, *_SPREAD)
        elif binding.name == "factors":
            found[binding.name] = data.uniform(problem, binding.name, -2, 2)
        else:
            found[binding.name] = data.activations(problem, binding.name).astype(np.float32)
    return found


def _gated_inputs(problem: Problem) -> dict[str, Array]:
    """Such that products are about 2, by the norm, else by smaller vectors."""
    found, k = _inputs(problem), problem.shape["k"]
    if problem.params["norm"] == "rms":
        found["squares"] *= np.float32(_LIKELY**2 * k)
    else:
        smaller = 2.0 ** -round(np.log2(_LIKELY * np.sqrt(k)))
        found["x"] = quants.quantise("q8_1", products.exact_x(problem, found) * smaller)
    return found


def _products(problem: Problem, inputs: Arrays, rows: Array | None) -> Floats:
    """W x, some rows of weights at a time."""
    x = products.exact_x(problem, inputs)
    found = np.arange(len(inputs["weights"])) if rows is None else rows
    parts = [found[at : at + _AT_A_TIME] for at in range(0, len(found), _AT_A_TIME)]
    return np.concatenate(
        [x @ products.exact_weights(problem, inputs, part).T for part in parts], axis=1
    )


def _over_rms(problem: Problem, inputs: Arrays, rows: Array | None) -> Floats:
    """W x over the root mean square of what x was."""
    mean = inputs["squares"].astype(np.float64).sum(axis=1, keepdims=True) / problem.shape["k"]
    eps = float(np.float32(problem.params["eps"]))
    return np.asarray(_products(problem, inputs, rows) / np.sqrt(mean + eps))


def _rms_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    return {"y": _over_rms(problem, inputs, rows)}


def _glu_reference(
    gate: Gate, problem: Problem, inputs: Arrays, rows: Array | None
) -> dict[str, Array]:
    of = _over_rms if problem.params["norm"] == "rms" else _products
    gates, passed = np.split(of(problem, inputs, rows), 2, axis=1)
    with np.errstate(over="ignore"):  # of exp, where a gate passes nothing
        return {"y": gate.function(gates, passed, *values(gate, problem))}


def _add_reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    total = inputs["residual"].astype(np.float64) + _products(problem, inputs, rows)
    squares = np.square(total).reshape(len(total), -1, BLOCK).sum(axis=-1)
    return {"y": total * inputs["factors"].astype(np.float64), "sum": total, "squares": squares}


def _infer(halves: int, shapes: Shapes, types: Mapping[str, str]) -> dict[str, int]:
    found = products.infer(shapes, types)
    if found["m"] % halves:
        raise UsageError(f"weights have two halves of rows, got {found['m']} rows")
    return {**found, "m": found["m"] // halves}


def _variants(
    module: str,
    launched: Callable[[bool, Problem, DeviceFacts], Launch],
    arguments: tuple[str, ...] = (),
) -> tuple[Variant, ...]:
    def given(types: Mapping[str, str]) -> tuple[str, ...]:
        return (types["weights"], *arguments)

    return (
        Variant(
            name="int_dot",
            module=module,
            entry=module,
            arguments=given,
            launch=partial(launched, True),
            arithmetic="f32",
            requires=("int_dot", "subgroup_arithmetic"),
            refuses=refuses_teams,
        ),
        Variant(
            name="portable",
            module=module,
            entry=f"{module}_portable",
            arguments=given,
            launch=partial(launched, False),
            arithmetic="f32",
            refuses=products.refuses,
            candidates=lambda problem, device: [{}],
        ),
    )


def _array(
    name: str,
    access: str,
    fmt: str,
    dims: tuple[str, ...],
    description: str,
    when: Mapping[str, tuple[str, ...]] | None = None,
) -> Binding:
    return Binding(
        name=name,
        access=access,
        types=(fmt,),
        dims=dims,
        description=description,
        when=when or {},
    )


def _factors(description: str) -> tuple[Binding, Binding]:
    weights = Binding(
        name="weights",
        access="in",
        types=formats.WEIGHTS,
        dims=("m", "k"),
        description=description,
    )
    return weights, _array("x", "in", "q8_1", ("n", "k"), "vectors, rounded to bytes")


_EPS = Param(default=1e-5, least=0, description="what keeps vectors of 0 finite")
_SQUARES = "sums of the squares of the numbers that blocks of x were before they were rounded"

# threads of teams and workgroups, blocks that a thread takes at a time
_SETTINGS = ((32, 128, 1), (64, 256, 2), (64, 512, 1), (128, 1024, 2))
_SHAPES = ("m32_n1_k4096", "m96_n3_k512")
_SHORT = ("m64_n2_k96",)  # blocks of 32
_MORE = (
    "m64_n9_k1024",
    "m32_n1_k256",
    *(f"m64_n2_k1024/team={team},threads={size},units={units}" for team, size, units in _SETTINGS),
)
_MORE_FOR = ("q4_0", "q4_K")


def _listed(
    name: str, shapes: tuple[str, ...] = (), each: tuple[str, ...] = _SHAPES
) -> tuple[Case, ...]:
    """Cases: some of each format, and more of a few, these shapes too."""

    def of(fmt: str) -> Iterator[str]:
        yield from each
        if formats.format_named(fmt).elements == BLOCK:
            yield from _SHORT
        if fmt in _MORE_FOR:
            yield from (*_MORE, *shapes)

    return tuple(parse(f"{name}/{fmt}/{shape}") for fmt in formats.WEIGHTS for shape in of(fmt))


def _timed(name: str, shape: str) -> tuple[Case, ...]:
    return tuple(parse(f"{name}/{fmt}/{shape}") for fmt in formats.WEIGHTS)


_RMS = Kernel(
    name="mul_mat_vec_rms",
    description="Products of a matrix and a few vectors, over these vectors' root mean square.",
    group="matmul",
    dims=_DIMS,
    bindings=(
        *_factors("matrix, row by row"),
        _array("squares", "in", "f32", ("n", "k"), _SQUARES),
        _array("y", "out", "f32", ("n", "m"), "products, one vector a row"),
    ),
    params={"eps": _EPS, **SPEED},
    tuning=TUNING,
    layout=partial(_layout, 1),
    variants=_variants("mul_mat_vec_rms", partial(launch, {})),
    inputs=_inputs,
    reference=_rms_reference,
    flops=products.flops,
    infer=partial(_infer, 1),
    rows="m",
    cases=_listed("mul_mat_vec_rms", each=("m32_n1_k4096", "m109_n3_k512")),
    timed=_timed("mul_mat_vec_rms", "m4096_n1_k14336"),
)


def _launch_gated(gate: Gate, fast: bool, problem: Problem, device: DeviceFacts) -> Launch:
    params = values(gate, problem)
    return launch({"params": (*params, *(0.0,) * (4 - len(params)))}, fast, problem, device)


def _gated(gate: Gate) -> Kernel:
    name = f"mul_mat_vec_{gate.name}_q8_1"
    return Kernel(
        name=name,
        description=(
            f"{gate.description}, rounded to q8_1; a and b are the halves of products of a "
            "matrix and a few vectors."
        ),
        group="matmul",
        dims=_DIMS,
        bindings=(
            *_factors("rows that make gates, and as many that make what these pass"),
            _array("squares", "in", "f32", ("n", "k"), _SQUARES, {"norm": ("rms",)}),
            _array("y", "out", "q8_1", ("n", "m"), "what has passed, rounded to bytes"),
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
        layout=partial(_layout, 2),
        variants=_variants("mul_mat_vec_glu", partial(_launch_gated, gate), (gate.struct("f32"),)),
        inputs=_gated_inputs,
        reference=partial(_glu_reference, gate),
        flops=products.flops,
        infer=partial(_infer, 2),
        cases=_listed(
            name,
            ("m32_n2_k512/norm=none", "m64_n1_k256/eps=0.1"),
            _SHAPES if gate.name == _GATED[0] else _SHAPES[:1],
        ),
        timed=_timed(name, "m14336_n1_k4096"),
    )


_ADD = Kernel(
    name=ADDING,
    description=(
        "Adds products of a matrix and a few vectors to a residual, and rounds sum times factors "
        "to q8_1."
    ),
    group="matmul",
    dims=_DIMS,
    bindings=(
        *_factors("matrix, row by row"),
        _array("residual", "in", "f32", ("n", "m"), "what products are added to"),
        _array("factors", "in", "f32", ("m",), "what sums are multiplied by before rounding"),
        _array("y", "out", "q8_1", ("n", "m"), "sums times factors, rounded to bytes"),
        _array("sum", "out", "f32", ("n", "m"), "the sums"),
        _array("squares", "out", "f32", ("n", "m"), "sums of 32 squares of sums"),
    ),
    params=SPEED,
    tuning=TUNING,
    layout=partial(_layout, 1),
    variants=_variants("mul_mat_vec_add", partial(launch, {})),
    inputs=_inputs,
    reference=_add_reference,
    flops=products.flops,
    infer=partial(_infer, 1),
    cases=_listed(ADDING),
    timed=_timed(ADDING, "m4096_n1_k14336"),
)

JOINED_VEC = (_RMS, *(_gated(gate) for gate in GATES if gate.name in _GATED), _ADD)
