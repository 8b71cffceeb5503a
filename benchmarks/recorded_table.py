"""The comparisons that `make plans` cites, from the same files as the pages.

    cd docs/results
    python ../../benchmarks/recorded_table.py peers-h200.csv h200-transformer-perf.jsonl.xz \
        > ../../plans/recorded.csv

A product counts by the faster kind of vectors, quantising them included. Variants that were asked
for by name are left out, because the command measures what `auto` takes.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from timings import AUTO, Build, Results, read, shortest

from vkbench.case import Case, parse

COLUMNS = ("case", "peer", "theirs_us", "ours_us", "device", "build", "unlike")


def with_blocks(case: Case) -> Case:
    """The same product with q8_1 vectors."""
    return replace(case, types={**case.types, "x": "q8_1"})


def ours(results: Results, name: str) -> tuple[float, Build] | None:
    """Seconds of the faster way to do a case, from plain inputs to the result, and its build."""
    ways = [results.get(way) for way in (name, with_blocks(parse(name)).name)]
    seconds = shortest(ways)
    build = next((way.build for way in ways if way and way.whole == seconds), None)
    return (seconds, build) if seconds is not None and build else None


def main(arguments: Sequence[str]) -> None:
    results, device = read(map(Path, arguments[1:]))
    lines = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    lines.writeheader()
    with Path(arguments[0]).open() as file:
        for row in csv.DictReader(file):
            fastest = ours(results, row["case"])
            if fastest and row["ours"] == AUTO:
                seconds, build = fastest
                times = {"theirs_us": row["us"], "ours_us": f"{seconds * 1e6:.1f}"}
                both = {key: row[key] for key in ("case", "peer", "unlike")}
                lines.writerow({**both, **times, "device": device, "build": build})


if __name__ == "__main__":
    main(sys.argv[1:])
