"""The page of what `vkbench run --peer` found, by the name of the peer and exports."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import geometric_mean
from textwrap import wrap
from typing import Any, Final

from timings import (
    AUTO,
    Build,
    build_of,
    day_of,
    machine_of,
    micro,
    read_exports,
    said_of_builds,
    table,
    table_of_builds,
    times,
)

from vkbench.case import is_model
from vkbench.peers import BY_NAME, OURS_INCLUDES
from vkbench_detection.statistics.ratios import Estimate
from vkbench_shaders.catalogue import problem

Records = Sequence[Mapping[str, Any]]
Named = Mapping[tuple[str, str], float]  # hot seconds by case, and by the variant asked for
MOST_VECTORS: Final = 8  # of a product that peers do not make on matrix units
# Products of matrices in which a peer rounds x: by the weights' format, as paths of ours that are
# taken by name alone do, by their arithmetic.
ROUNDING: Final[Mapping[str, Mapping[str, str]]] = {
    "torch": {"bf16": "bf16_inputs"},
    "ggml": {"bf16": "bf16_inputs", "f32": "f16_inputs"},
}
ROUNDED_TO: Final = {"bf16_inputs": "bf16", "f16_inputs": "f16"}
ELSEWHERE: Final = {  # what such a path takes, where an export has not timed it
    "mul_mat/bf16/m4096_n512_k14336": "212.6 us on [an H100](h100-quant-perf.md)"
}


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A case that both sides did right."""

    case: str
    path: str  # which of our variants auto took
    ours: Estimate  # seconds
    theirs: Estimate
    build: Build

    @property
    def is_too_noisy(self) -> bool:
        """Whether a side is known too badly for a ratio."""
        return self.ours.is_too_noisy or self.theirs.is_too_noisy

    @property
    def ratio(self) -> float:
        """How many times as fast as theirs ours is."""
        return self.theirs.value / self.ours.value


def comparisons(records: Records, peer: str) -> Iterator[Comparison]:
    """The comparisons that were right on both sides."""
    day = day_of(records)
    for job in _jobs(records):
        timings = {_side(timing): timing for timing in job.get("timings") or ()}
        is_compared = (job["mode"], job.get("variant")) == ("peer", peer)
        if is_compared and job["state"] == "passed" and timings:
            settings = job["attempts"][-1].get("settings", "").split(",")
            yield Comparison(
                case=str(job["case"]),
                path=next((setting[5:] for setting in settings if setting.startswith("ours=")), ""),
                ours=_estimate(timings["ours"]),
                theirs=_estimate(timings["theirs"]),
                build=build_of(job, day),
            )


def _side(timing: Mapping[str, Any]) -> str:
    """Whose it is; exports of older versions call ours `ours` and theirs `hot`."""
    return str(timing.get("side") or ("ours" if timing["metric"] == "ours" else "theirs"))


def _estimate(timing: Mapping[str, float]) -> Estimate:
    return Estimate(value=timing["seconds"], low=timing["low"], high=timing["high"])


def by_name(records: Records) -> dict[tuple[str, str], float]:
    """Hot seconds of what was timed by a variant's name."""
    hot_seconds = {}
    for job in _jobs(records):
        variant = str(job.get("variant", AUTO))
        if (job["mode"], job["state"]) == ("performance", "passed") and variant != AUTO:
            hot = [timing["seconds"] for timing in job["timings"] if timing["metric"] == "hot"]
            hot_seconds |= {(str(job["case"]), variant): seconds for seconds in hot}
    return hot_seconds


def _jobs(records: Records) -> Iterator[Mapping[str, Any]]:
    return (record["job"] for record in records if "job" in record)


def rounding_paths(comparison: Comparison, peer: str) -> list[str]:
    """Our paths that round x as the peer does, where `auto` took one that does not."""
    if is_model(comparison.case):
        return []
    posed = problem(comparison.case)
    arithmetic = ROUNDING.get(peer, {}).get(posed.types.get("weights", ""))
    if not arithmetic or posed.shape.get("n", 0) <= MOST_VECTORS:
        return []
    paths = posed.kernel.variants_for(posed.types)
    rounding = [path.name for path in paths if path.arithmetic == arithmetic]
    return [] if comparison.path in rounding else rounding


def keeps_x(comparison: Comparison, paths: Sequence[str], named: Named, peer: str) -> str:
    """That a path keeps x in f32 where the peer rounds it."""
    path = next((path for path in paths if (comparison.case, path) in named), paths[0])
    seconds = named.get((comparison.case, path))
    time = (
        f"{micro(seconds)} us here" if seconds else ELSEWHERE.get(comparison.case, "not timed here")
    )
    rounded = ROUNDED_TO[ROUNDING[peer][problem(comparison.case).types["weights"]]]
    return (
        f"{comparison.case}: the two sides do not do the same. {peer} rounds x to {rounded}; "
        f"ours, by the path {comparison.path} that `auto` takes, multiplies x in f32. "
        f"`--variant {path}`, which rounds x too, is taken by its name alone: {time}."
    )


def page(compared: Sequence[Comparison], named: Named, about: str, peer: str) -> Iterator[str]:
    """The whole page."""
    device = about.partition(",")[0]
    yield f"# Beside {peer}: {about}\n"
    question = (
        f"How fast are our kernels beside those of {peer} on one {device}? Times are medians of "
        "one call in microseconds; theirs/ours above 1 means that ours is faster. Each job timed "
        "theirs, ours, ours and theirs on the same inputs, and both results were judged by the "
        "same float64 reference."
    )
    yield from (*wrap(question, 92), "")
    for includes in (OURS_INCLUDES, BY_NAME[peer].includes):
        yield from (*wrap(includes, 92), "")
    builds = [comparison.build for comparison in compared]
    yield from (*wrap(said_of_builds(builds), 92), "")
    unlike = {
        comparison.case: keeps_x(comparison, paths, named, peer)
        for comparison in compared
        if (paths := rounding_paths(comparison, peer))
    }
    for sentence in unlike.values():
        yield from (*wrap(sentence, 92, break_long_words=False, break_on_hyphens=False), "")
    head = ["case", "ours", "theirs", "theirs/ours", "our path"]
    rows = sorted((cells(comparison), [comparison.build]) for comparison in compared)
    yield from table_of_builds(head, rows, max(builds))
    ratios = {
        comparison.case: comparison.ratio
        for comparison in compared
        if not (comparison.is_too_noisy or comparison.case in unlike or is_model(comparison.case))
    }
    left_out = f", without {', '.join(unlike)}" if unlike else ""
    yield f"\nGeometric mean of {len(ratios)}{left_out}: {geometric_mean(ratios.values()):.2f}."
    groups: dict[str, list[float]] = {}
    for case, ratio in ratios.items():
        groups.setdefault(case.partition("/")[0], []).append(ratio)
    means = [
        f"{group} {geometric_mean(of):.2f} ({min(of):.2f} to {max(of):.2f}, {len(of)} cases)"
        for group, of in groups.items()
        if len(of) > 1
    ]
    if means and len(groups) > 1:
        yield from ("", *wrap(f"By kernel: {'; '.join(means)}.", 92))
    rounded = [
        (comparison, path, named[comparison.case, path])
        for comparison in compared
        for path in _paths(comparison, named)
    ]
    if rounded:
        yield from by_name_section(rounded, unlike)


def _paths(comparison: Comparison, named: Named) -> list[str]:
    return [path for case, path in named if case == comparison.case]


def by_name_section(
    rounded: Sequence[tuple[Comparison, str, float]], unlike: Iterable[str]
) -> Iterator[str]:
    """The same by paths that are taken by name alone, beside the same times of the peer."""
    yield "\n## By name\n"
    yield "Paths that round x, which `auto` does not take. Ours is of a run right after, theirs"
    yield "from the table above.\n"
    known = [
        (comparison, path, s) for comparison, path, s in rounded if not comparison.is_too_noisy
    ]
    rows = [
        (
            f"{comparison.case} {path}",
            micro(s),
            micro(comparison.theirs.value),
            times(comparison.theirs.value / s),
        )
        for comparison, path, s in known
    ]
    yield from table(["case, path", "ours", "theirs", "theirs/ours"], sorted(rows))
    ratios = [
        comparison.theirs.value / s for comparison, _, s in known if comparison.case not in unlike
    ]
    if len(ratios) > 1:
        mean, least, most = geometric_mean(ratios), min(ratios), max(ratios)
        yield f"\nGeometric mean of {len(ratios)}: {mean:.2f} ({least:.2f} to {most:.2f})."


def cells(comparison: Comparison) -> tuple[str, ...]:
    """A row of the table."""
    both = (micro(comparison.ours.value), micro(comparison.theirs.value))
    ratio = "too noisy" if comparison.is_too_noisy else times(comparison.ratio)
    return (comparison.case, *both, ratio, comparison.path)


def main(arguments: Sequence[str]) -> None:
    peer, *files = arguments
    exports = list(read_exports(map(Path, files)))
    records = [record for export in exports for record in export]
    about = str(machine_of(exports[-1]))
    compared = {
        comparison.case: comparison
        for export in exports
        for comparison in comparisons(export, peer)
    }
    latest = max(comparison.build.day for comparison in compared.values())
    kernels = {comparison.build.bundle for comparison in compared.values()}
    if len(kernels) == 1:  # one build that was timed on two days
        one = Build(latest, kernels.pop())
        compared = {case: replace(comparison, build=one) for case, comparison in compared.items()}
    print("\n".join(page([*compared.values()], by_name(records), about, peer)))


if __name__ == "__main__":
    main(sys.argv[1:])
