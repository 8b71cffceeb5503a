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
                path=next((each[5:] for each in settings if each.startswith("ours=")), ""),
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
    found = {}
    for job in _jobs(records):
        asked = str(job.get("variant", AUTO))
        if (job["mode"], job["state"]) == ("performance", "passed") and asked != AUTO:
            hot = [each["seconds"] for each in job["timings"] if each["metric"] == "hot"]
            found |= {(str(job["case"]), asked): seconds for seconds in hot}
    return found


def _jobs(records: Records) -> Iterator[Mapping[str, Any]]:
    return (record["job"] for record in records if "job" in record)


def rounding_paths(found: Comparison, peer: str) -> list[str]:
    """Our paths that round x as the peer does, where `auto` took one that does not."""
    if is_model(found.case):
        return []
    posed = problem(found.case)
    arithmetic = ROUNDING.get(peer, {}).get(posed.types.get("weights", ""))
    if not arithmetic or posed.shape.get("n", 0) <= MOST_VECTORS:
        return []
    paths = posed.kernel.variants_for(posed.types)
    rounding = [path.name for path in paths if path.arithmetic == arithmetic]
    return [] if found.path in rounding else rounding


def keeps_x(found: Comparison, paths: Sequence[str], named: Named, peer: str) -> str:
    """That a path keeps x in f32 where the peer rounds it."""
    path = next((path for path in paths if (found.case, path) in named), paths[0])
    seconds = named.get((found.case, path))
    time = f"{micro(seconds)} us here" if seconds else ELSEWHERE.get(found.case, "not timed here")
    rounded = ROUNDED_TO[ROUNDING[peer][problem(found.case).types["weights"]]]
    return (
        f"{found.case}: the two sides do not do the same. {peer} rounds x to {rounded}; ours, by "
        f"the path {found.path} that `auto` takes, multiplies x in f32. `--variant {path}`, "
        f"which rounds x too, is taken by its name alone: {time}."
    )


def page(found: Sequence[Comparison], named: Named, about: str, peer: str) -> Iterator[str]:
    """The whole page."""
    yield f"# Beside {peer}: {about}\n"
    yield "Microseconds of one call, medians. Each job timed theirs, ours, ours and theirs on the"
    yield "same inputs and GPU, and both results were judged by the same float64 reference.\n"
    for includes in (OURS_INCLUDES, BY_NAME[peer].includes):
        yield from (*wrap(includes, 92), "")
    builds = [each.build for each in found]
    yield from (*wrap(said_of_builds(builds), 92), "")
    unlike = {
        each.case: keeps_x(each, paths, named, peer)
        for each in found
        if (paths := rounding_paths(each, peer))
    }
    for said in unlike.values():
        yield from (*wrap(said, 92, break_long_words=False, break_on_hyphens=False), "")
    head = ["case", "ours", "theirs", "theirs/ours", "our path"]
    rows = sorted((cells(each), [each.build]) for each in found)
    yield from table_of_builds(head, rows, max(builds))
    ratios = {
        each.case: each.ratio
        for each in found
        if not (each.is_too_noisy or each.case in unlike or is_model(each.case))
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
        (each, path, named[each.case, path]) for each in found for path in _paths(each, named)
    ]
    if rounded:
        yield from by_name_section(rounded, unlike)


def _paths(found: Comparison, named: Named) -> list[str]:
    return [path for case, path in named if case == found.case]


def by_name_section(
    rounded: Sequence[tuple[Comparison, str, float]], unlike: Iterable[str]
) -> Iterator[str]:
    """The same by paths that are taken by name alone, beside the same times of the peer."""
    yield "\n## By name\n"
    yield "Paths that round x, which `auto` does not take. Ours is of a run right after, theirs"
    yield "from the table above.\n"
    told = [(each, path, s) for each, path, s in rounded if not each.is_too_noisy]
    rows = [
        (f"{each.case} {path}", micro(s), micro(each.theirs.value), times(each.theirs.value / s))
        for each, path, s in told
    ]
    yield from table(["case, path", "ours", "theirs", "theirs/ours"], sorted(rows))
    ratios = [each.theirs.value / s for each, _, s in told if each.case not in unlike]
    if len(ratios) > 1:
        mean, least, most = geometric_mean(ratios), min(ratios), max(ratios)
        yield f"\nGeometric mean of {len(ratios)}: {mean:.2f} ({least:.2f} to {most:.2f})."


def cells(found: Comparison) -> tuple[str, ...]:
    """A row of the table."""
    both = (micro(found.ours.value), micro(found.theirs.value))
    ratio = "too noisy" if found.is_too_noisy else times(found.ratio)
    return (found.case, *both, ratio, found.path)


def main(arguments: Sequence[str]) -> None:
    peer, *files = arguments
    exports = list(read_exports(map(Path, files)))
    records = [record for export in exports for record in export]
    about = str(machine_of(exports[-1]))
    found = {each.case: each for export in exports for each in comparisons(export, peer)}
    latest = max(each.build.day for each in found.values())
    kernels = {each.build.bundle for each in found.values()}
    if len(kernels) == 1:  # one build that was timed on two days
        one = Build(latest, kernels.pop())
        found = {case: replace(each, build=one) for case, each in found.items()}
    print("\n".join(page([*found.values()], by_name(records), about, peer)))


if __name__ == "__main__":
    main(sys.argv[1:])
