"""`vkbench worker` and `vkbench scheduler`: the services, which run until they are told to stop."""

from __future__ import annotations

from vkbench import log
from vkbench.settings import settings
from vkbench_cli.options import Devices, Store


def worker(*, device: Devices = []) -> int:  # noqa: B006
    """Serve one device of this host until stopped.

    With several --device, or none, which is all of this host, each gets a process of its own. Takes
    jobs from Redis (VKBENCH_REDIS) and needs no database.
    """
    from vkbench_worker.service import serve

    log.set_up()
    return serve(device, settings())


def scheduler(*, store: Store) -> int | None:
    """Send jobs to workers and store their results until stopped.

    Needs Redis (VKBENCH_REDIS) and the database. A second one waits for the first to end.
    """
    from vkbench_scheduler.service import serve

    log.set_up()
    return serve(store.settings())
