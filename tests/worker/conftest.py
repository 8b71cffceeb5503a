"""What tests of the worker share."""

from __future__ import annotations

import time

import pytest

from planted_clock import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock in place of time.perf_counter."""
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    return clock
