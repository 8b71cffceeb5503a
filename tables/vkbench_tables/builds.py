"""Programs, their builds, and what came with each build as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from vkbench.programs.build import name_build
from vkbench_tables.table import Cell, Column, Rank, ValueKind

if TYPE_CHECKING:
    from vkbench_db.ask.builds import BuildChange, BuildOnDevice, BuildRow

PROGRAMS = (
    Column(key="program", heading="program", rank=Rank.KEY),
    Column(key="builds", heading="builds", kind=ValueKind.COUNT),
    Column(key="series", heading="series", kind=ValueKind.COUNT),
    Column(key="devices", heading="devices", kind=ValueKind.COUNT),
    Column(key="newest", heading="newest build", rank=Rank.KEY),
    Column(key="newest_sha", heading="hash", hidden=True),
    Column(key="added_at", heading="added", kind=ValueKind.TIME),
)
BUILDS = (
    Column(key="build", heading="build", rank=Rank.KEY),
    Column(key="sha", heading="hash", hidden=True),
    Column(key="name", heading="name", hidden=True),
    Column(key="program", heading="program"),
    Column(key="files", heading="files", kind=ValueKind.COUNT),
    Column(key="bytes", heading="size", kind=ValueKind.BYTES),
    Column(key="added_at", heading="added", kind=ValueKind.TIME),
)
FILES = (
    Column(key="path", heading="file", rank=Rank.KEY),
    Column(key="bytes", heading="size", kind=ValueKind.BYTES),
    Column(key="sha", heading="SHA-256"),
)
ON_DEVICES = (
    Column(key="build", heading="build", rank=Rank.KEY),
    Column(key="sha", heading="hash", hidden=True),
    Column(key="device_name", heading="device"),
    Column(key="device", heading="device key", hidden=True),
    Column(key="slower", heading="slower", kind=ValueKind.COUNT),
    Column(key="faster", heading="faster", kind=ValueKind.COUNT),
    Column(key="became_wrong", heading="became wrong", kind=ValueKind.COUNT),
    Column(key="became_failed", heading="began to fail", kind=ValueKind.COUNT),
    Column(key="uncertain", heading="not certain", kind=ValueKind.COUNT),
    Column(key="against", heading="against"),
    Column(key="against_sha", heading="hash", hidden=True),
    Column(key="results", heading="results", kind=ValueKind.COUNT),
    Column(key="wrong", heading="wrong", kind=ValueKind.COUNT),
    Column(key="failed", heading="failed", kind=ValueKind.COUNT),
    Column(key="imported", heading="imported", kind=ValueKind.COUNT),
    Column(key="host", heading="host", rank=Rank.MINOR),
    Column(key="added_at", heading="added", kind=ValueKind.TIME, rank=Rank.MINOR),
    Column(key="newest_at", heading="newest result", kind=ValueKind.TIME, hidden=True),
)
CAME = (
    Column(key="change", heading="change", kind=ValueKind.ID, rank=Rank.MINOR),
    Column(key="state", heading="state"),
    Column(key="direction", heading="direction", rank=Rank.KEY),
    Column(key="case_name", heading="case", rank=Rank.KEY),
    Column(key="metric", heading="metric"),
    Column(key="ratio", heading="new/old", kind=ValueKind.RATIO, rank=Rank.KEY),
    Column(key="low", heading="from", kind=ValueKind.RATIO, rank=Rank.MINOR),
    Column(key="high", heading="to", kind=ValueKind.RATIO, joined=True),
    Column(key="p", heading="p", kind=ValueKind.NUMBER, rank=Rank.MINOR),
    Column(key="cause", heading="cause", rank=Rank.MINOR),
    Column(key="device_name", heading="device"),
    Column(key="host", heading="host", rank=Rank.MINOR),
    Column(key="device", heading="device key", hidden=True),
    Column(key="against", heading="against"),
    Column(key="regression", heading="regression", kind=ValueKind.ID),
    Column(key="series", heading="series", kind=ValueKind.ID, hidden=True),
    Column(key="before_job", heading="last good job", kind=ValueKind.ID, hidden=True),
    Column(key="after_job", heading="first bad job", kind=ValueKind.ID, hidden=True),
    Column(key="found_at", heading="found", kind=ValueKind.TIME, hidden=True),
)


def build_row(row: BuildRow) -> dict[str, Cell]:
    """A build with its files counted."""
    return {
        **{name: getattr(row, name) for name in ("sha", "name", "program", "bytes", "added_at")},
        "build": name_build(row.name, row.sha),
        "files": 0 if row.is_name_alone else len(row.files),
    }


def file_rows(row: BuildRow) -> list[dict[str, Cell]]:
    """The files of a build; none of one that is known by its name alone."""
    if row.is_name_alone:
        return []
    return [
        {"path": file["path"], "bytes": file["nbytes"], "sha": file["sha"]} for file in row.files
    ]


def on_device_row(row: BuildOnDevice, builds: Mapping[str, BuildRow]) -> dict[str, Cell]:
    """A build on a device, beside the one before."""
    build = builds[row.sha]
    return {
        **asdict(row),
        "build": name_build(build.name, build.sha),
        "added_at": build.added_at,
        "against": name_build(builds[row.before].name, row.before) if row.before else "",
        "against_sha": row.before,
    }


def change_rows(changes: Sequence[BuildChange], names: Mapping[str, str]) -> list[dict[str, Cell]]:
    """Changes that came with a build; `names` are what people call builds."""
    return [
        {**asdict(row), "against": name_build(names.get(row.before_bundle, ""), row.before_bundle)}
        for row in changes
    ]
