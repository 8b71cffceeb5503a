"""The page of what builds of a program did on one GPU, from their exports, the oldest first.

A file of pairs holds a line for each two releases, as `vkbench try --json` prints it.
"""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean
from textwrap import wrap
from typing import Any

from timings import Machine, machine_of, micro, read_exports, table, times

WORDS = {"skipped": "–", "failed": "crashes"}
REMARKS = "In attention b4980 is off by an NMSE of 1.6e-5 to 2.7e-5, and the limit is 1e-5."
PAIRS = "-pairs.jsonl.xz"  # how the name of a file of pairs ends
LEAST_CHANGE = 1.05  # of a time, that the story names


@dataclass(frozen=True, kw_only=True)
class BuildResult:
    """What a build did of a case."""

    state: str
    seconds: float | None = None  # hot; None without a right result
    reason: str = ""

    @property
    def text(self) -> str:
        """A cell of the table."""
        return micro(self.seconds) if self.seconds else WORDS.get(self.state, self.state)


@dataclass(frozen=True, kw_only=True)
class PairedRatio:
    """What pairs of two builds tell of a case: the newer build's time by the older one's."""

    verdict: str
    ratio: float
    low: float | None  # None: too few pairs for an interval
    high: float | None

    @property
    def text(self) -> str:
        """What stands behind a change of a single run, in times slower or faster."""
        is_slower = self.ratio >= 1
        bounds = sorted(
            (bound if is_slower else 1 / bound) for bound in (self.low, self.high) if bound
        )
        size = times(self.ratio if is_slower else 1 / self.ratio)
        between = f", {times(bounds[0])} to {times(bounds[1])}" if len(bounds) == 2 else ""
        word = "slower" if is_slower else "faster"
        if self.verdict in {"slower", "faster"}:
            return f"confirmed by pairs: {size} times {word}{between}"
        if self.verdict == "same":
            return f"not confirmed: pairs say the same ({size} times {word}{between})"
        return f"undecided by pairs: {size} times {word}{between}"


Results = Mapping[str, Mapping[str, BuildResult]]  # by build's name, then by case
Pairs = Mapping[tuple[str, str], Mapping[str, PairedRatio]]  # by old and new build, then by case


def read_builds(paths: Sequence[Path]) -> tuple[Results, Machine]:
    """What each build did, in the order of the exports, and where."""
    results: dict[str, dict[str, BuildResult]] = {}
    machine = None
    for records in read_exports(paths):
        machine = machine_of(records)
        name = next(record["build"]["name"] for record in records if "build" in record)
        results[name] = {
            record["job"]["case"]: _result(record["job"]) for record in records if "job" in record
        }
    assert machine, "no export was named"
    return results, machine


def _result(job: Mapping[str, Any]) -> BuildResult:
    hot = [timing["seconds"] for timing in job.get("timings") or () if timing["metric"] == "hot"]
    return BuildResult(
        state=job["state"], seconds=hot[0] if hot else None, reason=str(job.get("reason", ""))
    )


def read_pairs(path: Path) -> Pairs:
    """What pairs told of each two builds."""
    ratios: dict[tuple[str, str], dict[str, PairedRatio]] = {}
    for line in lzma.decompress(path.read_bytes()).splitlines():
        answer = json.loads(line)
        of_case = ratios.setdefault((answer["summary"]["old"], answer["summary"]["new"]), {})
        for row in answer["rows"]:
            if row["ratio"] is not None:
                of_case[row["case"]] = PairedRatio(
                    verdict=row["verdict"],
                    ratio=row["ratio"],
                    low=row["ratio_low"],
                    high=row["ratio_high"],
                )
    return ratios


def changes(results: Results, pairs: Pairs) -> Iterator[str]:
    """What each build did otherwise than the one before: ended otherwise, slower, faster."""
    names = list(results)
    for before, after in pairwise(names):
        slower, faster, ends = [], [], []
        for case, new in results[after].items():
            old = results[before][case]
            if old.state != new.state:
                why = f": {_shorten(new.reason)}" if new.state == "wrong" else ""
                ends.append(f"`{case}` {old.state} → {new.state}{why}")
            elif old.seconds and new.seconds:
                ratio = new.seconds / old.seconds
                paired = pairs.get((before, after), {}).get(case)
                said = f"`{case}` ({paired.text})" if paired else f"`{case}`"
                if ratio >= LEAST_CHANGE:
                    slower.append((ratio, said))
                elif 1 / ratio >= LEAST_CHANGE:
                    faster.append((1 / ratio, said))
        yield f"\n### {before} → {after}\n"
        for word, moved in (("slower", slower), ("faster", faster)):
            for ratio, said in sorted(moved, reverse=True):
                yield f"- {times(ratio)} times {word}: {said}"
        yield from (f"- {end}" for end in ends)
        if not (slower or faster or ends):
            yield "- Nothing by 5 % or more."


def _shorten(reason: str) -> str:
    return reason.partition(";")[0]


def page(results: Results, machine: Machine, pairs: Pairs) -> Iterator[str]:
    """The whole page; without pairs it says that its changes are suspicions."""
    names = list(results)
    yield f"# Builds of ggml-vulkan: {machine}\n"
    yield from wrap(
        f"Which release of ggml-vulkan from {names[0]} to {names[-1]} made what faster, slower or "
        f"wrong on this GPU? The table has the cases of suite ggml by {len(names)} releases: "
        "microseconds of one launch, hot, by the host's clock. A release without a time for a case "
        "was skipped, failed or was wrong there, by our float64 references. [Test builds of "
        "llama.cpp](../howto/builds.md) has the commands that do this, and says what a time "
        "includes.",
        92,
    )
    yield ""
    cases = list(next(iter(results.values())))
    rows = [(case, *(results[name][case].text for name in names)) for case in cases]
    yield from table(["case", *names], rows)
    always = [case for case in cases if all(results[name][case].seconds for name in names)]
    first, last = results[names[0]], results[names[-1]]
    ratios = [(first[case].seconds or 0) / (last[case].seconds or 1) for case in always]
    mean = f"{geometric_mean(ratios):.2f} times as fast as {names[0]} in geometric mean"
    yield f"\nOf the {len(always)} cases that all do right, {names[-1]} is {mean}."
    yield "– is what a build does not have.\n"
    yield from (*wrap(REMARKS, 92), "")
    yield "## What each brought\n"
    yield "Of 5 % or more. Each build was run once, so that each change is a suspicion at first."
    if pairs:
        yield "Where a line says *confirmed*, pairs of both builds, timed in turns by `vkbench"
        yield "try`, show the same; *undecided* are fewer pairs than the 8 that can decide."
    else:
        yield "`vkbench try` and `regressions confirm` time both builds in turns."
    yield from changes(results, pairs)


def main(arguments: Iterable[str]) -> None:
    paths = [Path(name) for name in arguments]
    pairs = [path for path in paths if path.name.endswith(PAIRS)]
    results, machine = read_builds([path for path in paths if path not in pairs])
    print("\n".join(page(results, machine, read_pairs(pairs[0]) if pairs else {})))


if __name__ == "__main__":
    main(sys.argv[1:])
