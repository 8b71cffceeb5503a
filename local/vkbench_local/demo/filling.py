"""Fills a database with the demonstration's nights, and takes the steps of detection each night.

What is suspected, confirmed and grouped is what the detection finds in these results. Nothing of it
is written here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from vkbench.job import ArmKind, Mode
from vkbench.messages.wire import Announcement
from vkbench_db import demonstration
from vkbench_db.database import Database
from vkbench_db.transfer.intake import import_records
from vkbench_db.transfer.lines import EnvironmentLine, JobLine, RunLine
from vkbench_db.transfer.transcript import Line
from vkbench_db.work import store
from vkbench_db.work.builds import store_build
from vkbench_db.work.store import StoredBundle
from vkbench_detection.peers.standings import judge
from vkbench_detection.steps import conclude, detect, scan
from vkbench_local.demo import calibration, rivals, story, telling
from vkbench_local.demo.nights import BEGINS, ENDED, Lab, job_lines, run_line
from vkbench_local.demo.pairs import measure_again
from vkbench_local.demo.recording import load
from vkbench_local.demo.releases import CASES, PROGRAM, RELEASES, Release, computed_by, release_of

NIGHTS = 60
WATCHED = (
    *(f"mul_mat_vec/{fmt}/m4096_n1_k14336" for fmt in ("q4_0", "q8_0", "q4_K", "q6_K", "mxfp4")),
    *(f"mul_mat/{fmt}/m4096_n512_k14336" for fmt in ("q4_0", "q8_0", "q4_K", "iq2_xs")),
    *("dequantize/q4_K/m4096_k4096", "dequantize/iq2_xs/m4096_k4096"),
    *("get_rows/q4_0/m32000_n512_k4096", "get_rows/q4_K/m32000_n512_k4096"),
    "mul_mat_id/q4_0/e128_u8_m768_n512_k2048",
    "flash_attn/q4_0/s1_h64_g8_q512_n7680_d64_e64/mask=causal",
    *("softmax/f32/b1_c5_h4096_w4096", "softmax/f16:mask=f16/b1_c5_h4096_w4096"),
    *("rms_norm/f32/b1_c1_h16384_w8192", "rms_norm/f16/b1_c1_h16384_w8192"),
    *("layer_norm/f32/b1_c1_h16384_w8192", "rope/f16/b1_n4096_h32_k128/mode=neox"),
    *("add/f32/b1_c1_h4096_w4096", "copy/f32/n16777216"),
    *("swiglu/f32/b1_c1_h2048_w17408", "conv2d/f16/n1_c256_h256_w256_o256_r3_s3/padding=1"),
)

Watch = Callable[[int, int], None]  # nights that are done, of how many


def last_midnight(now: float) -> datetime:
    """The midnight after the last night whose work is over."""
    began = datetime.fromtimestamp(now - ENDED, UTC)
    return began.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def fill(
    database: Database,
    until: datetime,
    *,
    nights: int = NIGHTS,
    seed: int = 1,
    watch: Watch = lambda done, total: None,
) -> None:
    """Fill an empty database with a lab's nights, the last of which ends at `until`, a midnight."""
    lab = _lab(until.timestamp(), nights, seed)
    with database.transaction() as tx:
        demonstration.mark(tx)
        for number, bundle in enumerate(_bundles()):
            store.store_bundle(tx, bundle, lab.midnight(story.BUILDS[number].night))
        for release in RELEASES:
            store_build(tx, replace(release.build, added_at=lab.midnight(release.night)))
    watched = set[int]()
    for night in range(nights):
        suspected = _night(database, lab, night)
        watched |= suspected if not lab.is_wide(night) else set()
        watch(night + 1, nights)
    _look_back(database, lab, watched)


def _lab(until: float, nights: int, seed: int) -> Lab:
    return Lab(
        recording=load(),
        nightly=WATCHED,
        nights=nights,
        until=until,
        seed=seed,
        bundles=[bundle.sha for bundle in _bundles()],
    )


def _bundles() -> Iterator[StoredBundle]:
    """A bundle for each build: a name and a hash, with no kernel that a device could run."""
    for number, _ in enumerate(story.BUILDS):
        manifest = json.dumps(
            {"version": 2, "slang": "none", "tree": f"demonstration {number}", "entries": []}
        )
        text = f"no SPIR-V: demonstration {number}".encode()
        yield StoredBundle(
            sha=hashlib.sha256(manifest.encode()).hexdigest(),
            name=f"demonstration-{number}",
            manifest=manifest,
            blobs={hashlib.sha256(text).hexdigest(): text},
        )


def _night(database: Database, lab: Lab, night: int) -> frozenset[int]:
    """A night's work, and what is suspected of it measured again; the series with new results."""
    began = lab.midnight(night) + BEGINS
    date = datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%d")
    _announce(database, lab, night, began)
    ended = began
    for run, jobs in _work(lab, night, began, date):
        ended = _store(database, lab, night, run, jobs)
    detected = detect(database, ended)
    if rivals.is_timed(lab, night):
        judge(database, ended)
    ended = measure_again(database, lab, night, ended)
    _announce(database, lab, night, ended)
    return detected.series


def _work(
    lab: Lab, night: int, began: float, date: str
) -> Iterator[tuple[RunLine, Sequence[JobLine]]]:
    """The runs of a night: calibrations of devices with a new driver, our kernels, the program."""
    fresh = [machine for machine in lab.machines if night == 0 or machine.is_new_driver(night)]
    if fresh:
        run = calibration.run_line(lab, night, date, began)
        jobs = list(calibration.job_lines(replace(lab, machines=fresh), night, began))
        yield run, jobs
        began = max(job.finished_at or began for job in jobs) + 60
    is_wide = lab.is_wide(night)
    cases = [lab.by_name[name] for name in (lab.by_name if is_wide else lab.nightly)]
    what = "all kernels" if is_wide else "nightly"
    jobs = list(job_lines(lab, night, cases, began, 0))
    yield run_line(lab, night, what, date, began), jobs
    if release := release_of(night):
        began = max(job.finished_at or began for job in jobs) + 60
        run = run_line(lab, night, f"{PROGRAM} {release.name}", date, began)
        jobs = list(_release_lines(lab, night, release, began))
        yield run, jobs
    if rivals.is_timed(lab, night):
        began = max(job.finished_at or began for job in jobs) + 60
        run = run_line(lab, night, f"{rivals.PEER} (made up)", date, began)
        yield replace(run, mode=Mode.PEER), list(rivals.compare_lines(lab, night, began))


def _release_lines(lab: Lab, night: int, release: Release, began: float) -> Iterator[JobLine]:
    """The jobs of a night by the release that runs in it; their noise is not that of kernels."""
    cases = [[computed_by(release, lab.by_name[name][0])] for name in CASES]
    sha, kind = release.sha, ArmKind.BUILD
    for line in job_lines(lab, night, cases, began, 2):
        tried = tuple(replace(attempt, kernel_sha=sha, bundle=sha) for attempt in line.attempts)
        yield replace(line, attempts=tried, variant=PROGRAM, bundle=sha, arm_kind=kind)


def _announce(database: Database, lab: Lab, night: int, now: float) -> None:
    with database.transaction() as tx:
        for machine in lab.machines:
            announcement = Announcement(
                worker=f"{machine.host}:demonstration",
                facts=machine.facts(lab.recording.device),
                environment=machine.environment(lab.recording.environment, night),
                bundle=lab.bundles[story.build_of(night)],
            )
            store.register_device(tx, announcement, now)


def _store(
    database: Database, lab: Lab, night: int, run: RunLine, jobs: Sequence[JobLine]
) -> float:
    """Store a run with its results; return when it ended."""
    ended = max(job.finished_at or 0.0 for job in jobs)
    with database.transaction() as tx:
        import_records(tx, _lines(lab, night, run, jobs), ended)
    return ended


def _lines(lab: Lab, night: int, run: RunLine, jobs: Sequence[JobLine]) -> Iterator[Line]:
    records: list[tuple[str, object]] = [("run", run)]
    for machine in lab.machines:
        environment = machine.environment(lab.recording.environment, night)
        records.append(("device", machine.facts(lab.recording.device)))
        records.append(("environment", EnvironmentLine(hash=environment.hash, facts=environment)))
    records += [("job", job) for job in jobs]
    for number, (kind, record) in enumerate(records, 1):
        yield Line(number, kind, record)


def _look_back(database: Database, lab: Lab, series: Iterable[int]) -> None:
    """Cut the histories of series, as a scheduler does, and measure again what that finds."""
    now = lab.midnight(lab.nights - 1) + ENDED
    scan(database, series, now)
    measure_again(database, lab, lab.nights - 1, now)
    conclude(database, now)
    telling.tell_stories(database, lab, now)
