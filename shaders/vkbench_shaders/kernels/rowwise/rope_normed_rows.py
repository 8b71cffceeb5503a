"""rms_norm_rope_set_rows: keys that are normalised, turned and put into a cache at once."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from vkbench.case import parse
from vkbench.device import DeviceFacts
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import Array, Arrays, Check, Launch, Problem, Work
from vkbench_shaders.kernels.rowwise import rope_normed, rope_rows
from vkbench_shaders.quantisers import quants


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    normed = rope_normed.launch(problem, device)
    return replace(normed, push={**normed.push, **rope_rows.table(problem)})


def inputs(problem: Problem) -> dict[str, Array]:
    return {**rope_rows.inputs(problem), "weights": data.uniform(problem, "weights", -2, 2)}


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    y = quants.dequantise(problem.types["y"], inputs["y"])
    y[inputs["ids"]] = rope_normed.reference(problem, inputs, None)["y"]
    return {"y": y}


_CASES = (
    "m5_b1_n1_h1_k8",
    "m40_b2_n3_h8_k128",
    "m9_b1_n9_h3_k64/mode=neox",
    "m64_b1_n33_h4_k80/eps=0.1,factors=given,mode=neox,n_dims=32",
    "m16_b1_n7_h2_k128/mode=mrope",
    "m10_b2_n5_h1_k128/mode=imrope,sections=24.20.20.0",
    "m9_b1_n9_h4_k80/mode=vision,sections=20.20.20.20",
)
_TIMED = tuple(f"m4096_b1_n{n}_h8_k128/mode=neox" for n in (1, 512))
_NORM = rope_normed.RMS_NORM_ROPE

RMS_NORM_ROPE_SET_ROWS = replace(
    rope_rows.ROPE_SET_ROWS,
    name="rms_norm_rope_set_rows",
    description="Sets rows of a table to heads that rms_norm_rope makes: y[ids[n]] = turned norm of"
    " x[n] times weights.",
    bindings=(*rope_rows.ROPE_SET_ROWS.bindings, _NORM.bindings[-1]),
    params=_NORM.params,
    variants=(rope_normed.normed_variant(launch, lambda types: (f"rows_of_table<{types['y']}>",)),),
    inputs=inputs,
    check=Check(reference=reference),
    work=Work(
        flops=lambda problem: 8 * prod(problem.full_shape("x")), bytes_moved=rope_rows.bytes_moved
    ),
    cases=CaseList(
        lambda: (
            parse(f"rms_norm_rope_set_rows/{types}/{shape}")
            for types, shape in rope_rows.list_cases(_CASES)
        )
    ),
    timed=CaseList(lambda: (parse(f"rms_norm_rope_set_rows/f32/{case}") for case in _TIMED)),
)
