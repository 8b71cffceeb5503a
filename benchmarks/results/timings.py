"""Timings out of exported JSONL, and the one way in which pages compare them with other people's.

A product that takes q8_1 vectors leaves out the quantising that its user has to do first. Other
people's products take f32 vectors and quantise inside their time. So a comparison counts ours from
f32 vectors too: the product's time plus the time of quantising those vectors, both of one run, or
of runs one right after the other. Where these do not hold that time, there is no ratio.
"""

from __future__ import annotations

import json
import lzma
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vkbench.case import parse
from vkbench_shaders import catalogue
from vkbench_shaders.kernel import Problem

AUTO = "auto"
QUANTISING = "quantize/q8_1/b1_m{n}_k{k}"  # of the vectors of a product


@dataclass(frozen=True, order=True)
class Build:
    """The kernels that a timing is of, later ones being greater."""

    day: str  # on which they were run
    bundle: str  # first digits of its hash; "" in exports that do not say

    def __str__(self) -> str:
        return f"{self.bundle or 'unknown'} of {self.day}"


@dataclass(frozen=True, kw_only=True)
class Found:
    """One timed case."""

    case: str
    variant: str
    chosen: str = AUTO  # the variant that was asked for
    hot: float  # seconds
    cold: float
    build: Build
    quantising: float | None = None  # of its vectors, hot, in the same runs; None: not timed

    @property
    def name(self) -> str:
        """The case, and the variant if one was asked for by its name."""
        return named(self.case, self.chosen)

    @property
    def takes_blocks(self) -> bool:
        """Whether its vectors have to be quantised first."""
        return parse(self.case).types.get("x") == "q8_1"

    @property
    def whole(self) -> float | None:
        """Hot seconds from f32 vectors to the result; None where quantising was not timed."""
        if not self.takes_blocks:
            return self.hot
        return None if self.quantising is None else self.hot + self.quantising


@dataclass(frozen=True, kw_only=True)
class Machine:
    """Where an export was measured."""

    name: str
    driver: str
    cache_bytes: int  # of the largest cache

    def __str__(self) -> str:
        return f"{self.name}, driver {self.driver}"


Results = Mapping[str, Found]  # by name
Row = tuple[Sequence[str], Sequence[Build]]  # cells, and the builds of what they show


def named(case: str, variant: str) -> str:
    """What a timing is found by: of a case, by a variant that was asked for."""
    return case if variant == AUTO else f"{case} {variant}"


def shortest(ways: Iterable[Found | None]) -> float | None:
    """Seconds of the best of our ways, each from f32 vectors to the result.

    None where one that was timed is not known whole: it could be the best.
    """
    whole = [timing.whole for timing in ways if timing]
    known = [seconds for seconds in whole if seconds is not None]
    return min(known) if known and len(known) == len(whole) else None


def faster_by(theirs: float, ways: Iterable[Found | None]) -> float | None:
    """Their seconds over those of the best of our ways, where that is known."""
    best = shortest(ways)
    return theirs / best if best else None


def read_exports(paths: Iterable[Path]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The records of each export; a file may hold several, one behind the other."""
    for path in paths:
        text = path.read_bytes()
        records: list[Mapping[str, Any]] = []
        for line in (lzma.decompress(text) if path.suffix == ".xz" else text).splitlines():
            record = json.loads(line)
            if "header" in record and records:
                yield records
                records = []
            records.append(record)
        yield records


def read(paths: Iterable[Path]) -> tuple[Results, Machine]:
    """Timings by name, the last of each, and where they were measured."""
    timings: dict[str, Found] = {}
    machine = None
    for records in read_exports(paths):
        machine = machine_of(records)
        day = day_of(records)
        jobs = [record["job"] for record in records if "job" in record]
        together = {timing.name: timing for job in jobs for timing in _timed(job, day)}
        timings |= {name: _with_quantising(timing, together) for name, timing in together.items()}
    assert machine, "no export was named"
    return timings, machine


def machine_of(records: Iterable[Mapping[str, Any]]) -> Machine:
    """The device and driver of an export."""
    about = {key: value for record in records for key, value in record.items()}
    facts = about["environment"]["facts"]
    return Machine(
        name=about["device"]["name"],
        driver=f"{facts['driver']} {facts['driver_version']}",
        cache_bytes=about["device"]["llc_bytes"],
    )


def day_of(records: Iterable[Mapping[str, object]]) -> str:
    """The day of an export's run; "" where it does not say."""
    run = next((record["run"] for record in records if "run" in record), None)
    if not isinstance(run, dict):
        return ""
    return time.strftime("%Y-%m-%d", time.gmtime(run["created_at"]))


def build_of(job: Mapping[str, object], day: str) -> Build:
    """What a job's last attempt ran."""
    attempts = job["attempts"]
    assert isinstance(attempts, list)
    return Build(day, str(attempts[-1].get("bundle", ""))[:8])


def _timed(job: Mapping[str, object], day: str) -> Iterator[Found]:
    timings, attempts = job.get("timings"), job["attempts"]
    if job["state"] == "passed" and timings:
        assert isinstance(timings, list)
        assert isinstance(attempts, list)
        seconds = {timing["metric"]: timing["seconds"] for timing in timings}
        variant = attempts[-1]["variant"]
        yield Found(
            case=str(job["case"]),
            variant=variant,
            chosen=str(job.get("variant", AUTO)),
            hot=seconds["hot"],
            cold=seconds["cold"],
            build=build_of(job, day),
        )


def _with_quantising(product: Found, export: Mapping[str, Found]) -> Found:
    sizes = parse(product.case).shape
    if not product.takes_blocks or not {"n", "k"} <= sizes.keys():
        return product
    quantising = export.get(QUANTISING.format(n=sizes["n"], k=sizes["k"]))
    return replace(product, quantising=quantising.hot if quantising else None)


def posed(name: str) -> Problem:
    return catalogue.problem(name)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a Markdown table; all columns but the first to the right."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(['---'] + ['--:'] * (len(head) - 1))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def said_of_builds(builds: Iterable[Build]) -> str:
    """Which build a page's timings are of, and how to tell the rows of others."""
    newest, *older = sorted(set(builds), reverse=True)
    rows = "; rows of an older one name it in the column `older build`" if older else ""
    return (
        f"Our kernels are those of bundle {newest}{rows}. What has changed in them since does not "
        "show here."
    )


def table_of_builds(head: Sequence[str], rows: Iterable[Row], newest: Build) -> Iterator[str]:
    """A table whose rows name the builds of their timings that are not the newest."""
    marked = [(cells, _older(builds, newest)) for cells, builds in rows]
    if any(older for _, older in marked):
        yield from table([*head, "older build"], ([*cells, older] for cells, older in marked))
    else:
        yield from table(head, (cells for cells, _ in marked))


def _older(builds: Iterable[Build], newest: Build) -> str:
    return ", ".join(map(str, sorted({*builds} - {newest})))


def builds_of(timings: Iterable[Found | None]) -> list[Build]:
    """The builds of the timings that there are."""
    return [timing.build for timing in timings if timing]


def micro(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.1f}"


def times(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"
