"""Regressions, their changes and events, and suspected changes as tables."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from math import log
from typing import TYPE_CHECKING

from vkbench.programs.build import name_build
from vkbench_detection.changes.decisions import OF_SOFTWARE, Cause
from vkbench_detection.regress.stages import TO_DO, RegressionStage
from vkbench_tables.series import MEASURED
from vkbench_tables.table import Cell, Column, Rank, ValueKind

if TYPE_CHECKING:
    from vkbench_detection.regress.inbox import MemberRow, RegressionRow, RegressionStory

STATES = tuple(RegressionStage)
DIRECTIONS = ("slower", "faster", "wrong", "failed")
GRAVITY = ("wrong", "failed", "slower", "faster")  # of directions, the worst first
SHA_SHOWN = 12

ROWS = (
    Column(key="id", heading="id", kind=ValueKind.ID, rank=Rank.KEY),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="direction", heading="direction"),
    Column(key="cause", heading="cause"),
    Column(key="title", heading="what", rank=Rank.KEY),
    Column(key="kernels", heading="kernels"),
    Column(key="changes", heading="series", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="cases", heading="cases", kind=ValueKind.COUNT, hidden=True),
    Column(key="devices", heading="devices", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="ratio", heading="new/old", kind=ValueKind.RATIO, rank=Rank.KEY),
    Column(key="smallest", heading="from", kind=ValueKind.RATIO, rank=Rank.MINOR),
    Column(key="largest", heading="to", kind=ValueKind.RATIO, rank=Rank.MINOR, joined=True),
    Column(key="owner", heading="owner"),
    Column(key="opened_at", heading="opened", kind=ValueKind.TIME, rank=Rank.MINOR),
    Column(key="changed_at", heading="changed", kind=ValueKind.TIME, hidden=True),
)
MEMBERS = (
    Column(key="change", heading="change", kind=ValueKind.ID, rank=Rank.KEY),
    *MEASURED,
    Column(key="ratio", heading="new/old", kind=ValueKind.RATIO, rank=Rank.KEY),
    Column(key="low", heading="from", kind=ValueKind.RATIO, rank=Rank.MINOR),
    Column(key="high", heading="to", kind=ValueKind.RATIO, rank=Rank.MINOR, joined=True),
    Column(key="p", heading="p", kind=ValueKind.NUMBER, rank=Rank.MINOR),
    Column(key="method", heading="found by", rank=Rank.MINOR),
    Column(key="before_job", heading="last good job", kind=ValueKind.ID, rank=Rank.MINOR),
    Column(key="after_job", heading="first bad job", kind=ValueKind.ID, joined=True),
    Column(key="timed_drivers", heading="drivers timed in turns", hidden=True),
    *(
        Column(key=f"{side}_{part}", heading=f"{heading} {part}", lifted=True)
        for part in ("build", "kernel", "bundle", "driver")
        for side, heading in (("before", "old"), ("after", "new"))
    ),
    Column(key="program", heading="program", hidden=True),
    Column(key="found_at", heading="found", kind=ValueKind.TIME, hidden=True),
    Column(key="series", heading="series", kind=ValueKind.ID, hidden=True),
    Column(key="evidence", heading="evidence", lifted=True, prose=True),
)
EVENTS = (
    Column(key="at", heading="when", kind=ValueKind.TIME),
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="user", heading="by"),
    Column(key="note", heading="note", prose=True),
)
ALERTS = (
    Column(key="state", heading="alert of", rank=Rank.KEY),
    Column(key="channel", heading="through"),
    Column(key="delivered_at", heading="delivered", kind=ValueKind.TIME),
    Column(key="tries", heading="tries", kind=ValueKind.COUNT),
    Column(key="error", heading="trouble", prose=True),
)
STORY = (
    *ROWS,
    *(Column(key=key, heading="") for key in ("members", "events", "alerts")),
)
SUSPECTED = (
    Column(key="change", heading="change", kind=ValueKind.ID, rank=Rank.KEY),
    Column(key="state", heading="state", rank=Rank.KEY),
    *MEASURED,
    Column(key="direction", heading="direction"),
    Column(key="cause", heading="cause"),
    Column(key="ratio", heading="new/old", kind=ValueKind.RATIO, rank=Rank.KEY),
    Column(key="p", heading="p", kind=ValueKind.NUMBER),
    Column(key="method", heading="found by", rank=Rank.MINOR),
    Column(key="found_at", heading="found", kind=ValueKind.TIME),
    Column(key="evidence", heading="evidence", lifted=True, prose=True),
    Column(key="series", heading="series", kind=ValueKind.ID, hidden=True),
)


def rank_by_gravity(row: RegressionRow) -> tuple[int, float]:
    """A key that sorts wrong before failed, slower and faster, and large changes before small."""
    size = abs(log(row.ratio)) if row.ratio else 0.0
    return GRAVITY.index(row.direction), -size


def sort_worst_first(rows: Sequence[RegressionRow]) -> list[RegressionRow]:
    """Those that people have to look at, then those that are settled; of both the worst first."""
    return sorted(rows, key=lambda row: (row.state not in TO_DO, *rank_by_gravity(row)))


def story_row(story: RegressionStory) -> dict[str, Cell]:
    """A regression with its changes and events, for programs."""
    return {
        **asdict(story.row),
        "members": [member_row(row) for row in story.members],
        "events": [asdict(row) for row in story.events],
    }


def member_row(member: MemberRow) -> dict[str, Cell]:
    """A change of a regression, each driver with its version."""
    return asdict(member) | {
        f"{side}_driver": _driver(member, side) for side in ("before", "after")
    }


def short_member(member: MemberRow) -> dict[str, Cell]:
    """A change of a regression for people, with shortened hashes; a build in place of its own."""
    row = member_row(member)
    for name in ("before_kernel", "after_kernel", "before_bundle", "after_bundle"):
        row[name] = "" if member.program else str(row[name])[:SHA_SHOWN]
    if member.program:
        row["before_build"] = name_build(member.before_build or "", member.before_bundle)
        row["after_build"] = name_build(member.after_build or "", member.after_bundle)
    return row


def list_commands(story: RegressionStory) -> list[tuple[str, str]]:
    """What to type about a regression: each command with what it does."""
    if builds := [row for row in story.members if row.program and has_moved(row)]:
        return _commands_of("build", choose_worst(builds), story)
    if bundles := [row for row in story.members if row.after_bundle and not row.program]:
        worst = choose_worst(bundles)
        if story.row.cause == Cause.DRIVER and worst.timed_drivers:
            return _commands_of_timed_drivers(worst, *worst.timed_drivers, story.row.direction)
        if story.row.cause in OF_SOFTWARE:
            return _commands_of_driver(worst, story.row.direction)
        return _commands_of("bundle", worst, story) if has_moved(worst) else []
    return []


def has_moved(member: MemberRow) -> bool:
    """Whether another bundle or build ran after a change than before it."""
    return member.before_bundle != member.after_bundle


def choose_worst(members: Sequence[MemberRow]) -> MemberRow:
    """The change that is the largest; a verdict is worse than any time."""
    return max(members, key=lambda row: (row.ratio is None, abs(log(row.ratio or 1.0))))


def _commands_of(kind: str, worst: MemberRow, story: RegressionStory) -> list[tuple[str, str]]:
    """What to type about what a bundle or a build brought."""
    old, new = worst.before_bundle[:SHA_SHOWN], worst.after_bundle[:SHA_SHOWN]
    run = ["vkbench", "run", f"--{kind}", new, "--case", worst.case_name, "--device", worst.device]
    commands = [
        ("run it again", shlex.join(run)),
        (f"compare both {kind}s", f"vkbench compare {kind}:{old} {kind}:{new}"),
    ]
    if story.row.direction != "faster":
        search = f"vkbench bisect --regression {story.row.id}"
        commands.append((f"find the first bad {kind}", search))
    return commands


def _commands_of_timed_drivers(
    worst: MemberRow, old: str, new: str, direction: str
) -> list[tuple[str, str]]:
    """What to type about a driver that pairs found to be another than the one before it."""
    compare = ["vkbench", "compare", f"driver:{old}", f"driver:{new}"]
    commands = [("compare both drivers", shlex.join(compare))]
    if direction != "faster":
        search = ["vkbench", "bisect", "--case", worst.case_name, "--drivers", f"{old},{new}"]
        search += ["--device", worst.device, "--submit"]
        what = "find the first bad driver, with those between them that you added there"
        commands.append((what, shlex.join(search)))
    return commands


def _commands_of_driver(worst: MemberRow, direction: str) -> list[tuple[str, str]]:
    """What to type about what came with another driver."""
    old, new = worst.before_driver_version, worst.after_driver_version
    if not old or not new or old == new:
        return []
    compare = ["vkbench", "compare", f"driver:{old}", f"driver:{new}"]
    commands = [("compare both drivers", shlex.join(compare))]
    if direction != "faster":
        search = ["vkbench", "bisect", "--case", worst.case_name, "--device", worst.device]
        what = "find the first bad driver, of those added by such names (`vkbench driver add`)"
        commands.append((what, shlex.join([*search, "--drivers", f"{old},{new}"])))
    return commands


def _driver(member: MemberRow, side: str) -> str:
    words = (getattr(member, f"{side}_driver"), getattr(member, f"{side}_driver_version"))
    return " ".join(filter(None, words))
