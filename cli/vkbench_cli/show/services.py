"""The services of a fleet: which of them run, and which are missing while work waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from vkbench.errors import ServiceUnreachable, VkbenchError
from vkbench.messages.stamps import describe_skew
from vkbench.messages.urls import hide_password
from vkbench.messages.wire import Unfit
from vkbench.settings import Settings
from vkbench.words.units import count_of, span
from vkbench_cli.patience import ping_redis
from vkbench_db.ask.devices.queues import Queue
from vkbench_db.database import parse_url
from vkbench_db.upkeep.attendance import LATELY_SECONDS
from vkbench_tables.absence import describe_pause

RUNNING, MISSING, UNUSED, REFUSED = "running", "missing", "not used", "refused"


@dataclass(frozen=True, kw_only=True)
class Service:
    """One service, and what is known of it."""

    service: str
    state: str  # running | missing | not used | refused
    detail: str


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """What the database says of services and queues, or why it says nothing."""

    settings: Settings
    now: float
    queues: Sequence[Queue] = ()
    scheduler_seen: float | None = None
    refused: int = 0  # results that could not be stored
    unfit: Unfit = field(default_factory=lambda: Unfit(devices={}))  # what a scheduler says
    trouble: str = ""  # of the database
    is_unmade: bool = False  # nothing was ever stored here

    @property
    def waiting(self) -> Sequence[Queue]:
        """Queues of devices that are to do their jobs."""
        return [queue for queue in self.queues if queue.waiting and not queue.paused]

    @property
    def has_scheduler(self) -> bool:
        """Whether a scheduler has run lately."""
        seen = self.scheduler_seen
        return seen is not None and self.now - seen <= LATELY_SECONDS

    @property
    def is_used(self) -> bool:
        """Whether work waits for services, or a scheduler has said that it runs."""
        return bool(self.waiting) or self.scheduler_seen is not None

    @cached_property
    def services(self) -> Sequence[Service]:
        """Each service with its state, once."""
        if self.trouble:
            return [self._database(), self._redis()]
        services = [self._database(), self._redis(), self._scheduler(), self._workers()]
        services += [self._refused_messages()] if self.refused else []
        return [*services, self._strange_messages()] if self.unfit.strange else services

    @property
    def is_well(self) -> bool:
        """Whether nothing that is needed is missing."""
        return all(service.state != MISSING for service in self.services)

    @property
    def verdict(self) -> str:
        """One line: what is missing, or how much is to be done."""
        missing = [service.service for service in self.services if service.state == MISSING]
        if missing:
            return f"missing: {', '.join(missing)}"
        jobs = sum(queue.waiting for queue in self.queues)
        paused = sum(queue.waiting for queue in self.queues if queue.paused)
        to_do = f"{count_of(jobs, 'job')} to do" if jobs else "nothing waits"
        return f"{to_do} ({paused} on paused devices)" if paused else to_do

    def _database(self) -> Service:
        if self.trouble:
            return Service(service="database", state=MISSING, detail=self.trouble)
        url = parse_url(self.settings.database_url())
        is_file = url.get_backend_name() == "sqlite"
        where = str(url.database) if is_file else hide_password(self.settings.database_url())
        if self.is_unmade:
            detail = f"{where}: the first run makes it"
            return Service(service="database", state=UNUSED, detail=detail)
        return Service(service="database", state=RUNNING, detail=where)

    def _redis(self) -> Service:
        try:
            detail, state = _redis_answers(self.settings), RUNNING
        except VkbenchError as error:
            detail, state = str(error), MISSING if self.is_used else UNUSED
        return Service(service="Redis", state=state, detail=detail)

    def _scheduler(self) -> Service:
        if self.scheduler_seen is None:
            state = MISSING if self.waiting else UNUSED
            detail = "none is running: `vkbench scheduler` starts one"
            if self.waiting:
                detail += "; `vkbench run --resume` does its own jobs without"
        else:
            state = RUNNING if self.has_scheduler else MISSING
            detail = f"seen {span(max(0.0, self.now - self.scheduler_seen))} ago"
        return Service(service="scheduler", state=state, detail=detail)

    def _refused_messages(self) -> Service:
        advice = "`vkbench query 'SELECT received_at, job_id, reason FROM refused'` says why"
        detail = f"{count_of(self.refused, 'message')} could not be stored: {advice}"
        return Service(service="results", state=REFUSED, detail=detail)

    def _strange_messages(self) -> Service:
        keys = "; ".join(f"{key}: {what}" for key, what in self.unfit.strange.items())
        detail = f"Redis held what no worker and no scheduler writes: {keys}"
        return Service(service="messages", state=REFUSED, detail=detail)

    def _workers(self) -> Service:
        served = [queue for queue in self.queues if queue.is_served(self.now)]
        unserved = [queue for queue in self.waiting if queue not in served]
        detail = f"for {len(served)} of {count_of(len(self.queues), 'device')}"
        known = {queue.key for queue in self.queues}
        strange = [f"{key}: {why}" for key, why in self.unfit.devices.items() if key not in known]
        if strange:
            detail += f"; new devices are not used: {'; '.join(strange)}"
        for host, seconds in self.unfit.clocks.items():
            detail += f"; the clock of {host} is {describe_skew(seconds)}"
        if unserved and self.has_scheduler:  # only a scheduler records that workers are there
            hosts = ", ".join(dict.fromkeys(queue.host for queue in unserved))
            detail = f"{detail}: start `vkbench worker` on {hosts}"
            return Service(service="workers", state=MISSING, detail=detail)
        return Service(service="workers", state=RUNNING if served else UNUSED, detail=detail)


def why(queue: Queue, fleet: Fleet) -> str:
    """Why a device's jobs wait; "" if they are being done, or if there are none."""
    if not queue.waiting:
        return ""
    if queue.paused:
        pause = describe_pause(queue.paused_reason, queue.paused_by, queue.paused_at, fleet.now)
        return f"{pause}: `vkbench resume {queue.key}`"
    if not fleet.has_scheduler:
        return "no scheduler sends them"
    if queue.key in fleet.unfit.devices:
        return fleet.unfit.devices[queue.key]
    if awaited := fleet.unfit.lacking.get(queue.key):
        return "; ".join(awaited.values())
    if not queue.is_served(fleet.now):
        if queue.last_seen is None:
            return "no worker serves it"
        return f"no worker was seen for {span(fleet.now - queue.last_seen)}"
    return ""


def read_unfit(settings: Settings) -> Unfit:
    """What keeps the scheduler from its work; nothing if Redis cannot be asked."""
    try:
        from vkbench_scheduler.queue.presence import read_unfit as ask

        return ask(settings)
    except (ImportError, VkbenchError):  # the services say what is missing
        return Unfit(devices={})


def _redis_answers(settings: Settings) -> str:
    """Where Redis answers; VkbenchError if it does not."""
    try:
        ahead = ping_redis(settings)
    except ImportError as error:
        raise ServiceUnreachable("the Python package redis is not installed") from error
    where = hide_password(settings.redis)
    return f"{where}; the clock of this host is {describe_skew(ahead)}" if ahead else where
