"""Which types of elements the general operations take, and that each has a case."""

from __future__ import annotations

import pytest

from vkbench_shaders.catalogue import kernel_named
from vkbench_shaders.kernel import Problem

_WIDTHS = "f32 f16 u8 i64 bf16 i32 u32 f64"  # data are moved by the width of an element alone
_TYPES = {
    **dict.fromkeys(
        (
            "index_select",
            "gather",
            "scatter",
            "copy2d",
            "cont",
            "transpose",
            "concat",
            "repeat",
            "pad",
            "roll",
        ),
        _WIDTHS,
    ),
}


@pytest.mark.parametrize("name", _TYPES)
def test_an_operation_takes_these_types_and_has_cases_of_each(name: str) -> None:
    kernel = kernel_named(name)
    asked = set(_TYPES[name].split())
    assert {types[kernel.bindings[0].name] for types in kernel.type_choices()} == asked
    cases = [Problem(kernel, case) for case in kernel.cases]
    assert {str(posed.types) for posed in cases} == {str(t) for t in kernel.type_choices()}
