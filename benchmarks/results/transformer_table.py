"""The page of what suite transformer-perf found, from exports."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from timings import (
    Machine,
    Results,
    Row,
    micro,
    posed,
    read,
    said_of_builds,
    table_of_builds,
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


def page(results: Results, machine: Machine) -> Iterator[str]:
    """The whole page."""
    copied = posed(COPY).bytes_moved / results[COPY].hot
    cases = len({timing.case for timing in results.values()})
    yield f"# Suite transformer-perf: {machine}, {cases} cases\n"
    about = (
        "How fast are the other operations of models on this GPU: copies, norms, attention, "
        "convolutions? Times are medians of one launch in microseconds, by the GPU's timestamps, "
        "with the barriers behind its dispatches. Every output was judged right. GB/s counts each "
        "input as read once and each output as written once; `of copy` is its share of what a "
        f"copy of 64 MiB of f32 reaches hot, {copied / 1e12:.2f} TB/s. The GPU's caches hold 50 "
        "MB: hot times of smaller cases are those of the caches. Other programs on the same "
        "kernels: [torch](h100-torch.md), [ggml](h100-ggml.md)."
    )
    yield from (*wrap(about, 92, break_on_hyphens=False), "")
    builds = [timing.build for timing in results.values()]
    newest = max(builds)
    yield from (*wrap(said_of_builds(builds), 92), "")
    yield "A path behind a case was asked for by name. Groups too large for caches are read twice:"
    yield "group_norm cannot pass 0.67 of a copy."
    head = ["case", "path", "hot", "cold", "GB/s", "of copy", "TFLOP/s"]
    for group in dict.fromkeys(posed(timing.case).kernel.group for timing in results.values()):
        yield f"\n## {group}\n"
        yield from table_of_builds(head, case_rows(results, group, copied), newest)


def main(arguments: Sequence[str]) -> None:
    timings, machine = read(map(Path, arguments))
    listed = {case.name for kernel in KERNELS for case in kernel.timed}
    results = {name: timing for name, timing in timings.items() if timing.case in listed}
    print("\n".join(page(results, machine)))


if __name__ == "__main__":
    main(sys.argv[1:])
