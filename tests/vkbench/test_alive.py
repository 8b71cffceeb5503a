"""Signs of life have ages, and go when a service stops."""

from __future__ import annotations

import os
import time
from pathlib import Path

from vkbench.process import alive


def test_parts_that_were_expected_are_silent_until_they_go_on(tmp_path: Path) -> None:
    assert alive.ages(tmp_path, "scheduler") == {}
    alive.expect(tmp_path, "scheduler", ["watch", "collect"])
    file = tmp_path / "alive" / "scheduler" / "watch"
    os.utime(file, (time.time() - 500,) * 2)
    ages = alive.ages(tmp_path, "scheduler")
    assert ages["watch"] > 490 > ages["collect"]
    alive.expect(tmp_path, "scheduler", ["watch"])
    assert alive.ages(tmp_path, "scheduler").keys() == {"watch"}
    alive.leave(tmp_path, "scheduler", ["watch"])
    assert alive.ages(tmp_path, "scheduler") == {}


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "alive").write_text("in the way")
    alive.beat(tmp_path, "worker", "a")
