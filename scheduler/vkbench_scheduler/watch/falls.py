"""Tells the alert channels where kernels of ours fell behind a peer, until each has heard of it."""

from __future__ import annotations

import logging
from math import isfinite

from vkbench.process import log
from vkbench.settings import Settings
from vkbench.words import units
from vkbench.words.markdown import code, escape_text
from vkbench_db.database import Database
from vkbench_detection.peers.pairs import pairs_of_jobs
from vkbench_detection.peers.standings import Standing, judge, note_told, standings, untold_falls
from vkbench_detection.regress.announcements import STALE_SECONDS
from vkbench_detection.statistics.ratios import Ratio
from vkbench_scheduler.watch.alerts import channels_of, heard_by_all
from vkbench_scheduler.watch.messages import Message, write_message

PATIENCE_SECONDS = 86_400.0  # after which a channel that never heard is given up

_log = logging.getLogger(__name__)


def look(database: Database, now: float) -> None:
    """Judge new comparisons with peers."""
    if fallen := judge(database, now):
        log.event(_log, "ratios_fell", cases=len(fallen))


def step(database: Database, settings: Settings, now: float) -> None:
    """Alert on new falls; if one channel fails, all get the message again with the same id."""
    channels = channels_of(settings)
    if not channels:
        return
    with database.reading() as tx:
        jobs = untold_falls(
            tx, judged_since=now - PATIENCE_SECONDS, measured_since=now - STALE_SECONDS
        )
        waiting = standings(tx, pairs_of_jobs(tx, jobs)) if jobs else []
    for standing in waiting:
        if standing.ratio is None:  # stored as a fall when sides were not asked how noisy they are
            continue
        message = message_of(standing, standing.ratio)
        if heard_by_all(channels, message, now, job=standing.pair.job):
            with database.transaction() as tx:
                note_told(tx, standing.pair.job, now)


def message_of(standing: Standing, ratio: Ratio) -> Message:
    """The message about one fall."""
    pair = standing.pair
    identity = f"{pair.host} {pair.device} {pair.case_name} {pair.peer} {pair.finished_at}"
    names = ("peer", "settings", "host", "device", "device_name", "run", "job")
    summary = _summary(standing, ratio)
    data = {name: getattr(pair, name) for name in names} | {
        "case": pair.case_name,
        "ratio": ratio.ratio,
        "ratio_low": ratio.low,
        "ratio_high": ratio.high if isfinite(ratio.high) else None,
        "ratio_before": standing.before,
        "ours_seconds": pair.ours,
        "ours_seconds_before": standing.ours_before,
        "theirs_seconds": pair.theirs,
        "theirs_seconds_before": standing.theirs_before,
        "summary": summary,
    }
    title = f"{pair.case_name} fell behind {pair.peer} on {pair.device_name}"
    return write_message(
        identity, "peer.fell", pair.finished_at, title=title, text=summary, data=data
    )


def _summary(standing: Standing, ratio: Ratio) -> str:
    """A summary in Markdown: both sides before and now, and which of them moved."""
    pair = standing.pair
    moved = "our time rose" if standing.is_ours_slower else "our own time did not rise"
    sides = (pair.ours, standing.ours_before, pair.theirs, standing.theirs_before)
    unit, times = units.seconds_column(sides)
    return (
        f"{code(pair.case_name)} on {escape_text(pair.device_name)} of {escape_text(pair.host)}: "
        f"{ratio.ratio:.3g} times as fast as {escape_text(pair.peer)}, "
        f"{standing.before or 0:.3g} before. Ours takes {times[0]} {unit}, {times[1]} before; "
        f"{escape_text(pair.peer)} {times[2]} {unit}, {times[3]} before: {moved}. "
        f"`vkbench compare --peer {pair.peer}` shows all."
    )
