"""`vkbench kernels`: what the catalogue holds, in enough detail to script `vkbench exec`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench import names
from vkbench_cli.options import Formats, Kernels, Output
from vkbench_cli.printing import Cell, Column, Kind, Table, show

if TYPE_CHECKING:
    from vkbench_shaders.kernel import Binding, Kernel

COLUMNS = (
    Column(key="name", heading="kernel"),
    Column(key="formats", heading="formats"),
    Column(key="variants", heading="variants"),
    Column(key="dims", heading="sizes"),
    Column(key="description", heading="description"),
    Column(key="bindings", heading="bindings", kind=Kind.DETAIL),
    Column(key="params", heading="parameters", kind=Kind.DETAIL),
    Column(key="paths", heading="code paths", kind=Kind.DETAIL),
    Column(key="checked_cases", heading="checked", kind=Kind.DETAIL),
    Column(key="timed_cases", heading="timed", kind=Kind.DETAIL),
)


def kernels(*, kernel: Kernels = [], format: Formats = [], output: Output) -> None:  # noqa: B006
    """List kernels with their formats and variants.

    --json tells of each kernel's bindings with their types, sizes and blocks, its parameters, and
    its variants with the device features they require: all that a script needs for `vkbench exec`.
    """
    from vkbench_shaders.catalogue import KERNELS
    from vkbench_shaders.formats import FORMATS

    known = [k.name for k in KERNELS]
    wanted = {name for glob in kernel or ["*"] for name in names.matching(glob, known, "kernel")}
    formats = [f.name for f in FORMATS]
    typed = {name for glob in format or ["*"] for name in names.matching(glob, formats, "format")}
    rows = [_row(k) for k in KERNELS if k.name in wanted and typed & set(k.bindings[0].types)]
    show(Table(columns=COLUMNS, rows=rows), output)


def _row(kernel: Kernel) -> dict[str, Cell]:
    return {
        "name": kernel.name,
        "description": kernel.description,
        "formats": kernel.bindings[0].types,
        "variants": [variant.name for variant in kernel.variants],
        "dims": kernel.dims,
        "bindings": [_binding(binding) for binding in kernel.bindings],
        "params": [
            {"name": name, "default": p.default, "choices": p.choices, "description": p.description}
            for name, p in kernel.params.items()
        ],
        "paths": [
            {"name": v.name, "requires": v.requires, "arithmetic": v.path} for v in kernel.variants
        ],
        "checked_cases": len(kernel.cases),
        "timed_cases": len(kernel.timed),
    }


def _binding(binding: Binding) -> dict[str, Cell]:
    return {
        "name": binding.name,
        "access": binding.access,
        "dims": binding.dims,
        "types": [_type(name) for name in binding.types],
        "description": binding.description,
    }


def _type(name: str) -> dict[str, Cell]:
    from vkbench_shaders.formats import format_named

    form = format_named(name)
    return {
        "format": form.name,
        "dtype": form.dtype.name,
        "block_elements": form.elements,
        "block_bytes": form.bytes,
    }
