"""Where the seconds of jobs went, from exported JSONL: milliseconds a job of each phase.

    vkbench run --suite quick --export jobs.jsonl
    python benchmarks/job_phases.py jobs.jsonl

Checks and timings have a table each. What no phase covers is the `rest`; a canary comes before the
job, beside its seconds.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from timings import table

from vkbench_worker.phases import PREFIX

CANARY = "canary"
Spent = Mapping[str, float]  # seconds by phase


def attempts(paths: Iterable[Path]) -> Iterator[tuple[str, Spent]]:
    """The mode of each attempt that ran, and where its seconds went."""
    for path in paths:
        for line in path.read_text().splitlines():
            job = json.loads(line).get("job")
            for attempt in job["attempts"] if job else ():
                yield job["mode"], _spent(attempt)


def _spent(attempt: Mapping[str, object]) -> Spent:
    telemetry, seconds = attempt["telemetry"], attempt["seconds"]
    assert isinstance(telemetry, dict)
    assert isinstance(seconds, float)
    spent = {
        name.removeprefix(PREFIX): value
        for name, value in telemetry.items()
        if name.startswith(PREFIX)
    }
    known = sum(value for name, value in spent.items() if name != CANARY)
    return {**spent, "rest": seconds - known, "all": seconds}


def rows(jobs: Sequence[Spent]) -> Iterator[Sequence[str]]:
    """Phases, the longest first, and what they took a job."""
    sums: dict[str, float] = defaultdict(float)
    for spent in jobs:
        for name, seconds in spent.items():
            sums[name] += seconds
    for name, seconds in sorted(sums.items(), key=lambda item: -item[1]):
        yield name, f"{seconds / len(jobs) * 1e3:.2f}", f"{seconds / sums['all']:.1%}"


def main() -> None:
    by_mode: dict[str, list[Spent]] = defaultdict(list)
    for mode, spent in attempts(map(Path, sys.argv[1:])):
        by_mode[mode].append(spent)
    for mode, jobs in by_mode.items():
        print(f"\n{len(jobs)} jobs, {mode}\n")
        print("\n".join(table(("phase", "ms a job", "of all"), rows(jobs))))


if __name__ == "__main__":
    main()
