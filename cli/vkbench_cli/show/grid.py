"""The tables of `vkbench kernels` about formats: what can be done with each, and where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import problem
from vkbench_shaders.families import Family, families, formats_in_use
from vkbench_shaders.formats import FORMATS, Format
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind
from vkbench_worker.runner.variants import choose
from vkbench_worker.runtime.errors import Unsupported

NONE = "-"  # the catalogue has no such kernel

_FORMAT = (
    Column(key="format", heading="format", rank=Rank.KEY),
    Column(key="elements", heading="block", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="bytes", heading="bytes", kind=ValueKind.VALUE, rank=Rank.MINOR),
    Column(key="bits", heading="bits", kind=ValueKind.VALUE),
    Column(key="ratio", heading="compression", kind=ValueKind.NUMBER, rank=Rank.MINOR),
)


def formats_table(names: set[str]) -> Table:
    """A row per format: its block, bits per weight, and how many times smaller than f32 it is."""
    columns = (
        *_FORMAT,
        Column(key="use", heading="use"),
        Column(key="encoded", heading="quantised here"),
        Column(key="ggml", heading="GGML type", kind=ValueKind.COUNT),
        Column(key="description", heading="description", prose=True),
    )
    rows = [
        _size(fmt)
        | {
            "use": fmt.use,
            "encoded": fmt.encoded or fmt.prepared,
            "ggml": fmt.ggml,
            "description": fmt.description,
        }
        for fmt in FORMATS
        if fmt.name in names
    ]
    return Table(columns=columns, rows=rows)


def grid_table(devices: Sequence[DeviceFacts], formats: set[str], kernels: set[str]) -> Table:
    """A row per device and format, a column per family: the best code path, or why there is none.

    Without a device: the best code path that the catalogue has.
    """
    shown = [family for family in families() if family.kernel.name in kernels]
    columns = (
        Column(key="device", heading="device", lifted=True),
        Column(key="device_key", heading="key", hidden=True),
        *_FORMAT,
        *(Column(key=family.name, heading=_heading(family)) for family in shown),
    )
    return Table(columns=columns, rows=list(_grid(devices or [None], shown, formats)))


def _heading(family: Family) -> str:
    return f"{family.kernel.name} {family.x}".strip()


def _size(fmt: Format) -> dict[str, Cell]:
    return {
        "format": fmt.name,
        "elements": fmt.elements,
        "bytes": fmt.bytes,
        "bits": fmt.bits,
        "ratio": fmt.ratio,
    }


def _grid(
    devices: Sequence[DeviceFacts | None], shown: Sequence[Family], formats: set[str]
) -> Iterator[dict[str, Cell]]:
    for facts in devices:
        for fmt in formats_in_use():
            if fmt.name in formats:
                place = {"device": facts and facts.name, "device_key": facts and facts.key}
                cells = {family.name: _cell(family, fmt.name, facts) for family in shown}
                yield place | _size(fmt) | cells


def _cell(family: Family, fmt: str, facts: DeviceFacts | None) -> str:
    variants = family.variants(fmt)
    if not variants:
        return NONE
    return _best(family, fmt, facts) if facts else variants[0].name


def _best(family: Family, fmt: str, facts: DeviceFacts) -> str:
    """The first code path by which `auto` does some listed case on a device, or why none does."""

    reason = "no case is listed"
    for variant in family.variants(fmt):
        for case in family.cases(fmt):
            posed = problem(case)
            if variant.choice.only_by_name(posed.types):
                continue
            try:
                return choose(posed, variant.name, facts).variant.name
            except Unsupported as error:
                reason = str(error)
    return f"no: {reason}"
