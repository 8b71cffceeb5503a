"""A connection to Redis dies without a word: its ends notice in time, and work goes on."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from cluster import Lab
from half_open import HalfOpenProxy
from vkbench.job import JobState
from vkbench.messages.redis_client import SOCKET_OPTIONS
from vkbench.messages.wire import LEASE_SECONDS

# A worker waits a second at most for each message. Kombu promises to notice after that and two
# checks; then a lease that a worker could not renew ends, and its device is taken again.
NOTICED_SECONDS = 1 + 2 * SOCKET_OPTIONS["health_check_interval"]
MOST_SECONDS = 3 * (NOTICED_SECONDS + LEASE_SECONDS)

Told = Callable[[str, object], None]


@pytest.fixture
def proxy(lab: Lab) -> Iterator[HalfOpenProxy]:
    with closing(HalfOpenProxy(lab.redis.port)) as made:
        yield made


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("each_client")
def test_work_goes_on_soon(lab: Lab, proxy: HalfOpenProxy, record_property: Told) -> None:
    through = {"VKBENCH_REDIS": f"redis://127.0.0.1:{proxy.port}/0"}
    lab.start("-m", "planted_scheduler", "", log="scheduler", **through)
    lab.start("-m", "vkbench_worker.service.main", "a", log="worker-a", **through)
    lab.await_device("a")
    lab.await_end(lab.submit(["sleep/f32/n10"]))
    proxy.forget()
    began = time.monotonic()
    run = lab.submit(["sleep/f32/n10"] * 5)
    lab.await_end(run, seconds=MOST_SECONDS)
    seconds = time.monotonic() - began
    print(f"work went on after {seconds:.1f} s")
    record_property("seconds", seconds)
    lab.check(run)
    assert lab.counts(run) == {JobState.PASSED: 5}
