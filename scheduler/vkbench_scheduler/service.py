"""`vkbench scheduler`: dispatcher with reconciler, collector, watch, alerts: four threads.

Outages of Redis and of the database are waited out. Several may run: who dispatches is settled in
each transaction by a lock, and collectors share one group.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from vkbench.errors import ServiceUnreachable
from vkbench.messages.keys import keys_for
from vkbench.messages.redis_client import connect
from vkbench.messages.urls import hide_password
from vkbench.process import alive, log
from vkbench.settings import Settings
from vkbench_db.database import Database
from vkbench_db.errors import DatabaseUnreachable, SchemaOutdated
from vkbench_scheduler import builds
from vkbench_scheduler.bundles import keep_packaged
from vkbench_scheduler.heartbeat import Heartbeat
from vkbench_scheduler.metrics import fleet
from vkbench_scheduler.metrics.fleet import FleetCollector
from vkbench_scheduler.queue.broker import Broker
from vkbench_scheduler.queue.collect import Collector
from vkbench_scheduler.queue.dispatch import Dispatcher
from vkbench_scheduler.queue.presence import Presence
from vkbench_scheduler.queue.reconcile import Reconciler
from vkbench_scheduler.queue.registry import Registry
from vkbench_scheduler.queue.stream import ResultStream
from vkbench_scheduler.queue.wishes import Wishes
from vkbench_scheduler.watch.timetable import Watch, steps, telling

SERVICE = "scheduler"  # in signs of life
TURN_SECONDS = 0.1  # between two fillings of the windows
LOOK_SECONDS = 1.0  # between two checks of workers and of lost jobs
WATCH_SECONDS = 0.25  # between two turns of the watch
LONGEST_PAUSE_SECONDS = 2.0  # between retries after errors

T = TypeVar("T")

_log = logging.getLogger(__name__)


def serve(settings: Settings, metrics: str = "", served_builds: str = "") -> int:
    """Dispatch and collect until SIGTERM or SIGINT; returns the exit status.

    Prometheus may ask at `metrics`, and hosts of the fleet for builds at `served_builds`: each is
    `[HOST:]PORT`.
    """
    keys_for(settings)  # or say what is missing
    if served_builds:
        builds.serve(served_builds, settings)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    database = _patiently(lambda: Database.open(settings.database_url(), watch=True), stop)
    if database is None:
        return 0
    with database:
        if metrics:
            redis = connect(settings.redis)
            collector = FleetCollector(database, redis, keys_for(settings), settings.data, SERVICE)
            fleet.serve(metrics, collector)
        log.event(
            _log,
            "scheduler_ready",
            database=hide_password(settings.database_url()),
            pid=os.getpid(),
        )
        outdated = _work(database, settings, stop)
    log.event(_log, "scheduler_stopped")
    return SchemaOutdated.exit_code if outdated else 0


def _patiently(ask: Callable[[], T], stop: threading.Event) -> T | None:
    """Try until the database answers; None if the service is stopped first."""
    while not stop.is_set():
        try:
            return ask()
        except DatabaseUnreachable as error:
            log.warn(_log, "database_awaited", error=error)
            stop.wait(LONGEST_PAUSE_SECONDS)
    return None


def _keep_packaged(database: Database, stop: threading.Event) -> None:
    try:
        _patiently(lambda: keep_packaged(database), stop)
    except SchemaOutdated:  # every loop finds out, and stops
        return
    except Exception:  # continue: only measuring this build again later is lost
        _log.exception("bundle_not_kept")


def _work(database: Database, settings: Settings, stop: threading.Event) -> bool:
    """Work until it is stopped; says whether the database was upgraded under it."""
    outdated = threading.Event()
    heartbeat = Heartbeat(database, settings)
    loops = (
        _dispatching(database, settings, stop, heartbeat),
        _collecting(database, settings),
        _watching(database, stop),
        _alerting(database, settings, stop),
    )
    threads = [
        threading.Thread(
            target=_loop, args=(turn, stop, outdated, settings), name=turn.__name__, daemon=True
        )
        for turn in loops
    ]
    parts = [thread.name for thread in threads]
    alive.expect(settings.data, SERVICE, parts)
    for thread in threads:
        thread.start()
    _keep_packaged(database, stop)
    for thread in threads:
        thread.join()
    heartbeat.end()
    alive.leave(settings.data, SERVICE, parts)
    return outdated.is_set()


def _dispatching(
    database: Database, settings: Settings, stop: threading.Event, heartbeat: Heartbeat
) -> Callable[[], None]:
    redis, keys = connect(settings.redis), keys_for(settings)
    broker, presence = Broker(settings.redis, redis, keys), Presence(redis, keys)
    dispatcher = Dispatcher(database, broker, settings)
    reconciler = Reconciler(database, broker, presence, redis, settings.lost_seconds, keys)
    registry = Registry(database, presence, Wishes(redis, keys))
    served: frozenset[str] = frozenset()
    look_at = 0.0

    def dispatch() -> None:
        nonlocal served, look_at
        heartbeat.turn()  # before Redis is asked: a scheduler that waits for Redis is running
        if time.monotonic() >= look_at:
            look_at = time.monotonic() + LOOK_SECONDS
            served = frozenset(registry.look())
            broker.protocols = presence.protocols
            reconciler.look(registry.leases)
        dispatcher.turn(lambda roomy: presence.taking(served.intersection(roomy)), presence.lacking)
        stop.wait(TURN_SECONDS)

    return dispatch


def _collecting(database: Database, settings: Settings) -> Callable[[], None]:
    consumer = f"{settings.host}:{os.getpid()}"
    collector = Collector(
        database, ResultStream(connect(settings.redis), consumer, keys_for(settings))
    )

    def collect() -> None:
        collector.turn()

    return collect


def _watching(database: Database, stop: threading.Event) -> Callable[[], None]:
    watching = Watch(database, steps())

    def watch() -> None:
        watching.turn()
        stop.wait(WATCH_SECONDS)

    return watch


def _alerting(database: Database, settings: Settings, stop: threading.Event) -> Callable[[], None]:
    telling_all = Watch(database, telling(settings))

    def alert() -> None:
        telling_all.turn()
        stop.wait(LOOK_SECONDS)

    return alert


def _loop(
    turn: Callable[[], None], stop: threading.Event, outdated: threading.Event, settings: Settings
) -> None:
    pause = TURN_SECONDS
    while not stop.is_set():
        try:
            turn()
            alive.beat(settings.data, SERVICE, turn.__name__)
            pause = TURN_SECONDS
        except SchemaOutdated as error:  # of another version: nothing may be written any more
            log.event(_log, "schema_outdated", logging.ERROR, turn=turn.__name__, error=error)
            outdated.set()
            stop.set()
        except ServiceUnreachable as error:
            log.warn(_log, "service_awaited", turn=turn.__name__, error=error)
            alive.beat(settings.data, SERVICE, turn.__name__)  # it waits, and is not stuck
            stop.wait(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        except Exception:  # keep running; the log has the traceback
            _log.exception("turn_failed")
            stop.wait(LONGEST_PAUSE_SECONDS)
