"""A disk that takes no more, for a test: files of this process may have a hundred bytes."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator

import pytest

MOST_BYTES = 100


@pytest.fixture
def full_disk() -> Iterator[None]:
    """Whatever writes more than a hundred bytes to a file fails with "File too large"."""
    kind = resource.RLIMIT_FSIZE
    before, handler = resource.getrlimit(kind), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(kind, (MOST_BYTES, before[1]))
    yield
    resource.setrlimit(kind, before)
    signal.signal(signal.SIGXFSZ, handler)
