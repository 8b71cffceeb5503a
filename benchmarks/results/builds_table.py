"""The page of what builds of a program did on one GPU, from their exports, the oldest first."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean
from textwrap import wrap
from typing import Any

from timings import Machine, machine_of, micro, read_exports, table, times

WORDS = {"skipped": "–", "failed": "crashes"}
REMARKS = (
    "rope was off by an NMSE of 1.6e-4, and the limit was 1e-4: it turns by angles of up to 2^20, "
    "and sines of such angles are rough on this GPU. No model goes so far, and the limit is 1e-3 "
    "since. In attention b4980 is off by 1.6e-5 to 2.7e-5, and the limit is 1e-5."
)
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


Results = Mapping[str, Mapping[str, BuildResult]]  # by build's name, then by case


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


def changes(results: Results) -> Iterator[str]:
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
                if ratio >= LEAST_CHANGE:
                    slower.append((ratio, case))
                elif 1 / ratio >= LEAST_CHANGE:
                    faster.append((1 / ratio, case))
        yield f"\n### {before} → {after}\n"
        for word, moved in (("slower", slower), ("faster", faster)):
            for ratio, case in sorted(moved, reverse=True):
                yield f"- {times(ratio)} times {word}: `{case}`"
        yield from (f"- {end}" for end in ends)
        if not (slower or faster or ends):
            yield "- Nothing by 5 % or more."


def _shorten(reason: str) -> str:
    return reason.partition(";")[0]


def page(results: Results, machine: Machine) -> Iterator[str]:
    """The whole page."""
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
    yield "Of 5 % or more. These are single runs of each build, not pairs: what they say of one"
    yield "release against the one before is a suspicion, until `vkbench try` or `regressions"
    yield "confirm` measures both in turns."
    yield from changes(results)


def main(arguments: Sequence[str]) -> None:
    print("\n".join(page(*read_builds([Path(name) for name in arguments]))))


if __name__ == "__main__":
    main(sys.argv[1:])
