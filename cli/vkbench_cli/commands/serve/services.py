"""`vkbench worker` and `vkbench scheduler`: the services, which run until they are stopped."""

from __future__ import annotations

from vkbench import log
from vkbench.errors import UsageError
from vkbench.settings import Settings, settings
from vkbench_cli.options import Devices, Store
from vkbench_cli.patience import PATIENCE_SECONDS, Wait, patiently
from vkbench_cli.store import opened


def worker(*, device: Devices = [], wait: Wait = PATIENCE_SECONDS) -> int:  # noqa: B006
    """Run the jobs of this host's devices until stopped.

    Without --device it serves every device of this host, each by a process of its own. It takes
    jobs from Redis (VKBENCH_REDIS) and needs no database. SIGTERM or Ctrl-C stops it after the
    current job.
    """
    from vkbench_local.machine import chosen_devices
    from vkbench_worker.service.main import serve

    log.set_up()
    patiently(lambda: _ping(settings()), wait)
    keys = [facts.key for facts in chosen_devices(device, settings())] if device else []
    return serve(keys, settings())


def scheduler(*, store: Store, wait: Wait = PATIENCE_SECONDS) -> int:
    """Send jobs to workers and store their results until stopped.

    Needs Redis (VKBENCH_REDIS) and the database.
    """
    from vkbench_scheduler.service import serve

    log.set_up()
    ours = store.settings()
    patiently(lambda: _ping(ours), wait)
    patiently(lambda: opened(ours).close(), wait)
    return serve(ours)


def _ping(ours: Settings) -> None:
    from vkbench.redis_client import connect
    from vkbench_scheduler.queue.connection import reached

    try:
        redis = connect(ours.redis)
    except ValueError as error:
        raise UsageError(f"malformed Redis URL '{ours.redis}': {error}") from error
    with redis, reached():
        redis.ping()
