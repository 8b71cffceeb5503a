"""What tests of the worker share."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from planted_clock import Clock
from vkbench.settings import Settings, settings
from vkbench_worker.containment.support import Support, support
from vkbench_worker.owner.supervisor import Supervisor

PLANTED = Path(__file__).parents[1] / "planted"


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


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings whose runner is the planted one."""
    monkeypatch.setenv("PYTHONPATH", str(PLANTED), prepend=os.pathsep)
    return replace(settings(), runner="planted_runner", host="here")


@pytest.fixture
def supervisor(planted: Settings) -> Iterator[Supervisor]:
    """A supervisor of planted device 0."""
    with Supervisor("0", planted) as made:
        yield made
