"""The Celery side of a worker: one consumer of one device's queue.

Celery is a doorbell with a payload here. The truth is in SQL, claims drop what comes twice, the
dispatcher sends again what is lost; so no result backend, no retries, no remote control. The only
module that imports Celery; transport.py changes kombu's.
"""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

from celery import Celery, bootsteps, signals
from celery.platforms import SecurityWarning
from celery.worker import state
from kombu.entity import Exchange, Queue

from vkbench.messages.redis_client import SOCKET_OPTIONS, tls_options, without_tls_options
from vkbench.messages.wire import CHUNK_TASK, queue_of, unacknowledged_of
from vkbench.process import log
from vkbench.settings import Settings
from vkbench_worker.service import transport

VISIBILITY_SECONDS = 3600  # a late net only: what a dead worker held comes back by its lease
WEDGED_SECONDS = 15
WEDGED_STATUS = 75  # EX_TEMPFAIL: the parent process starts another worker

_log = logging.getLogger(__name__)


def build(settings: Settings, device: str, run_chunk: Callable[[object], None]) -> Celery:
    """The application that calls `run_chunk` with what each message of the device's queue holds."""
    transport.use()
    app = Celery(
        "vkbench", broker=without_tls_options(settings.redis), backend=None, set_as_current=False
    )
    name = queue_of(device)
    app.conf.update(
        broker_use_ssl=tls_options(settings.redis) or None,
        # The anonymous exchange needs no binding in Redis, which a FLUSHALL would take away.
        task_queues=[Queue(name, Exchange(""), routing_key=name)],  # type: ignore[no-untyped-call]
        task_ignore_result=True,
        task_acks_late=True,
        task_reject_on_worker_lost=False,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_soft_shutdown_timeout=0,
        worker_enable_remote_control=False,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options=transport_options(device),
    )
    app.task(name=CHUNK_TASK)(run_chunk)
    app.steps["consumer"].add(Wedge)
    return app


def transport_options(device: str) -> dict[str, object]:
    """Options of kombu's Redis transport; what is unacknowledged is kept by device."""
    messages, index, mutex = unacknowledged_of(device)
    return {
        "visibility_timeout": VISIBILITY_SECONDS,
        "unacked_key": messages,
        "unacked_index_key": index,
        "unacked_mutex_key": mutex,
        **SOCKET_OPTIONS,
    }


def consume(app: Celery, name: str, stopping: Callable[[], None]) -> int:
    """Work until SIGTERM, which calls `stopping` and awaits the chunk; returns the exit status."""

    def shutting_down(**_: object) -> None:
        stopping()

    signals.worker_shutting_down.connect(shutting_down)
    logging.getLogger("celery").setLevel(max(logging.WARNING, logging.getLogger().level))
    warnings.simplefilter("ignore", SecurityWarning)  # about pickle as root; only JSON is accepted
    worker = app.Worker(
        hostname=name,
        pool="threads",
        concurrency=1,
        loglevel=logging.getLevelName(logging.getLogger().level),
        quiet=True,
        without_gossip=True,
        without_mingle=True,
        without_heartbeat=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


class Wedge(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """Ends a worker that took a message, does nothing and can take no other: an ack got lost."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    def __init__(self, consumer: object, **options: object) -> None:
        super().__init__(consumer, **options)
        self._since: float | None = None
        self._timer: Any = None

    def start(self, consumer: object) -> None:
        """Look every few seconds from now on."""
        self._since = None
        timer = consumer.timer  # type: ignore[attr-defined]
        self._timer = timer.call_repeatedly(3, self._look, (consumer,))

    def stop(self, consumer: object) -> None:
        """Stop the timer that looks."""
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _look(self, consumer: object) -> None:
        if not _credit_used(consumer) or state.reserved_requests or state.active_requests:
            self._since = None
            return
        self._since = self._since or time.monotonic()
        if time.monotonic() - self._since > WEDGED_SECONDS:
            log.warn(_log, "worker_wedged", status=WEDGED_STATUS)
            os._exit(WEDGED_STATUS)


def _credit_used(consumer: object) -> bool:
    try:
        qos = consumer.task_consumer.channel.qos  # type: ignore[attr-defined]
        return len(qos._delivered) > len(qos._dirty)
    except AttributeError:  # between connections
        return False
