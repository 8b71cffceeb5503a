"""The catalogue as a table, to script `vkbench exec`, and what of ggml no kernel computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vkbench.programs import ggml_operations
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vkbench.device import DeviceFacts
    from vkbench_shaders.kernel import Kernel
    from vkbench_shaders.tuning.classes import DeviceClass
    from vkbench_shaders.tuning.tables import Table as TuningTable

COLUMNS = (
    Column(key="name", heading="kernel", rank=Rank.KEY),
    Column(key="group", heading="group", rank=Rank.MINOR),
    Column(key="formats", heading="formats", prose=True),
    Column(key="variants", heading="variants"),
    Column(key="dims", heading="sizes"),
    Column(key="description", heading="description", prose=True),
    Column(key="bindings", heading="bindings", hidden=True),
    Column(key="storage", heading="storage of formats", hidden=True),
    Column(key="params", heading="parameters", hidden=True),
    Column(key="cases", heading="checked", hidden=True),
    Column(key="timed", heading="timed", hidden=True),
)

LACKING = (
    Column(key="operation", heading="operation", rank=Rank.KEY),
    Column(key="reason", heading="why no kernel computes it", prose=True),
)
CLASSES = (
    Column(key="class", heading="class", rank=Rank.KEY),
    Column(key="description", heading="devices"),
    Column(key="devices", heading="here", kind=ValueKind.COUNT),
    Column(key="tuned", heading="tuned cases", kind=ValueKind.COUNT, rank=Rank.KEY),
    Column(key="installed", heading="installed", kind=ValueKind.COUNT),
    Column(key="thresholds", heading="thresholds", prose=True),
    Column(key="choices", heading="other choices", rank=Rank.KEY, prose=True),
    Column(key="sources", heading="measured on", hidden=True),
)
PROGRAMS = ("ggml",)  # whose operations are listed


def kernel_row(kernel: Kernel) -> dict[str, Cell]:
    """A kernel of the catalogue."""
    from vkbench_shaders.catalogue import describe

    row: dict[str, Cell] = describe(kernel)
    row["formats"] = kernel.bindings[0].types
    row["storage"] = {name: _storage(name) for b in kernel.bindings for name in b.types}
    return row


def _storage(name: str) -> dict[str, Cell]:
    from vkbench_shaders.formats import format_named

    form = format_named(name)
    return {"dtype": form.dtype.name, "elements": form.elements, "bytes": form.bytes}


def lacking_table() -> Table:
    """ggml's operations and fusions without a kernel of ours; 'missing': they should have one."""
    rows = [
        {"operation": name, "reason": known}
        for name, known in ggml_operations.ALL.items()
        if isinstance(known, str)
    ]
    return Table(columns=LACKING, rows=rows, nothing="no operation of ggml is missing")


def describe_list() -> str:
    """Where the list of operations is from, and how many of them have kernels."""
    known = ggml_operations.ALL
    computed = sum(not isinstance(entry, str) for entry in known.values())
    return (
        f"ggml {ggml_operations.VERSION} ({ggml_operations.COMMIT}, {ggml_operations.DATE}) has"
        f" {len(known)} operations and fusions, of which kernels of the catalogue compute"
        f" {computed}; these are the others"
    )


def class_table(devices: Sequence[DeviceFacts], calibrated: Sequence[DeviceFacts] = ()) -> Table:
    """The classes of devices: what is tuned for each, and by what other choices are estimated.

    `devices` are those of this machine, `calibrated` those whose calibrations the database has.
    """
    from vkbench_shaders.tuning.classes import class_of

    here = [class_of(device).name for device in devices]
    known = {class_of(device).name for device in calibrated}
    rows: list[dict[str, Cell]] = []
    for kind, installed, shipped in _read_tables():
        tables = (installed, shipped)
        sources = (source for table in tables for source in table.sources)
        thresholds = {name for table in tables for name in table.thresholds}
        rows.append(
            {
                "class": kind.name,
                "description": kind.description,
                "devices": here.count(kind.name),
                "tuned": len(shipped.tuned),
                "installed": len(installed.tuned),
                "thresholds": ", ".join(sorted(thresholds)),
                "choices": _describe_choices(installed, shipped, is_calibrated=kind.name in known),
                "sources": sorted({f"{each.device}, {each.driver_version}" for each in sources}),
            }
        )
    return Table(columns=CLASSES, rows=rows)


def _read_tables() -> Iterator[tuple[DeviceClass, TuningTable, TuningTable]]:
    """Each class of devices, with its table on this machine and the one that ships."""
    from vkbench_shaders.tuning.classes import CLASSES as DEVICE_CLASSES
    from vkbench_shaders.tuning.tables import read_installed, read_shipped

    for kind in DEVICE_CLASSES:
        yield kind, read_installed(kind.name), read_shipped(kind.name)


def _describe_choices(installed: TuningTable, shipped: TuningTable, *, is_calibrated: bool) -> str:
    """By what a class chooses where no case was tuned, and no threshold of its own is known.

    A calibration in the database counts from when a table that has it is installed.
    """
    if installed.peaks or shipped.peaks:
        return "estimated from its calibration"
    if installed.thresholds or shipped.thresholds:
        return "estimated from its thresholds"
    why = "calibrated, but its table is not installed" if is_calibrated else "not calibrated"
    return f"estimated as on an H200: {why}"


def describe_tuned() -> str:
    """Which classes of devices have a tuning table, for those who read a list of kernels."""
    tuned, others = list[str](), list[str]()
    for kind, installed, shipped in _read_tables():
        (tuned if installed.tuned or shipped.tuned else others).append(kind.name)
    if not others:
        return ""
    return (
        f"tuned for {' and '.join(tuned) or 'no class of devices'}. Nothing was measured yet for "
        f"{', '.join(others)}: there tiles, threads and variants are estimated "
        "(`vkbench kernels --classes`)"
    )
