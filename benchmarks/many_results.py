"""Years of results, made by the database itself in a minute or two.

    python benchmarks/many_results.py FILE                    SQLite, 5,000,000 results
    python benchmarks/many_results.py postgresql://...        an empty database

Cases are the catalogue's and devices those of `vkbench demo`. Beside the kernels, builds of a
program ran some cases every night, one build after the other. The database says that it is made
up.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from many_devices import DAY, DEVICES, bundle_sha, make_calibrations, make_canaries, make_devices
from sqlalchemy import MetaData, Table, create_engine, text

from vkbench.case import Case
from vkbench.programs.program import GGML_VULKAN as PROGRAM
from vkbench.result import pack_samples
from vkbench_db import schema
from vkbench_db.database import parse_url, upgrade
from vkbench_shaders.catalogue import KERNELS

METRICS = ("hot", "cold")
REGRESSIONS = 400  # a tenth of them open
CHANGES = 1600
BEGAN = 1_778_000_000


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much there is."""

    cases: int  # on each device
    nights: int
    builds: int = 0  # of a program, as many nights each
    build_cases: int = 100  # on each device

    @property
    def runs(self) -> int:
        """A night on a device each."""
        return self.nights * DEVICES

    @property
    def jobs(self) -> int:
        """Each has two results."""
        return self.runs * self.cases

    @property
    def build_jobs(self) -> int:
        """Each has one result."""
        return self.nights * DEVICES * self.build_cases if self.builds else 0


def fill(url: str, size: Size) -> None:
    """All rows, by the database itself."""
    engine = create_engine(parse_url(url), isolation_level="AUTOCOMMIT")
    dialect = engine.dialect.name
    with engine.connect() as connection:
        tables = [  # with the indexes that migrations made
            Table(table.name, MetaData(), autoload_with=connection)
            for table in (schema.job, schema.attempt, schema.measurement)
        ]
        for statement in _FASTER[dialect]:
            connection.exec_driver_sql(statement)
        for table in tables:
            for index in table.indexes:
                index.drop(connection)
        for statement in statements(dialect, size):
            connection.execute(text(statement))
        for table in tables:
            for index in table.indexes:
                index.create(connection)
        for statement in _AFTERWARDS[dialect]:
            connection.exec_driver_sql(statement)
    engine.dispose()


# No foreign keys are looked at, and nothing is kept that would undo a statement.
_FASTER = {
    "sqlite": (
        *("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", "PRAGMA foreign_keys = OFF"),
        "PRAGMA cache_size = -500000",
    ),
    "postgresql": ("SET session_replication_role = replica", "SET maintenance_work_mem = '512MB'"),
}
_AFTERWARDS = {
    "sqlite": ("PRAGMA journal_mode = WAL",),
    "postgresql": ("VACUUM ANALYZE", "CHECKPOINT"),
}


def statements(dialect: str, size: Size) -> Iterator[str]:
    """What fills the tables, a statement each."""
    moment, numbers = _functions(dialect)
    series = 2 * DEVICES * size.cases
    yield from make_devices(moment(f"{size.nights} * {DAY}"))
    yield (
        "INSERT INTO kernel_case (id, name, kernel, format, types, shape, params) VALUES "
        + ", ".join(_case_row(number, case) for number, case in enumerate(cases(size.cases), 1))
    )
    yield (
        "INSERT INTO run (id, uuid, created_at, user_name, label, tags, selection, mode, priority,"
        f" track) SELECT i + 1, 'run' || i, {moment(f'i / {DEVICES} * {DAY}')}, 'ann', '', '{{}}',"
        f" '{{}}', 'performance', 0, 'main' FROM {numbers(size.runs)}"
    )
    run = f"(i / {size.cases})"
    ended = moment(f"{run} / {DEVICES} * {DAY} + {run} % {DEVICES} * 10000 + i % {size.cases}")
    yield (
        "INSERT INTO job (id, run_id, position, device_id, case_id, mode, variant, bundle,"
        " limit_seconds, measure_seconds, noise, estimate_seconds, state, token, tries, dispatches,"
        f" dispatched_at, finished_at, settled_token, cause, reason) SELECT i + 1, {run} + 1,"
        f" i % {size.cases}, {run} % {DEVICES} + 1, i % {size.cases} + 1, 'performance', 'auto',"
        f" '', 60, 1, 0.005, 1, 'passed', 1, 0, 1, {ended}, {ended}, 1, '', ''"
        f" FROM {numbers(size.jobs)}"
    )
    yield (
        "INSERT INTO latest (device_id, case_id, mode, variant, job_id, state, finished_at) SELECT"
        " device_id, case_id, mode, variant, id, state, finished_at FROM job"
        f" WHERE run_id > {(size.nights - 1) * DEVICES}"
    )
    night = f"((job.run_id - 1) / {DEVICES})"
    half = size.nights // 2
    yield (
        "INSERT INTO attempt (job_id, token, outcome, reason, variant, kernel_sha, bundle,"
        " environment, worker, started_at, seconds, telemetry, recorded_at) SELECT id, 1, 'passed',"
        f" '', 'subgroup', '{bundle_sha('2')}',"
        f" CASE WHEN {night} < {half} THEN '{bundle_sha('0')}' ELSE '{bundle_sha('1')}' END,"
        f" CASE WHEN {night} < {half} THEN '{bundle_sha('0')}' ELSE '{bundle_sha('1')}' END,"
        " 'lab', finished_at, 1.5, '{\"clock_mhz\": 1500.0, \"temperature\": 55.0}', finished_at"
        " FROM job"
    )
    yield (
        "INSERT INTO verdict (job_id, token, passed, reason, path, nmse, nmse_limit, max_abs,"
        " max_abs_limit, compared, total, nonfinite, unwritten, guard_bytes, unrepeated, first_bad)"
        " SELECT id, 1, true, '', 'f32', 1e-14, 1e-10, 1e-6, 1e-3, 4096, 4096, 0, 0, 0, 0, ''"
        " FROM job"
    )
    yield (
        "INSERT INTO series (id, device_id, case_id, variant, metric, environment_class, track,"
        " noise_kind, sigma, autocorrelation, smallest_effect, screen, screened_at, screened_job)"
        f" SELECT i + 1, i % {2 * DEVICES} / 2 + 1, i / {2 * DEVICES} + 1, 'subgroup',"
        " CASE i % 2 WHEN 0 THEN 'hot' ELSE 'cold' END, 'default', 'main', 'normal', 0.005, 0.1,"
        f" 0.015, '{_screen()}', {moment('0')}, 1 FROM {numbers(series)}"
    )
    of_series = f"(job.case_id - 1) * {2 * DEVICES} + (job.device_id - 1) * 2 + m.i + 1"
    level = "(1 + job.case_id % 97) * 1e-5"
    noise = "0.01 * ((CAST(job.id AS bigint) * 7919 + m.i * 104729) % 10007) / 10007"
    yield (
        "INSERT INTO measurement (job_id, metric, token, seconds, mad, low, high, confidence, best,"
        " count, launches, stop, clock, bytes_moved, flops, warnings, samples, series_id,"
        " measured_at, roof_fraction, flag) SELECT id, CASE i WHEN 0 THEN 'hot' ELSE 'cold' END, 1,"
        " s, s / 500, s * 0.999, s * 1.001, 0.95, s * 0.99, 20, 100, 'noise', 'gpu', 1000000,"
        f" 2000000, '[]', {_WORDS[dialect]['samples']}, series, finished_at,"
        " 0.2 + 0.7 * (series % 89) / 89, '' FROM"
        f" (SELECT job.id, job.finished_at, m.i, {of_series} AS series,"
        f" {level} * (1 + {noise}) AS s FROM job CROSS JOIN {numbers(2)}) AS made"
    )
    yield from make_calibrations(moment("0"))
    yield make_canaries(numbers, moment, size.nights)
    yield from _regressions(numbers(CHANGES), numbers(REGRESSIONS), moment(f"i * {DAY}"), size)
    if size.builds:
        yield from _builds(dialect, size)


def _functions(dialect: str) -> tuple[Callable[[str], str], Callable[[int], str]]:
    """What SQL calls the moment of some seconds, and a table `m` of the first numbers."""
    words = _WORDS[dialect]
    return (
        lambda seconds: words["moment"].format(f"{BEGAN} + {seconds}"),
        lambda count: words["numbers"].format(count) + " AS m",
    )


def _builds(dialect: str, size: Size) -> Iterator[str]:
    """Builds of a program that ran the first cases every night, and the changes that came."""
    moment, numbers = _functions(dialect)
    a_build, a_night = -(-size.nights // size.builds), DEVICES * size.build_cases
    for number in range(size.builds):
        yield (
            "INSERT INTO build (sha, program, name, files, added_at) VALUES"
            f" ('{build_sha(number)}', '{PROGRAM.name}', 'b{8000 + number}', '[]',"
            f" {moment(str(number * a_build * DAY))})"
        )
    yield (
        "INSERT INTO run (id, uuid, created_at, user_name, label, tags, selection, mode, priority,"
        f" track) SELECT {size.runs} + i + 1, 'build run' || i, {moment(f'i * {DAY}')}, 'ann', '',"
        f" '{{}}', '{{}}', 'performance', 0, 'main' FROM {numbers(size.nights)}"
    )
    ended = moment(f"i / {a_night} * {DAY} + 50000 + i % {a_night}")
    yield (
        "INSERT INTO job (id, run_id, position, device_id, case_id, mode, variant, bundle,"
        " arm_kind, limit_seconds, measure_seconds, noise, estimate_seconds, state, token, tries,"
        " dispatches, dispatched_at, finished_at, settled_token, cause, reason)"
        f" SELECT {size.jobs} + i + 1, {size.runs} + i / {a_night} + 1, i % {a_night},"
        f" i % {DEVICES} + 1, i % {a_night} / {DEVICES} + 1, 'performance', '{PROGRAM.name}',"
        f" build.sha, 'build', 60, 1, 0.005, 1, 'passed', 1, 0, 1, {ended}, {ended}, 1, '', ''"
        f" FROM {numbers(size.build_jobs)}"
        f" JOIN build ON build.name = 'b' || (8000 + i / {a_night * a_build})"
    )
    is_ours = f"job.id > {size.jobs}"
    yield (
        "INSERT INTO latest (device_id, case_id, mode, variant, job_id, state, finished_at) SELECT"
        " device_id, case_id, mode, variant, id, state, finished_at FROM job"
        f" WHERE run_id = {size.runs + size.nights}"
    )
    yield (
        "INSERT INTO attempt (job_id, token, outcome, reason, variant, kernel_sha, bundle,"
        " environment, worker, started_at, seconds, telemetry, recorded_at) SELECT id, 1, 'passed',"
        f" '', variant, bundle, bundle, '{bundle_sha('1')}', 'lab', finished_at, 1.5, '{{}}',"
        f" finished_at FROM job WHERE {is_ours}"
    )
    first = 2 * DEVICES * size.cases + 1
    yield (
        "INSERT INTO series (id, device_id, case_id, variant, metric, environment_class, track,"
        " noise_kind, sigma, autocorrelation, smallest_effect, screen, screened_at, screened_job)"
        f" SELECT {first} + i, i % {DEVICES} + 1, i / {DEVICES} + 1, '{PROGRAM.name}', 'hot',"
        f" 'default', 'main', 'normal', 0.005, 0.1, 0.015, '{_screen()}', {moment('0')}, 1"
        f" FROM {numbers(a_night)}"
    )
    seconds = "(1 + case_id % 97) * 1e-5 * (1 + 0.01 * (id % 101) / 101)"
    yield (
        "INSERT INTO measurement (job_id, metric, token, seconds, mad, low, high, confidence, best,"
        " count, launches, stop, clock, bytes_moved, flops, warnings, samples, series_id,"
        " measured_at, roof_fraction, flag) SELECT id, 'hot', 1, s, s / 500, s * 0.999, s * 1.001,"
        " 0.95, s * 0.99, 20, 100, 'noise', 'host', 1000000, 2000000, '[]',"
        f" {_WORDS[dialect]['samples']}, {first} + position, finished_at, 0.5, '' FROM"
        f" (SELECT id, position, finished_at, {seconds} AS s FROM job WHERE {is_ours}) AS made"
    )
    yield (
        "INSERT INTO change_point (id, series_id, method, direction, before_job, after_job,"
        " before_kernel, after_kernel, before_bundle, after_bundle, before_environment,"
        " after_environment, found_at, ratio, low, high, p, state, cause)"
        f" SELECT {CHANGES} + 1 + job.position, {first} + job.position, 'screen', 'slower',"
        f" job.id - {a_night}, job.id, old.bundle, job.bundle, old.bundle, job.bundle,"
        f" '{bundle_sha('1')}', '{bundle_sha('1')}', job.finished_at, 1.05, 1.04, 1.06, 0.0001,"
        " 'confirmed', 'build' FROM job JOIN job AS old"
        f" ON old.id = job.id - {a_night} AND old.bundle <> job.bundle"
        f" WHERE {is_ours} AND job.id - {size.jobs} BETWEEN {a_night * a_build} + 1"
        f" AND {a_night * (a_build + 1)}"
    )


def build_sha(number: int) -> str:
    """A build's hash, whose first digits tell it from others."""
    return f"{0xB00 + number:03x}" * 21 + "b"


def cases(count: int) -> list[Case]:
    """So many cases of the catalogue, of all kernels in turn, the timed ones of each first."""
    lists = [[*dict.fromkeys((*kernel.timed, *kernel.cases))] for kernel in KERNELS]
    longest = max(map(len, lists))
    turns = (listed[turn] for turn in range(longest) for listed in lists if turn < len(listed))
    return list(islice(turns, count))


def _case_row(number: int, case: Case) -> str:
    _, _, shape, *params = case.name.split("/")
    types = ",".join(f"{binding}={kind}" for binding, kind in sorted(case.types.items()))
    values = (case.name, case.kernel, case.format, types, shape, "".join(params))
    quoted = ", ".join(f"'{value}'" for value in values).replace(":", "\\:")  # no parameter
    return f"({number}, {quoted})"


def _regressions(changes: str, regressions: str, at: str, size: Size) -> Iterator[str]:
    """Changes of many series, and what they belong to: a tenth is still open."""
    series = 2 * DEVICES * size.cases
    sides = ("before", "after")
    shas = ", ".join(f"'{bundle_sha(n)}'" for n in "020101")
    names = [f"{side}_{what}" for what in ("kernel", "bundle", "environment") for side in sides]
    yield (
        "INSERT INTO change_point (id, series_id, method, direction, before_job, after_job,"
        f" {', '.join(names)}, found_at, ratio, low, high, p, state, cause) SELECT i + 1,"
        f" i * 7 % {series} + 1, 'screen', 'slower', i + 1, i + 1 + {size.cases * DEVICES},"
        f" {shas}, {at}, 1.05, 1.04, 1.06, 0.0001, 'confirmed', 'kernel' FROM {changes}"
    )
    yield (
        "INSERT INTO regression (id, group_key, direction, cause, title, state, opened_at,"
        " changed_at, owner) SELECT i + 1, 'key' || i, 'slower', 'kernel', 'mul_mat slower',"
        f" CASE i % 10 WHEN 0 THEN 'open' ELSE 'verified' END, {at}, {at}, '' FROM {regressions}"
    )
    yield (
        "INSERT INTO regression_member (change_point_id, regression_id)"
        f" SELECT id, (id - 1) % {REGRESSIONS} + 1 FROM change_point"
    )
    yield (
        "INSERT INTO regression_event (regression_id, at, state, user_name, note)"
        " SELECT id, opened_at, 'open', '', '' FROM regression"
    )


# as long as those of a short timing, and readable, so that pages of jobs show them
SAMPLES = base64.b64decode(pack_samples([1e-5 * (1 + n / 1000) for n in range(20)]))
_WORDS = {
    "sqlite": {
        "moment": "strftime('%Y-%m-%d %H:%M:%f', {}, 'unixepoch') || '000'",
        "numbers": (
            "(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT {})"
            " SELECT i FROM n)"
        ),
        "samples": f"x'{SAMPLES.hex()}'",
    },
    "postgresql": {
        "moment": "to_timestamp({})",
        "numbers": "(SELECT generate_series(0, {} - 1) AS i)",
        "samples": f"decode('{SAMPLES.hex()}', 'hex')",
    },
}


def _screen() -> str:
    """As long as what the screen keeps of a series."""
    state = {"values": [-11.123456789012345] * 50, "indices": [199] * 50}
    return json.dumps({"state": state, "jobs": [2_000_000] * 150})


def main() -> None:
    """Make the schema in an empty database, and fill it."""
    sys.path.append(sys.path.pop(0))  # this folder's queue.py is not the standard library's
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("database", help="a file that is not there yet, or a URL")
    parser.add_argument("--results", type=int, default=5_000_000)
    parser.add_argument("--series", type=int, default=25_000)
    parser.add_argument("--builds", type=int, default=20, help="of a program, besides")
    options = parser.parse_args()
    url = (
        options.database
        if "://" in options.database
        else f"sqlite:///{Path(options.database).resolve()}"
    )
    size = Size(
        cases=options.series // DEVICES // len(METRICS),
        nights=max(2, options.results // options.series),
        builds=options.builds,
    )
    began = time.monotonic()
    upgrade(url)
    fill(url, size)
    print(f"{2 * size.jobs + size.build_jobs:,} results in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
