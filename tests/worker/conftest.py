"""What tests of the worker share."""

from __future__ import annotations

import time

import pytest

from planted_clock import Clock
from vkbench_worker.containment.support import Support, support


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock in place of time.perf_counter."""
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock


@pytest.fixture(scope="session")
def kernel() -> Support:
    """This machine's kernel, which can contain a process."""
    found = support()
    if not found.is_enough:
        pytest.skip(f"this kernel does not contain a process: {found.lacks[0]}")
    return found
