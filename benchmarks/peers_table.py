"""A page of what `vkbench run --peer torch` found, from its exported JSONL.

cd docs/results
python ../../benchmarks/peers_table.py torch torch-h200.jsonl > h200-torch.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean
from textwrap import wrap
from typing import Any

from timings import AUTO, Build, build_of, day_of, micro, said_of_builds, table, times

from vkbench.peers import BY_NAME, OURS_INCLUDES
from vkbench_shaders.catalogue import problem

Records = Sequence[Mapping[str, Any]]
ROUNDS_X = "bf16_inputs"  # the arithmetic of paths that round x to bf16, as weights are
ELSEWHERE = {  # what such a path takes, where an export has not timed it
    "mul_mat/bf16/m4096_n512_k14336": "208.6 us on [an H200](h200-quant-perf.md)"
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A case that both sides did right."""

    case: str
    path: str  # which of our variants auto took
    ours: float  # seconds
    theirs: float
    build: Build


def comparisons(records: Records, peer: str) -> Iterator[Comparison]:
    """The comparisons that were right on both sides."""
    day = day_of(records)
    for job in _jobs(records):
        seconds = {timing["metric"]: timing["seconds"] for timing in job.get("timings") or ()}
        is_compared = (job["mode"], job.get("variant")) == ("peer", peer)
        if is_compared and job["state"] == "passed" and seconds:
            settings = job["attempts"][-1].get("settings", "").split(",")
            yield Comparison(
                case=str(job["case"]),
                path=next((each[5:] for each in settings if each.startswith("ours=")), ""),
                ours=seconds["ours"],
                theirs=seconds["hot"],
                build=build_of(job, day),
            )


def by_name(records: Records) -> dict[tuple[str, str], float]:
    """Hot seconds of what was timed by a variant's name, by case and variant."""
    found = {}
    for job in _jobs(records):
        asked = str(job.get("variant", AUTO))
        if (job["mode"], job["state"]) == ("performance", "passed") and asked != AUTO:
            hot = [each["seconds"] for each in job["timings"] if each["metric"] == "hot"]
            found |= {(str(job["case"]), asked): seconds for seconds in hot}
    return found


def _jobs(records: Records) -> Iterator[Mapping[str, Any]]:
    return (record["job"] for record in records if "job" in record)


def keeps_x(found: Comparison, named: Mapping[tuple[str, str], float], peer: str) -> str:
    """That a path keeps x in f32 beside weights of bf16, where the peer rounds x to bf16."""
    posed = problem(found.case)
    paths = posed.kernel.variants_for(posed.types)
    rounding = [path.name for path in paths if path.arithmetic == ROUNDS_X]
    if posed.types.get("weights") != "bf16" or not rounding or found.path in rounding:
        return ""
    seconds = named.get((found.case, rounding[0]))
    time = f"{micro(seconds)} us here" if seconds else ELSEWHERE.get(found.case, "not timed here")
    return (
        f"{found.case}: the two sides do not do the same. {peer} rounds x to bf16; ours, by the "
        f"path {found.path} that `auto` takes, multiplies x in f32. `--variant {rounding[0]}`, "
        f"which rounds x too, is taken by its name alone: {time}."
    )


def page(
    found: Sequence[Comparison],
    named: Mapping[tuple[str, str], float],
    about: str,
    peer: str,
) -> Iterator[str]:
    """The whole page."""
    yield f"# Beside {peer}: {about}\n"
    yield "Microseconds of one call, medians. Each job timed theirs, ours, ours and theirs on the"
    yield "same inputs and GPU, and both results were judged by the same float64 reference.\n"
    for includes in (OURS_INCLUDES, BY_NAME[peer].includes):
        yield from (*wrap(includes, 92), "")
    yield from (*wrap(said_of_builds(each.build for each in found), 92), "")
    unlike = {each.case: said for each in found if (said := keeps_x(each, named, peer))}
    for said in unlike.values():
        yield from (*wrap(said, 92, break_long_words=False, break_on_hyphens=False), "")
    head = ["case", "ours", "theirs", "theirs/ours", "our path"]
    yield from table(head, sorted(map(cells, found)))
    ratios = [each.theirs / each.ours for each in found if each.case not in unlike]
    left_out = f", without {', '.join(unlike)}" if unlike else ""
    yield f"\nGeometric mean of {len(ratios)}{left_out}: {geometric_mean(ratios):.2f}."


def cells(found: Comparison) -> tuple[str, ...]:
    """A row of the table."""
    both = (found.ours, found.theirs)
    return (found.case, *map(micro, both), times(found.theirs / found.ours), found.path)


def main(arguments: Sequence[str]) -> None:
    peer, file = arguments
    records = [json.loads(line) for line in Path(file).read_text().splitlines()]
    device = next(record["device"] for record in records if "device" in record)
    facts = next(record["environment"]["facts"] for record in records if "environment" in record)
    about = f"{device['name']}, driver {facts['driver']} {facts['driver_version']}"
    found = [*comparisons(records, peer)]
    print("\n".join(page(found, by_name(records), about, peer)))


if __name__ == "__main__":
    main(sys.argv[1:])
