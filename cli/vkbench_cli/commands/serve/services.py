"""`vkbench worker` and `vkbench scheduler`: the services, which run until they are stopped."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from vkbench.messages.keys import keys_for
from vkbench.process import log
from vkbench.settings import settings
from vkbench_cli.options.records import Devices, Store
from vkbench_cli.patience import PATIENCE_SECONDS, Wait, patiently, ping_redis
from vkbench_cli.store import open_database


def worker(*, device: Devices = [], wait: Wait = PATIENCE_SECONDS) -> int:  # noqa: B006
    """Run the jobs of this host's devices until stopped.

    Without --device it serves every device of this host, each by a process of its own. It takes
    jobs from Redis (VKBENCH_REDIS) and needs no database; VKBENCH_KEYS signs what it says. SIGTERM
    or Ctrl-C stops it: jobs that it has not begun go back to the queue at once, and the running one
    has VKBENCH_STOP_SECONDS to end before it goes back too, as it does at a second SIGTERM. None of
    them loses a try.
    """
    from vkbench_local.machine import chosen_devices
    from vkbench_worker.service.main import serve

    log.set_up(style=settings().log_format)
    keys_for(settings())  # or say that it needs some, before anything else
    patiently(lambda: ping_redis(settings()), wait)
    keys = [facts.key for facts in chosen_devices(device, settings())] if device else []
    return serve(keys, settings())


def scheduler(
    *,
    store: Store,
    wait: Wait = PATIENCE_SECONDS,
    metrics: Annotated[
        str,
        Option(
            metavar="[HOST:]PORT",
            help="Answer Prometheus there, at 127.0.0.1 if no host is given: /metrics.",
        ),
    ] = "",
    builds: Annotated[
        str,
        Option(
            metavar="[HOST:]PORT",
            help="Give workers the builds of this host's VKBENCH_STORE there, by signed requests.",
        ),
    ] = "",
) -> int:
    """Send jobs to workers and store their results until stopped.

    Needs Redis (VKBENCH_REDIS) and the database; VKBENCH_KEYS signs what it says.
    """
    from vkbench_scheduler.metrics.fleet import parse
    from vkbench_scheduler.service import serve

    for place in filter(None, (metrics, builds)):
        parse(place)  # before anything is waited for
    log.set_up(style=settings().log_format)
    store_settings = store.settings()
    keys_for(store_settings)
    patiently(lambda: ping_redis(store_settings), wait)
    patiently(lambda: open_database(store_settings).close(), wait)
    return serve(store_settings, metrics, builds)
