"""A page of what `vkbench run --peer torch` found, from its exported JSONL.

cd docs/results
python ../../benchmarks/peers_table.py torch torch-h200.jsonl > h200-torch.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from textwrap import wrap

from timings import micro, table, times

from vkbench.peers import BY_NAME, OURS_INCLUDES

Row = tuple[str, float, float]  # case, our seconds, theirs


def rows(records: Sequence[Mapping[str, object]], peer: str) -> Iterator[Row]:
    """The comparisons that were right on both sides."""
    for record in records:
        job = record.get("job")
        if isinstance(job, dict) and (job["mode"], job.get("variant")) == ("peer", peer):
            seconds = {timing["metric"]: timing["seconds"] for timing in job.get("timings") or ()}
            if job["state"] == "passed" and seconds:
                yield str(job["case"]), seconds["ours"], seconds["hot"]


def page(found: Sequence[Row], about: str, peer: str) -> Iterator[str]:
    """The whole page."""
    yield f"# Beside {peer}: {about}\n"
    yield "Microseconds of one call, medians. Each job timed theirs, ours, ours and theirs on the"
    yield "same inputs and GPU, and both results were judged by the same float64 reference.\n"
    for includes in (OURS_INCLUDES, BY_NAME[peer].includes):
        yield from (*wrap(includes, 92), "")
    ratios = [theirs / ours for _, ours, theirs in found]
    cells = [(case, micro(a), micro(b), times(b / a)) for case, a, b in sorted(found)]
    yield from table(["case", "ours", "theirs", "theirs/ours"], cells)
    yield f"\nGeometric mean of {len(ratios)}: {geometric_mean(ratios):.2f}."


def main(arguments: Sequence[str]) -> None:
    peer, file = arguments
    records = [json.loads(line) for line in Path(file).read_text().splitlines()]
    device = next(record["device"] for record in records if "device" in record)
    facts = next(record["environment"]["facts"] for record in records if "environment" in record)
    about = f"{device['name']}, driver {facts['driver']} {facts['driver_version']}"
    print("\n".join(page([*rows(records, peer)], about, peer)))


if __name__ == "__main__":
    main(sys.argv[1:])
