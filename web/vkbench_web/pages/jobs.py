"""/jobs/N: what ran, what it found, on what software, and how to run it again."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench import configuration
from vkbench.calibration import CANARY_AT
from vkbench.case import is_model, parse
from vkbench.configuration import PIECES, SHARDS
from vkbench.device import DRIVER_NAME
from vkbench.job import MAIN, PEERS, PROPERTIES, ArmKind, Mode
from vkbench.programs.build import SHA_SHOWN, name_build
from vkbench.words.names import join_items
from vkbench_db.ask import job_story
from vkbench_db.ask.job_story import AttemptRow, JobFacts, JobStory, TimingRow
from vkbench_db.ask.replays import list_gone
from vkbench_db.work.builds import names_of_builds
from vkbench_db.work.bundles import read_revisions
from vkbench_tables.table import Column, Table, ValueKind
from vkbench_web.access.texts import Number
from vkbench_web.listing import list_table
from vkbench_web.shell import lab_of, page

router = APIRouter()
SPENT = "spent_"  # how telemetry names the phases of an attempt
BINS = 24
SAMPLES = (
    Column(key="metric", heading="metric"),
    Column(key="side", heading="side"),
    Column(key="sample", heading="sample", kind=ValueKind.COUNT),
    Column(key="seconds", heading="time", kind=ValueKind.SECONDS),
)
NO_SAMPLES = "nothing was timed"


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A fact that differs from the last good result."""

    name: str
    then: str
    now: str


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A bar of a histogram, in percent of its box."""

    x: float
    width: float
    height: float


@router.get("/jobs/{job}", include_in_schema=False)
def job_page(request: Request, job: Number) -> Response:
    """The page of one job."""
    with lab_of(request).reading() as tx:
        story = job_story.story(tx, job)
        builds = names_of_builds(tx) if story.facts.arm_kind == ArmKind.BUILD else {}
        gone = list_gone(tx, story)
        made_of = read_revisions(tx, [story.settling.bundle] if story.settling else [])
    rows = [
        {"metric": timing.metric, "side": timing.side, "sample": place, "seconds": seconds}
        for timing in story.timings
        for place, seconds in enumerate(timing.samples, 1)
    ]
    table = Table(columns=SAMPLES, rows=rows, nothing=NO_SAMPLES)
    samples = list_table(request, table, name=f"job-{job}-samples")
    settling = story.settling
    return samples.download() or page(
        request,
        "job.html",
        story=story,
        job=story.facts,
        ran=settling,
        environment=_software(story),
        differences=differences(story, builds),
        builds=builds,
        made_of=join_items(next(iter(made_of.values()), [])),
        attempts=[(attempt, phases(attempt), readings(attempt)) for attempt in story.attempts],
        timings=[(timing, histogram(timing.samples), _rates(timing)) for timing in story.timings],
        replay=replay(story),
        gone=gone,
        samples=samples,
    )


def replay(story: JobStory) -> str:
    """The command that runs a job again, with the bundle that it ran; "" if there is none."""
    facts, ran = story.facts, story.settling
    bundle = (ran.bundle if ran else "") or facts.bundle
    if facts.arm_kind == ArmKind.BUILD:
        return _replay_build(facts)
    if facts.mode == Mode.PAIRED or facts.track == PEERS:
        return ""
    if facts.mode == Mode.SHARDED:
        return _sharded_again(facts, bundle)
    words = ["vkbench", "run", *_case_again(facts)]
    if facts.mode == Mode.PEER:
        words += ["--peer", facts.variant, "--mode", Mode.PERFORMANCE]
    else:
        aim = "--property" if facts.mode in PROPERTIES else "--mode"
        words += ["--variant", facts.variant, aim, facts.mode]
    words += ["--device", facts.device]
    if driver := _software(story).get(DRIVER_NAME):
        words += ["--driver", driver]
    words += ["--bundle", bundle] if bundle else []
    words += ["--track", facts.track or "none"] if facts.track != MAIN else []
    return shlex.join(words)


def _software(story: JobStory) -> Mapping[str, Any]:
    """What the settling attempt ran on, with what its environment has besides."""
    facts = story.environments.get(story.settling.environment, {}) if story.settling else {}
    known = {name: value for name, value in facts.items() if name != "extra"}
    return {**known, **(facts.get("extra") or {})}


def _replay_build(facts: JobFacts) -> str:
    """The command that has a build do its case again; "" for a pair, which `compare` shows."""
    if facts.mode == Mode.PAIRED:
        return ""
    words = ["vkbench", "run", "--build", facts.bundle[:SHA_SHOWN], *_case_again(facts)]
    words += ["--mode", facts.mode, "--device", facts.device]
    words += ["--track", facts.track or "none"] if facts.track != MAIN else []
    return shlex.join(words)


def _case_again(facts: JobFacts) -> list[str]:
    """The options that name a job's case, and the file that it takes weights from."""
    if not facts.source:
        return ["--case", facts.case_name]
    path, tensor = str(facts.source["path"]), str(facts.source["tensor"])
    if not is_model(facts.case_name):
        return ["--case", facts.case_name, "--gguf", path, "--tensor", tensor]
    case = parse(facts.case_name)
    words = ["--model", path]
    for option, phase in (("--prompt", "pp"), ("--generate", "tg")):
        words += [option, str(case.shape.get(phase, 0))]
    return words + [
        word for name, value in case.params.items() for word in (f"--{name}", str(value))
    ]


def _sharded_again(facts: JobFacts, bundle: str) -> str:
    """The command that divides a case again; "" if several devices did, as one is stored."""
    parsed = configuration.parse(facts.variant)
    if "devices" in parsed.settings:
        return ""
    settings = {
        name: value for name, value in parsed.settings.items() if name not in (SHARDS, PIECES)
    }
    variant = replace(parsed, settings=settings).name
    words = ["vkbench", "shard", facts.case_name, "--shards", str(parsed.settings[SHARDS])]
    words += ["--pieces", str(parsed.settings[PIECES])] if PIECES in parsed.settings else []
    words += ["--variant", variant, "--device", facts.device]
    words += ["--bundle", bundle] if bundle else []
    return shlex.join(words)


def differences(story: JobStory, builds: Mapping[str, str] = {}) -> list[Difference]:
    """The facts that differ from when the case last passed on this device.

    `builds` are the names of builds by their hashes.
    """
    ran, good = story.settling, story.last_good
    if ran is None or good is None:
        return []
    then, now = (_facts(story, attempt, builds) for attempt in (good.attempt, ran))
    keys = dict.fromkeys([*then, *now])
    return [
        Difference(name=key, then=then.get(key, ""), now=now.get(key, ""))
        for key in keys
        if then.get(key, "") != now.get(key, "")
    ]


def phases(attempt: AttemptRow) -> list[tuple[str, float]]:
    """Seconds of the phases of an attempt, the longest first."""
    seconds = {
        name.removeprefix(SPENT): float(spent)
        for name, spent in attempt.telemetry.items()
        if name.startswith(SPENT)
    }
    return sorted(seconds.items(), key=lambda item: -item[1])


def readings(attempt: AttemptRow) -> list[tuple[str, object]]:
    """Readings of an attempt besides phases: clocks, power, temperature."""
    return [
        (name.replace("_", " "), value)
        for name, value in attempt.telemetry.items()
        if not name.startswith(SPENT) and name != CANARY_AT  # a moment, before the job's own
    ]


def histogram(samples: Sequence[float]) -> list[Bar]:
    """How often each time was measured; a single bar where all are equal."""
    if not samples:
        return []
    bins = min(BINS, len(samples)) if min(samples) < max(samples) else 1
    counts, _ = np.histogram(np.asarray(samples, dtype=np.float64), bins=bins)
    most = int(counts.max())
    return [
        Bar(x=100 * place / bins, width=100 / bins, height=100 * int(count) / most)
        for place, count in enumerate(counts)
        if count
    ]


def _rates(timing: TimingRow) -> tuple[float, float]:
    """Bytes and operations per second."""
    if not timing.seconds:
        return 0.0, 0.0
    return timing.bytes_moved / timing.seconds, timing.flops / timing.seconds


def _facts(story: JobStory, attempt: AttemptRow, builds: Mapping[str, str]) -> Mapping[str, str]:
    """Everything that may change an attempt's result: code, settings, software."""
    is_build = story.facts.arm_kind == ArmKind.BUILD
    software = story.environments.get(attempt.environment, {})
    flat = {key: value for key, value in software.items() if not isinstance(value, Mapping)}
    for key, value in software.items():
        if isinstance(value, Mapping):
            flat |= {f"{key} {name}": detail for name, detail in value.items()}
    return {
        **({} if is_build else {"code": attempt.kernel_sha}),
        "build" if is_build else "bundle": (
            name_build(builds.get(attempt.bundle, ""), attempt.bundle)
            if is_build
            else attempt.bundle
        ),
        "variant": attempt.variant,
        "settings": attempt.settings,
        **{key.replace("_", " "): str(value) for key, value in flat.items()},
    }
