"""Records cross the wire unchanged, and what is not a record is refused in one sentence."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from planted_runs import DEVICE, ENVIRONMENT
from vkbench.job import Arm, Job, Mode, Outcome, Pair, Source
from vkbench.messages import wire
from vkbench.result import Result, Timing, Verdict, pack_samples

JOB = Job(id=7, token=3, case="copy/f32/n5", mode=Mode.PERFORMANCE, limit_seconds=2.0)
FACTS = replace(DEVICE, features=("float16", "subgroup_arithmetic"))
VERDICT = Verdict(
    passed=True,
    reason="",
    path="f32",
    nmse=1e-14,
    nmse_limit=1e-10,
    max_abs=1e-7,
    max_abs_limit=1e-5,
    compared=5,
    total=5,
)
TIMING = Timing(
    metric="hot",
    seconds=1e-5,
    mad=1e-7,
    low=0.9e-5,
    high=1.1e-5,
    confidence=0.95,
    best=0.8e-5,
    count=3,
    launches=10,
    stop="noise",
    clock="gpu",
    bytes_moved=40,
    flops=0,
    samples=pack_samples([1e-5, 1e-5, 1.1e-5]),
    warnings=("the clock moved",),
)
RECORDS = (
    JOB,
    replace(JOB, mode=Mode.PAIRED, pair=Pair(old=Arm(name="0a" * 32), metric="hot")),
    wire.Chunk(device=FACTS.key, jobs=(JOB,)),
    wire.Lease(worker="w", jobs=((7, 3), (8, 1)), running=True),
    wire.Announcement(worker="w", facts=FACTS, environment=ENVIRONMENT, bundle="ab"),
    Result(job=7, token=3, outcome=Outcome.PASSED, verdict=VERDICT, timings=(TIMING,)),
    Result(job=7, token=3, outcome=Outcome.CRASHED, reason="SIGSEGV", telemetry={"watts": 3.5}),
)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_come_back(record: object) -> None:
    assert wire.decode(wire.encode(record), type(record)) == record
    assert wire.from_builtins(wire.to_builtins(record), type(record)) == record


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"null",
        b"\xff",
        b'{"id": 1',
        b'{"id": "1", "token": 1, "case": "", "mode": "x"}',
    ],
)
def test_what_is_no_record_is_refused(data: bytes) -> None:
    with pytest.raises(wire.MalformedMessage, match="malformed Job: "):
        wire.decode(data, Job)


def test_builtins_that_are_no_record_are_refused() -> None:
    with pytest.raises(wire.MalformedMessage, match="malformed Lease: "):
        wire.from_builtins({"worker": 1}, wire.Lease)


def test_keys_tell_devices_jobs_and_runs_apart() -> None:
    keys = [
        *(wire.queue_of(device) for device in "ab"),
        *(wire.lease_of(device) for device in "ab"),
        *(wire.announcement_of(device) for device in "ab"),
        *(wire.claim_of(1, token)[0] for token in (1, 11, 2)),
        wire.cancel_of(1),
        wire.bundle_of("ab"),
    ]
    assert len(set(keys)) == len(keys)
    assert all(key.startswith("vk:") for key in keys)


def test_each_claim_has_a_bit_of_its_own() -> None:
    jobs = (1, 2, wire.CLAIMS - 1, wire.CLAIMS, wire.CLAIMS + 1, 2**31 - 1)
    claims = {wire.claim_of(job, token) for job in jobs for token in (1, 2, 11)}
    assert len(claims) == 3 * len(jobs)
    assert all(0 <= bit < wire.CLAIMS for _, bit in claims)


def test_a_job_says_where_weights_lie_only_if_it_has_any() -> None:
    assert b"source" not in wire.encode(JOB)
    assert "source" not in str(wire.to_builtins(JOB))
    assert wire.encode(wire.decode(wire.encode(JOB), Job)) == wire.encode(JOB)  # it goes on
    there = replace(JOB, source=Source(path="/models/a.gguf", tensor="output.weight"))
    assert wire.decode(wire.encode(there), Job) == there
    chunk = wire.Chunk(device="0123456789ab", jobs=(JOB, there))
    assert wire.from_builtins(wire.to_builtins(chunk), wire.Chunk) == chunk


def test_a_pair_is_told_to_workers_of_older_versions_too() -> None:
    pair = Pair(old=Arm(name="0a" * 32), metric="cold", new_first=True)
    paired = replace(JOB, mode=Mode.PAIRED, pair=pair)
    older = msgspec.json.decode(wire.encode(wire.Chunk(device="0123456789ab", jobs=(paired,))))
    [job] = older["jobs"]
    assert (job["against"], job["metric"], job["new_first"]) == ("0a" * 32, "cold", True)
    assert wire.from_builtins(older, wire.Chunk).jobs == (paired,)
    assert b"pair" not in wire.encode(JOB)
