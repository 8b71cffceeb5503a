"""llama.cpp's own timings of whole models, as results beside ours: a peer's series.

A peer's result is a job of the same case and device, whose code path is the peer's name. Its
outputs were never judged here, so it passed in the sense alone that it was timed.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from vkbench.configuration import text_of
from vkbench.device import DeviceFacts
from vkbench.errors import UsageError
from vkbench.job import PEERS, JobState, Mode, Outcome
from vkbench.result import MODEL_BYTES, MODEL_WEIGHTS, Timing, pack_samples
from vkbench.wire import encode
from vkbench_db.transfer.lines import (
    FORMAT,
    VERSION,
    AttemptLine,
    End,
    Header,
    JobLine,
    RunLine,
)
from vkbench_db.transfer.transcript import Line
from vkbench_local.peers.llama_bench_file import PeerTest
from vkbench_shaders.models.cases import GENERATE, PROMPT, ModelCase
from vkbench_shaders.models.graph import CACHES
from vkbench_shaders.models.making.seeded import SEEDED
from vkbench_worker.timing.statistics import deviation, interval

PEER: Final = "llama.cpp"  # code path of its results
SAID: Final = "timed by llama-bench, with the host's time, and not judged"


@dataclass(frozen=True, kw_only=True)
class PeerRun:
    """The tests of a file that have a case here."""

    records: Sequence[Line]  # as of an export
    left_out: Mapping[str, int]  # how many tests have none, by reason


def peer_run(
    tests: Sequence[PeerTest],
    label: str,
    devices: Sequence[DeviceFacts],
    models: Sequence[str],
    device: DeviceFacts | None = None,
    model: str = "",
) -> PeerRun:
    """The tests as a run, on one of the devices and of the models (with their hashes) known here.

    `device` and `model` are those of all tests, where the file need not tell. UsageError if a
    test's are not known, or no test has a case.
    """
    if model and len({test.model for test in tests}) > 1:
        raise UsageError("--model names one file, and the tests are of several")
    left_out: Counter[str] = Counter()
    jobs: list[JobLine] = []
    used: dict[str, DeviceFacts] = {}
    for test in tests:
        if reason := _reason(test):
            left_out[reason] += 1
            continue
        facts = device or _device(test, devices)
        used[facts.key] = facts
        case = _case(test, model or _model(test, models))
        jobs.append(_job(test, len(jobs), facts.key, case))
    if not jobs:
        told = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        raise UsageError(f"none of the tests has a case here: {told}")
    run = RunLine(
        uuid=_uuid(jobs),
        created_at=min(test.finished_at for test in tests),
        user="",
        label=label,
        tags={"peer": PEER},
        selection={},
        mode=Mode.PERFORMANCE,
        priority=0,
        cancelled_at=None,
        track=PEERS,
    )
    return PeerRun(records=list(_lines(run, used.values(), jobs)), left_out=left_out)


def _reason(test: PeerTest) -> str:
    """Why a test has no case; "" if it has one."""
    if not test.prompt and not test.generated:
        return "without tokens"
    if test.prompt and test.generated:
        return "of a prompt and a generation in one"
    if test.depth:
        return "behind a filled cache"
    if test.cache_k != test.cache_v or test.cache_k not in CACHES:
        return f"with caches of {test.cache_k} and {test.cache_v}"
    return ""


def _device(test: PeerTest, devices: Sequence[DeviceFacts]) -> DeviceFacts:
    named = [facts for facts in devices if facts.name and facts.name in test.device]
    if len(named) == 1:
        return named[0]
    has = f"{len(named)} devices here are" if named else "no device here is"
    raise UsageError(f"{has} '{test.device}', which test {test.number} ran on: give --device")


def _model(test: PeerTest, models: Sequence[str]) -> str:
    """The one of that name of which there are results, or else that vkbench makes."""
    wanted = re.sub(r"[^A-Za-z0-9_.-]+", "-", test.model)
    for known in (models, [model.name for model in SEEDED]):
        named = [name for name in known if name.rpartition("-")[0] in (wanted, f"m{wanted}")]
        if len(named) == 1:
            return named[0]
        if named:
            break
    has = f"{len(named)} models here are" if named else "no model here is"
    raise UsageError(f"{has} called '{wanted}', as in test {test.number}: give --model FILE")


def _case(test: PeerTest, model: str) -> str:
    phase, tokens = (PROMPT, test.prompt) if test.prompt else (GENERATE, test.generated)
    return ModelCase(model=model, phase=phase, tokens=tokens, cache=test.cache_k).case.name


def _job(test: PeerTest, position: int, device: str, case: str) -> JobLine:
    sizes = {MODEL_BYTES: test.model_bytes, MODEL_WEIGHTS: test.model_weights}
    attempt = AttemptLine(
        token=1,
        outcome=Outcome.PASSED,
        reason="",
        variant=PEER,
        kernel_sha="",
        environment="",
        worker="",
        started_at=None,
        seconds=sum(test.seconds),
        telemetry={name: float(size) for name, size in sizes.items() if size},
        recorded_at=test.finished_at,
        settings=text_of(test.settings),
    )
    return JobLine(
        position=position,
        device=device,
        case=case,
        mode=Mode.PERFORMANCE,
        variant=PEER,
        bundle="",
        limit_seconds=0.0,
        measure_seconds=0.0,
        noise=0.0,
        estimate_seconds=0.0,
        state=JobState.PASSED,
        token=1,
        tries=1,
        dispatches=1,
        finished_at=test.finished_at,
        settled_token=1,
        cause="",
        reason="",
        attempts=(attempt,),
        verdict=None,
        timings=(_timing(test),),
    )


def _timing(test: PeerTest) -> Timing:
    """Seconds of a prompt, or of one of the generated tokens: their mean."""
    each = [seconds / (test.generated or 1) for seconds in test.seconds]
    spread = test.deviation / (test.generated or 1)
    middle = median(each)
    bounds = interval(each)
    alone = len(each) == 1  # then the file tells the deviation of the mean's repetitions
    return Timing(
        metric="hot",
        seconds=middle,
        mad=spread if alone else deviation(each),
        low=max(middle - spread, 0.0) if alone else bounds.low,
        high=middle + spread if alone else bounds.high,
        confidence=0.0 if alone else bounds.confidence,
        best=min(each),
        count=len(each),
        launches=1,
        stop="time",
        clock="host",
        bytes_moved=0,
        flops=0,
        samples=pack_samples(each),
        warnings=(SAID,),
    )


def _uuid(jobs: Sequence[JobLine]) -> str:
    """Of the results alone, so that one file makes one run however often it is imported."""
    digest = hashlib.sha256()
    for job in jobs:
        digest.update(encode(job))
    return str(uuid5(NAMESPACE_URL, f"{PEER}:{digest.hexdigest()}"))


def _lines(run: RunLine, devices: Iterable[DeviceFacts], jobs: Sequence[JobLine]) -> Iterator[Line]:
    yield Line(0, "header", Header(format=FORMAT, version=VERSION, jobs=len(jobs)))
    yield Line(0, "run", run)
    for facts in devices:
        yield Line(0, "device", facts)
    for number, job in enumerate(jobs, 1):
        yield Line(number, "job", job)
    yield Line(0, "end", End(jobs=len(jobs), sha256=""))
