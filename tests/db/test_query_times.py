"""The benchmark of queries runs, on a small database of each engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "queries.py"


def test_every_question_is_asked_and_timed(empty_url: str) -> None:
    words = ["--results", "2000", "--series", "400", "--url", empty_url]
    command = [sys.executable, str(BENCHMARK), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    first, head, *rows = done.stdout.splitlines()
    assert "2,000 results in 400 series" in first
    assert head.split() == ["limit", "median", "worst", "CPU", "here", "cold", "ms"]
    assert len(rows) == 9
    for row in rows:
        median, worst, _, cold = map(float, row.split()[-4:])
        assert 0 < median <= worst
        assert cold > 0
    limited = [row.split()[-5] for row in rows if row.split()[-5] in ("20", "100")]
    assert limited == ["20", "20", "100", "100"]
