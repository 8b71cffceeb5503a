"""/: what the lab did last night and the night before, and what somebody has to look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench.job import JobState
from vkbench.words.units import count_of
from vkbench_db.ask import queries
from vkbench_db.ask.devices.lately import Lately, Steadiness, lately, steadiness
from vkbench_db.ask.nights import Night, last_nights
from vkbench_db.ask.queries import DeviceRow
from vkbench_db.database import Transaction
from vkbench_db.upkeep.attendance import attendance
from vkbench_detection.peers.standings import Standing, fallen_since
from vkbench_detection.regress import inbox
from vkbench_detection.regress.inbox import RegressionRow
from vkbench_detection.regress.stages import TO_DO, UNSETTLED
from vkbench_tables.absence import absence, describe_pause
from vkbench_tables.devices import health, state_of
from vkbench_tables.regressions import rank_by_gravity
from vkbench_web.shell import age, lab_of, page

router = APIRouter()
MOST_SHOWN = 5  # of a list: the rest is behind its link
_WELL = ("", "well")


@dataclass(frozen=True, kw_only=True)
class NightRow:
    """A number of the last night, with that of the night before."""

    name: str
    last: int
    before: int
    link: str
    word: str = ""  # the state that colours it


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """A device that somebody should look at, and why."""

    name: str
    host: str
    link: str
    reason: str


@dataclass(frozen=True, kw_only=True)
class FallenCase:
    """A case whose ratio to a peer fell, on each device where it did."""

    case_name: str
    peer: str
    falls: Sequence[Standing]  # the deepest first


@router.get("/", include_in_schema=False)
def home(request: Request) -> Response:
    """The page of the lab."""
    lab = lab_of(request)
    now = lab.now()
    with lab.reading() as tx:
        nights = last_nights(tx, now)
        devices = queries.devices(tx)
        rows = inbox.regressions(tx, states=TO_DO)
        doubts = inbox.uncertain(tx)
        planted = lab.stories(tx)
        troubles = list_troubles(
            [replace(row, worker="") for row in devices] if lab.is_demonstration() else devices,
            steadiness(tx),
            lately(tx),
            nights,
            now,
        )
        falls = fallen_since(tx, nights[0].began) if nights else []
        numbers = _numbers(tx, nights) if nights else []
        present = attendance(tx, devices=[row.key for row in devices if _waiting(row)])
    waits = absence(present, now)
    regressions = sort_by_gravity(rows, nights)
    began = nights[0].began if nights else now
    fresh = [row for row in regressions if row.opened_at > began]
    return page(
        request,
        "home.html",
        nights=nights,
        numbers=numbers,
        rested=age(now - nights[0].until) if nights and nights[0].until < now else "",
        regressions=(fresh or regressions)[:MOST_SHOWN],
        fresh=len(fresh),
        opened=len(rows),
        doubts=doubts,
        planted=planted,
        troubles=troubles,
        devices=len(devices),
        falls=group_falls(falls),
        waiting=sum(map(_waiting, devices)),
        in_flight=sum(row.in_flight for row in devices),
        waits=waits,
        summary=_summarise(
            [
                *(_describe_worse(regressions, nights) if nights else ()),
                f"{count_of(len(falls), 'ratio')} to peers fell" if falls else "",
                f"{count_of(len(troubles), 'device')} to look at" if troubles else "",
                _describe_stuck(sum(map(_waiting, devices)) if waits else 0),
            ]
        ),
        most=MOST_SHOWN,
    )


def sort_by_gravity(
    rows: Sequence[RegressionRow], nights: tuple[Night, Night] | None
) -> list[RegressionRow]:
    """Those of the last night first; of both, the wrong ones, then failed, slower and faster."""
    began = nights[0].began if nights else 0.0

    return sorted(rows, key=lambda row: (row.opened_at <= began, *rank_by_gravity(row)))


def list_troubles(
    devices: Sequence[DeviceRow],
    steady: Mapping[str, Steadiness],
    did: Mapping[str, Lately],
    nights: tuple[Night, Night] | None,
    now: float,
) -> list[Trouble]:
    """The devices that are missing, paused, failing or not as fast as they were."""
    troubles = []
    for row in devices:
        reasons = [
            _describe_absence(row, now),
            _describe_silence(row, nights),
            health(steady.get(row.key), did.get(row.key, Lately())),
        ]
        if told := [reason for reason in reasons if reason not in _WELL]:
            link = f"/fleet?q={quote(row.key)}"
            troubles.append(
                Trouble(name=row.name, host=row.host, link=link, reason="; ".join(told))
            )
    return troubles


def group_falls(falls: Iterable[Standing]) -> list[FallenCase]:
    """Falls by their case and peer: a peer that became faster did so on many devices."""
    by_case: dict[tuple[str, str], list[Standing]] = {}
    for fall in falls:
        by_case.setdefault((fall.pair.case_name, fall.pair.peer), []).append(fall)
    return [
        FallenCase(case_name=case_name, peer=peer, falls=of_case)
        for (case_name, peer), of_case in by_case.items()
    ]


def _describe_absence(row: DeviceRow, now: float) -> str:
    """Words that a device is paused, or that its worker is gone."""
    if row.paused:
        return describe_pause(row.paused_reason, row.paused_by, row.paused_at, now)
    if not row.worker or row.last_seen is None or state_of(row, now) == "online":
        return ""
    return f"offline: its worker was seen {age(now - row.last_seen)} ago"


def _describe_silence(row: DeviceRow, nights: tuple[Night, Night] | None) -> str:
    """Words that a device gave results the night before and none in the last one."""
    if not nights or nights[0].count_of_device(row.key):
        return ""
    before = nights[1].count_of_device(row.key)
    return f"no result, {before} the night before" if before else ""


def _numbers(tx: Transaction, nights: tuple[Night, Night]) -> list[NightRow]:
    def row(name: str, link: str, *states: JobState) -> NightRow:
        last, before = (night.count(*states) for night in nights)
        word = str(states[0]) if states and last else ""
        return NightRow(name=name, last=last, before=before, link=link, word=word)

    opened = [inbox.count_opened(tx, night.began, night.until) for night in nights]
    reporting = [len(night.ended) for night in nights]
    return [
        row("results", "/results"),
        row("wrong", "/results?state=wrong", JobState.WRONG),
        row("failed", "/results?state=failed", JobState.FAILED),
        row("skipped", "/results?state=skipped", JobState.SKIPPED),
        NightRow(name="devices", last=reporting[0], before=reporting[1], link="/fleet"),
        NightRow(name="new regressions", last=opened[0], before=opened[1], link="/regressions"),
    ]


def _waiting(row: DeviceRow) -> int:
    return row.queued + row.in_flight


def _describe_worse(
    regressions: Sequence[RegressionRow], nights: tuple[Night, Night]
) -> Iterator[str]:
    """Words for what is wrong, then for what fails, then for what became slower last night.

    A regression that is wrong or fails counts until it is fixed, a slower one in its first night.
    """
    regressions = [row for row in regressions if row.state in UNSETTLED]
    began = nights[0].began
    for state in (JobState.WRONG, JobState.FAILED):
        opened_at = [row.opened_at for row in regressions if row.direction == state]
        if opened_at:
            fresh = sum(moment > began for moment in opened_at)
            words = f" ({fresh} new)" if fresh else ""
            yield f"{count_of(len(opened_at), 'regression')} {state}{words}"
        last, before = (night.count(state) for night in nights)
        if last > before:
            yield f"{count_of(last, 'result')} {state} ({before} the night before)"
    slower = [row for row in regressions if row.direction == "slower" and row.opened_at > began]
    if slower:
        yield f"{count_of(len(slower), 'new regression')} slower"


def _describe_stuck(jobs: int) -> str:
    return f"{count_of(jobs, 'job')} not ended, which nobody works on" if jobs else ""


def _summarise(parts: Iterable[str]) -> str:
    """What somebody has to look at, in a few words, the gravest first; "" if nothing."""
    return ", ".join(filter(None, parts))
