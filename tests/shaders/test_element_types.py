"""Which types of elements the general operations take, and that each has a case."""

from __future__ import annotations

import pytest

from vkbench_shaders.catalogue import kernel_named
from vkbench_shaders.kernel import Problem

# The names of operations, by the types of what they read.
_NAMES = {
    # data are moved by the width of an element alone
    "f32 f16 u8 i64 bf16 i32 u32 f64 i16": (
        "index_select gather scatter copy2d cont transpose concat repeat pad roll"
    ),
    "f32 f16 bf16": (
        "cumsum argsort top_k cross_entropy cross_entropy_back im2col1d im2col"
        " avg_pool1d avg_pool2d max_pool1d max_pool2d"
        " upsample_nearest1d upsample_nearest2d upsample_bilinear2d"
    ),
    "f32 f16 bf16 i32 f64": "scatter_add index_add",
    "f32 bf16": "sgd adam adamw muon",
    "f32 f16 bf16 f64": (
        "rand_uniform rand_normal scale affine abs neg sign step relu floor ceil round trunc clamp"
        " sqr leaky_relu sqrt hardsigmoid hardswish exp exp2 expm1 log log2 sin cos tanh sigmoid"
        " softplus powf silu gelu gelu_quick gelu_erf elu xielu silu_back"
        " reglu geglu swiglu geglu_erf geglu_quick swiglu_oai reglu_split geglu_split swiglu_split"
        " geglu_erf_split geglu_quick_split swiglu_oai_split sigmoid_mul softplus_mul"
    ),
    "f32 f16 bf16 u8 u32 i32 i64 f64": "where_cond",
}


@pytest.mark.parametrize(
    ("name", "asked"), [(name, types) for types, names in _NAMES.items() for name in names.split()]
)
def test_an_operation_takes_these_types_and_has_cases_of_each(name: str, asked: str) -> None:
    kernel = kernel_named(name)
    first = kernel.bindings[0].name
    assert {types[first] for types in kernel.type_choices()} == set(asked.split())
    cases = [Problem(kernel, case) for case in kernel.cases]
    assert {str(posed.types) for posed in cases} == {str(types) for types in kernel.type_choices()}
