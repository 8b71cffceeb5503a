"""How much memory Redis needs while many short jobs go through the queue.

    python benchmarks/redis_memory.py --jobs 100000 --devices 4

Starts Redis, PostgreSQL, a scheduler and workers of its own. The devices compute nothing, so jobs
pass as fast as the queue lets them. No GPU is needed.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# This folder first would make queue.py the standard library's queue.
sys.path[0] = str(HERE.parent / "tests" / "planted")

import argparse  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from typing import cast  # noqa: E402

from cluster import Lab  # noqa: E402
from own_servers import own_lab  # noqa: E402

STEP_SECONDS = 0.5


def main() -> None:
    """Run the jobs and print the most memory that Redis held."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000)
    parser.add_argument("--devices", type=int, default=4)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, own_lab(Path(folder)) as lab:
        lab.start_scheduler()
        names = [f"device{number}" for number in range(options.devices)]
        lab.start_fleet(*names)
        began = time.monotonic()
        runs = [lab.submit(["sleep/f32/n0"] * (options.jobs // len(names)), name) for name in names]
        most, ended = watch(lab, runs)
        lab.check(*runs)
        seconds = time.monotonic() - began
        print(f"{ended} jobs in {seconds:.0f} s: Redis held at most {most / 2**20:.1f} MB")


def watch(lab: Lab, runs: list[int]) -> tuple[int, int]:
    """Wait for runs; returns the most memory that Redis held, and how many jobs ended."""
    most = 0
    while True:
        memory = cast(dict[str, int], lab.redis.client.info("memory"))
        most = max(most, memory["used_memory"])
        ended = sum(lab.ended(run) for run in runs)
        if ended == sum(sum(lab.counts(run).values()) for run in runs):
            return most, ended
        time.sleep(STEP_SECONDS)


if __name__ == "__main__":
    main()
