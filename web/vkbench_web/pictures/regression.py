"""What the page of a regression draws: a picture a row, one a device, and the worst series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from urllib.parse import urlencode

from vkbench.programs.build import SHA_SHOWN
from vkbench_db.ask.both_sides import read_both_sides
from vkbench_db.database import Transaction
from vkbench_detection.regress.inbox import MemberRow, RegressionStory
from vkbench_tables.regressions import choose_worst
from vkbench_web.pages.one_series import History, histories
from vkbench_web.pictures.change import SMALL, SPARK, ChangePicture, draw_change

EACH_OF_SPARK, EACH_OF_SMALL = 12, 40  # results on either side of a change
MOST_DEVICES = 8  # that have a picture of their own
WORST_POINTS = 400  # of the worst series
_KINDS = {"kernel": "bundle", "build": "build", "environment": "driver", "driver": "driver"}


@dataclass(frozen=True, kw_only=True)
class DevicePicture:
    """The worst change of a device, and how many more it has."""

    member: MemberRow
    picture: ChangePicture | None  # None of verdicts
    more: int


def draw_rows(tx: Transaction, changes: Sequence[int]) -> Mapping[int, ChangePicture]:
    """A small picture of each of these changes that has times."""
    sides = read_both_sides(tx, changes, EACH_OF_SPARK)
    drawn = {change: draw_change(both, SPARK) for change, both in sides.items()}
    return {change: picture for change, picture in drawn.items() if picture}


def draw_devices(tx: Transaction, members: Sequence[MemberRow]) -> list[DevicePicture]:
    """A picture of the worst change of each device, the worst device first."""
    by_device: dict[str, list[MemberRow]] = {}
    for member in members:
        by_device.setdefault(member.device, []).append(member)
    worst = sorted(map(choose_worst, by_device.values()), key=_size, reverse=True)[:MOST_DEVICES]
    sides = read_both_sides(tx, [member.change for member in worst], EACH_OF_SMALL)
    return [
        DevicePicture(
            member=member,
            picture=draw_change(sides[member.change], SMALL) if member.change in sides else None,
            more=len(by_device[member.device]) - 1,
        )
        for member in worst
    ]


def read_worst(tx: Transaction, member: MemberRow) -> History | None:
    """The history of a change's series; None of verdicts, which have no times."""
    [history] = histories(tx, [member.series], WORST_POINTS)
    return history if history.points else None


def comparison_url(story: RegressionStory) -> str:
    """The page that compares what came with a regression to what was before; "" of other causes."""
    kind = _KINDS.get(story.row.cause, "")
    member = choose_worst(story.members)
    ends = {
        "bundle": (member.before_bundle[:SHA_SHOWN], member.after_bundle[:SHA_SHOWN]),
        "build": (member.before_bundle[:SHA_SHOWN], member.after_bundle[:SHA_SHOWN]),
        "driver": member.timed_drivers
        or (member.before_driver_version or "", member.after_driver_version or ""),
    }
    old, new = ends.get(kind, ("", ""))
    if not old or not new or old == new:
        return ""
    return f"/compare?{urlencode({'old': f'{kind}:{old}', 'new': f'{kind}:{new}'})}"


def describe_pairs(member: MemberRow) -> str:
    """What measuring the old and the new in turns said of a change."""
    if member.ratio is None:
        return member.evidence
    interval = ""
    if member.low is not None and member.high is not None:
        interval = f" ({member.low:.3f} to {member.high:.3f})"
    p = (
        f", p {'< 0.001' if member.p < 0.001 else f'= {member.p:.3f}'}"
        if member.p is not None
        else ""
    )
    return f"new over old: {member.ratio:.3f}{interval}{p}; {member.evidence or member.method}"


def _size(member: MemberRow) -> float:
    return abs(log(member.ratio)) if member.ratio else 0.0
