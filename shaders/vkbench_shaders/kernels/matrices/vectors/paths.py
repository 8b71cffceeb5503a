"""Code paths that multiply by a few vectors row by row: see slang/matrices/vec.slang."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import (
    Choice,
    Launch,
    Param,
    Problem,
    Refuses,
    Settings,
    Stage,
    Tuning,
    Variant,
)
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.kernels.matrices.vectors import via_q8_1
from vkbench_shaders.kernels.matrices.vectors.via_q8_1 import Vectors
from vkbench_shaders.kernels.shared.portable import portable

LARGE_TABLES = ("IQ1_S", "IQ2_XS", "IQ2_S")  # 4 KiB and more, which few threads copy slowly


SIZES = (32, 64, 128, 256)  # of workgroups
THREADS = Param(
    default=0, choices=(0, *SIZES), description="threads of a workgroup; 0: what should be fastest"
)


def threads(problem: Problem, columns: int) -> int:
    """Threads of a workgroup: as asked for, or as many as have units of a row to multiply.

    More are slower once a thread has much to do; tuning finds how many are the fastest.
    """
    if named := int(problem.params["threads"]):
        return named
    units = problem.shape["k"] // products.unit(problem)
    fmt, most = problem.format("weights"), 128
    if fmt.quantised and fmt.grid not in LARGE_TABLES:
        if columns > (3 if products.is_blocks(problem.types) else 1):
            most = 32
        elif products.is_numbers(problem.types):
            most = 64
    return next((count for count in (32, 64) if units <= count < most), most)


def tuning(columns: Callable[[Problem], int], *more: str) -> Tuning:
    """Tuning of threads: a workgroup has the fewer the more columns it makes."""

    def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
        usual = threads(problem, columns(problem))
        most = device.limits.get("max_workgroup_invocations", usual)
        sizes = [size for size in SIZES if size == usual or size <= most]
        return [{"threads": size} for size in sorted(sizes, key=lambda size: size != usual)]

    return Tuning(params=("threads", *more), candidates=candidates)


def constants(problem: Problem, device: DeviceFacts, columns: int) -> dict[str, int]:
    """Specialisation constants of the shader module `vec`, for so many columns a workgroup."""
    count = threads(problem, columns)
    return {
        "THREADS": count,
        "COLUMNS": columns,
        "ALIGNED": products.are_rows_aligned(problem),
        "UNITS": 1,
        "WORDS": products.in_words(problem),
        "PARTIAL": products.room_for_sums(device, count, columns),
    }


Arguments = Callable[[Mapping[str, str]], tuple[str, ...]]


def arguments(dot: str, total: str) -> Arguments:
    """Generic arguments: the formats, how bytes are multiplied, how threads sum up."""
    return lambda types: (types["weights"], types["x"], dot, total)


def variants(
    name: str,
    buffers: int,
    vectors: Callable[[Problem], Vectors],
    launch: Callable[[Problem, DeviceFacts], Launch],
    refuses: Refuses,
    staging: via_q8_1.Staging | None = None,
) -> tuple[Variant, ...]:
    """The code paths of a product with few vectors and so many buffers, of shader module `name`."""
    subgroups = ("subgroup_arithmetic",)

    units = Stage(
        entry=f"{name}_units",
        arguments=lambda types: (types["weights"],),
        accepts=products.is_blocks,
    )

    def of_bytes(problem: Problem, device: DeviceFacts) -> Launch:
        plain = launch(problem, device)
        constants = via_q8_1.fast_constants(problem, device, plain.constants)
        entry = units.entry if constants["UNITS"] > 1 else ""
        return replace(plain, constants=constants, entry=entry)

    return (
        Variant(
            name="int_dot",
            module=name,
            arguments=arguments("packed_dot", "subgroup_sum"),
            more=(units,),
            launch=of_bytes,
            arithmetic="f32",
            choice=Choice(candidates=via_q8_1.candidates),
            requires=("int_dot", *subgroups),
            accepts=products.is_blocks,
            refuses=refuses,
        ),
        Variant(
            name="subgroup",
            module=name,
            arguments=arguments("byte_dot", "subgroup_sum"),
            launch=launch,
            arithmetic="f32",
            requires=subgroups,
            accepts=products.is_numbers,
            refuses=refuses,
        ),
        via_q8_1.variant(name, buffers, vectors, launch, products.refuses, staging),
        portable(name, launch, "f32", arguments=arguments("byte_dot", "tree_sum"), refuses=refuses),
    )
