"""Pauses devices that seem broken, by rules that no single fluke and no wrong kernel meets.

The rules, which docs/howto/operations.md explains to operators:

- Three different cases of at least two kernels ended badly, one after the other, and nothing ran to
  its end between them. A time-out counts only if the device has done that case before; what failed
  with the same kernel and bundle on another device within a day does not count.
- Three canaries in a row are off, and the one before them was not.
- A device on trial fails once, or its canary is off.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sqlalchemy import Connection

from vkbench.calibration import canary_of
from vkbench.device import DeviceFacts
from vkbench.job import Mode, Outcome, PlannedJob
from vkbench.process import log
from vkbench.run import Purpose, RunKind, RunWords
from vkbench_db.ask.devices import health as device_health
from vkbench_db.ask.devices.health import Mishap, ServedDevice
from vkbench_db.database import Database
from vkbench_db.upkeep.pauses import end_trial
from vkbench_db.work.devices import SCHEDULER
from vkbench_db.work.store import Pause, add_jobs, create_run, pause

IN_A_ROW = 3
KERNELS = 2
LATELY_SECONDS = 3600.0  # older failures tell nothing of today's device
ELSEWHERE_SECONDS = 86_400.0
SETTLE_SECONDS = 10.0  # until a result's canary is placed

_log = logging.getLogger(__name__)


def step(database: Database, now: float) -> None:
    """Pause the devices that seem broken; end the trials of those that are well."""
    with database.reading() as tx:
        recent = device_health.mishaps(tx, now - ELSEWHERE_SECONDS)
        devices = device_health.served_devices(tx)
        struck = {one.device_id for one in recent}
        doubtful = [one for one in devices if one.id in struck or one.canary_off]
        ailing = {one.key: reason for one in doubtful if (reason := ailment(tx, one, recent, now))}
        well = [one.key for one in devices if one.on_trial and _has_proved(tx, one, now)]
    if not (ailing or well):
        return
    with database.transaction() as tx:
        for key, reason in ailing.items():
            pause(tx, key, Pause(reason=reason, by=SCHEDULER, at=now))
        for key in well:
            if key not in ailing:
                end_trial(tx, key)
    for key, reason in ailing.items():
        log.warn(_log, "device_paused", device=key, reason=reason)


def ailment(tx: Connection, device: ServedDevice, recent: Sequence[Mishap], now: float) -> str:
    """What seems broken about a device; "" if nothing does."""
    return _failures(tx, device, recent, now) or _canary(tx, device)


def _failures(tx: Connection, device: ServedDevice, recent: Sequence[Mishap], now: float) -> str:
    after = max(device.resumed_at or 0.0, now - LATELY_SECONDS)
    mine = [one for one in recent if one.device_id == device.id and one.at > after]
    if not mine:
        return ""
    done = device_health.last_done(tx, device.id) or 0.0
    elsewhere = {(one.kernel, one.bundle) for one in recent if one.device_id != device.id}
    against = [
        one
        for one in mine
        if one.at > done
        and (one.kernel, one.bundle) not in elsewhere
        and (one.outcome != Outcome.TIMED_OUT or device_health.has_done(tx, device.id, one.case_id))
    ]
    return _describe_mishaps(against, device.on_trial)


def _describe_mishaps(against: Sequence[Mishap], on_trial: bool) -> str:
    if on_trial and against:
        return f"on trial, and a job ended {against[-1].outcome}"
    cases = {one.case_id for one in against}
    kernels = sorted({one.kernel for one in against})
    if len(cases) < IN_A_ROW or len(kernels) < KERNELS:
        return ""
    ends = ", ".join(sorted({one.outcome for one in against}))
    return f"{len(cases)} cases in a row ended {ends}, of {', '.join(kernels)}"


def _canary(tx: Connection, device: ServedDevice) -> str:
    if not device.canary_off:
        return ""
    canaries = device_health.last_canaries(tx, device.id, IN_A_ROW + 1)
    since = device.resumed_at or 0.0
    if device.on_trial:
        is_off = bool(canaries) and canaries[0][0] > since and canaries[0][1]
        return "on trial, and its canary is still off" if is_off else ""
    fresh = [is_off for at, is_off in canaries[:IN_A_ROW] if at > since]
    was_steady = len(canaries) > IN_A_ROW and not canaries[IN_A_ROW][1]
    if was_steady and len(fresh) == IN_A_ROW and all(fresh):
        return f"{IN_A_ROW} canaries in a row are off"
    return ""


def _has_proved(tx: Connection, device: ServedDevice, now: float) -> bool:
    done = device_health.last_done(tx, device.id)
    return done is not None and (device.resumed_at or 0.0) < done < now - SETTLE_SECONDS


PRIORITY = 1_000_000  # before whatever waits


def submit_trial(tx: Connection, facts: DeviceFacts, now: float) -> int:
    """Store a run of the device's canary, which joins no series; return the run's number."""
    job = PlannedJob(device=facts.key, case=canary_of(facts.type), mode=Mode.PERFORMANCE)
    run = create_run(
        tx,
        mode=Mode.PERFORMANCE,
        selection={},
        now=now,
        priority=PRIORITY,
        track="",
        words=RunWords(label="trial", purpose=Purpose(kind=RunKind.TRIAL)),
    )
    add_jobs(tx, run.id, [job])
    return run.id
