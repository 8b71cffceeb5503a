"""The page of what suite transformer-perf found, from exports, beside other figures.

The first file has columns case, peer, us, which variant of ours stands beside it, and what is
unlike in the work of both sides.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap

from timings import (
    Machine,
    Results,
    Row,
    faster_by,
    micro,
    named,
    posed,
    read,
    said_of_builds,
    table_of_builds,
    times,
)

from vkbench_shaders.catalogue import KERNELS

COPY = "copy/f32/n16777216"  # the yardstick of bandwidth
_LEAST_WORK = 1e9  # operations from which on their rate is told


def case_rows(results: Results, group: str, copied: float) -> Iterator[Row]:
    """The cases of a group of kernels: times, and how much of copying's bandwidth that is."""
    for name, timing in sorted(results.items()):
        problem = posed(timing.case)
        if problem.kernel.group == group:
            rate, work = problem.bytes_moved / timing.hot, problem.flops / timing.hot / 1e12
            cells = (
                name,
                timing.variant,
                micro(timing.hot),
                micro(timing.cold),
                f"{rate / 1e9:.0f}",
                f"{rate / copied:.2f}",
                f"{work:.1f}" if problem.flops >= _LEAST_WORK else "",
            )
            yield cells, [timing.build]


def peer_rows(results: Results, peers: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    """What others took for the same work, what ours takes, and where the work is not the same."""
    for row in peers:
        own = results.get(named(row["case"], row["ours"]))
        if own:
            theirs = float(row["us"]) / 1e6
            ratio = times(faster_by(theirs, [own]))
            both = (micro(theirs), micro(own.whole))
            yield (own.name, row["peer"], *both, ratio, row["unlike"]), [own.build]


def page(results: Results, machine: Machine, peers: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The whole page."""
    copied = posed(COPY).bytes_moved / results[COPY].hot
    cases = len({timing.case for timing in results.values()})
    yield f"# Suite transformer-perf: {machine}, {cases} cases\n"
    yield "Microseconds of one launch, the barriers behind its dispatches included; GPU timestamps,"
    yield "medians. Every output was judged right. Bandwidth counts each input read once and each"
    yield "output written once; its share is of what copying 64 MiB of f32 reaches hot,"
    yield f"{copied / 1e12:.2f} TB/s. An H200's caches hold 60 MB: smaller cases stay in them.\n"
    builds = [timing.build for timing in results.values()]
    newest = max(builds)
    yield from (*wrap(said_of_builds(builds), 92), "")
    yield "A path behind a case was asked for by name. Groups too large for caches are read twice:"
    yield "group_norm cannot pass 0.67 of a copy.\n"
    yield "## Beside others\n"
    yield "torch 2.11 with CUDA 13 did f16 products and attention of 4096 positions on such a GPU:"
    yield "medians of 10 or 30 launches between two events. Its other figures are of another run on"
    yield "such a GPU with that driver: means of many launches by the host's clock. In turns, in"
    yield "one run: [torch](h200-torch.md), [ggml](h100-ggml.md).\n"
    yield "Includes, on both sides: all launches from plain inputs in device memory to the result"
    yield "there; no copies from or to the host. Both are hot: what fits the caches stays there."
    yield "`unlike` says what is not alike all the same.\n"
    head = ["case", "peer", "theirs", "ours, hot", "faster by", "unlike"]
    yield from table_of_builds(head, peer_rows(results, peers), newest)
    head = ["case", "path", "hot", "cold", "GB/s", "of copy", "TFLOP/s"]
    for group in dict.fromkeys(posed(timing.case).kernel.group for timing in results.values()):
        yield f"\n## {group}\n"
        yield from table_of_builds(head, case_rows(results, group, copied), newest)


def main(arguments: Sequence[str]) -> None:
    timings, machine = read(map(Path, arguments[1:]))
    with Path(arguments[0]).open() as file:
        peers = list(csv.DictReader(file))
    listed = {case.name for kernel in KERNELS for case in kernel.timed}
    listed |= {row["case"] for row in peers}
    results = {name: timing for name, timing in timings.items() if timing.case in listed}
    print("\n".join(page(results, machine, peers)))


if __name__ == "__main__":
    main(sys.argv[1:])
