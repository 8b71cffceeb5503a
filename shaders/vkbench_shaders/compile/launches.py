"""Checks that the catalogue's launches give what compiled units take, name by name.

And that the units write outputs and scratch alone: models order launches by what each one touches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.bundle import Bundle, entry_key
from vkbench_shaders.compile.accesses import accesses
from vkbench_shaders.kernel import Kernel, Problem, Variant
from vkbench_shaders.launch import LaunchMismatch, pack

# what variants by cooperative matrices choose their entry points by
_MATRICES: Final = ("matrix_bf16_f32", "matrix_f16_f16", "matrix_f16_f32")

_SMALL: Final = DeviceFacts(
    key="",
    host="",
    index=0,
    name="a small device",
    uuid="",
    vendor_id=0,
    device_id=0,
    type="integrated",
    memory_bytes=1 << 30,
    subgroup_size=4,
    features=(),
    limits={
        "max_workgroup_invocations": 128,
        "max_workgroup_size_x": 128,
        "max_shared_bytes": 16384,
        "max_storage_range": 1 << 27,
        "max_push_bytes": 128,
        "storage_alignment": 256,
        "max_groups_x": 65535,
        "max_groups_y": 65535,
        "max_groups_z": 65535,
    },
)
_LARGE: Final = replace(
    _SMALL,
    name="a large device",
    subgroup_size=32,
    features=(
        *_MATRICES,
        "matrix_f16_f32_16x8x16",
        "matrix_i8_i32",
        "int_dot",
        "subgroup_arithmetic",
        "subgroup_shuffle",
    ),
    limits={
        **_SMALL.limits,
        "max_workgroup_invocations": 1024,
        "max_shared_bytes": 49152,
        "max_storage_range": 1 << 32,
    },
    compute_units=64,
)
_INTEL: Final = replace(_LARGE, features=tuple(f"{name}_8x16x16" for name in _MATRICES))
_CPU: Final = replace(
    _LARGE,
    subgroup_size=8,
    features=tuple(f"{name}_8x8x8" for name in (*_MATRICES, "matrix_i8_i32")),
)
_ROOMY: Final = replace(
    _LARGE, name="a device of much room", limits={**_LARGE.limits, "max_shared_bytes": 65536}
)


def check(bundle: Bundle, kernels: Iterable[Kernel]) -> None:
    """Pack the launches of every listed case; LaunchMismatch names the first that does not fit.

    Some entry points are for devices with much shared memory, others for those with little, and
    some for the sizes of cooperative matrices that a device has; some run only with settings that
    tuning tries. What a device refuses is not packed.
    """
    for kernel in kernels:
        for case in (*kernel.cases, *kernel.timed):
            problem = Problem(kernel, case)
            for variant in kernel.variants_for(problem.types):
                for device in _devices(variant):
                    _check(bundle, problem, variant, device)
        for problem in _tunable(kernel):
            for variant in kernel.variants_for(problem.types):
                for settings in problem.candidates(_LARGE, variant):
                    _check(bundle, replace(problem, settings=settings), variant, _LARGE)


def _tunable(kernel: Kernel) -> Iterable[Problem]:
    """A timed case of each choice of formats, if the kernel has settings."""
    by_types: dict[tuple[str, ...], Problem] = {}
    for case in kernel.timed if kernel.tuning else ():
        problem = Problem(kernel, case)
        by_types.setdefault(tuple(problem.types.values()), problem)
    return by_types.values()


def _devices(variant: Variant) -> tuple[DeviceFacts, ...]:
    matrices = (_INTEL, _CPU, _ROOMY) if "coopmat" in variant.requires else ()
    return _SMALL, _LARGE, *matrices


def _check(bundle: Bundle, problem: Problem, variant: Variant, device: DeviceFacts) -> None:
    if variant.refuses(problem, device):
        return
    written: set[int] = set()
    try:
        for launch in variant.launches(problem, device):
            key = entry_key(variant.stage(launch.entry), problem.types)
            pack(launch, bundle.interface(key), key)
            if not (touched := accesses(bundle.code(key))):
                raise LaunchMismatch(f"{key}: its code does not tell which bindings it touches")
            written |= touched.written
        _check_written(problem, written)
    except LaunchMismatch as error:
        raise LaunchMismatch(f"{problem.case.name}, variant {variant.name}: {error}") from error


def _check_written(problem: Problem, written: set[int]) -> None:
    """Launches, all together, write each output, and no input."""
    for number, binding in enumerate(problem.kernel.bindings):
        if binding.is_output and number not in written:
            raise LaunchMismatch(f"no launch writes {binding.name}")
        if not binding.is_output and number in written:
            raise LaunchMismatch(f"{binding.name} is an input, and its shader may write to it")
