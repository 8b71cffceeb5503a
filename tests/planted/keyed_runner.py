"""The planted runner, opened by a device's key as the executor does it."""

from __future__ import annotations

from dataclasses import replace

import planted_runner
from vkbench.device import DeviceFacts
from vkbench.settings import Settings

_facts = planted_runner.facts


def facts(selector: str, ours: Settings | None = None) -> DeviceFacts:
    """Planted device 0 under the key that was asked for."""
    return replace(_facts("0", ours), key=selector)


if __name__ == "__main__":
    planted_runner.facts = facts
    planted_runner.main()
