"""`vkbench worker` and `vkbench scheduler`: the services, which run until they are told to stop."""

from __future__ import annotations

import time
from collections.abc import Callable

from vkbench import log
from vkbench.errors import ServiceUnreachable, UsageError
from vkbench.settings import Settings, settings
from vkbench_cli.options import Devices, Store

PATIENCE_SECONDS = 10.0  # for what a service needs at its start; it waits out all that fails later


def worker(*, device: Devices = []) -> int:  # noqa: B006
    """Serve one device of this host until stopped.

    With several --device, or none, which is all of this host, each gets a process of its own. Takes
    jobs from Redis (VKBENCH_REDIS) and needs no database. SIGTERM or Ctrl-C ends it after the
    current job. Gives up if Redis does not answer within 10 seconds of the start.
    """
    from vkbench_worker.service import serve

    log.set_up()
    patiently(lambda: _ping(settings()))
    return serve(device, settings())


def scheduler(*, store: Store) -> int:
    """Send jobs to workers and store their results until stopped.

    Needs Redis (VKBENCH_REDIS) and the database, and gives up if one of them does not answer within
    10 seconds of the start.
    """
    from vkbench_cli.store import opened
    from vkbench_scheduler.service import serve

    log.set_up()
    ours = store.settings()
    patiently(lambda: _ping(ours))
    patiently(lambda: opened(ours).close())
    return serve(ours)


def patiently(look: Callable[[], None], seconds: float = PATIENCE_SECONDS) -> None:
    """Look until the service answers; its ServiceUnreachable when it has not in time."""
    end = time.monotonic() + seconds
    while True:
        try:
            return look()
        except ServiceUnreachable:
            if time.monotonic() >= end:
                raise
        time.sleep(0.5)


def _ping(ours: Settings) -> None:
    from vkbench_scheduler.connection import connect, reached

    try:
        redis = connect(ours.redis)
    except ValueError as error:
        raise UsageError(f"malformed Redis URL '{ours.redis}': {error}") from error
    with redis, reached():
        redis.ping()
