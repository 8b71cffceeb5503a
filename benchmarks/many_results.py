"""Years of results, made by the database itself in a minute or two."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import MetaData, Table, create_engine, text

from vkbench_db import schema
from vkbench_db.database import parse_url

DEVICES = 4
METRICS = ("hot", "cold")
REGRESSIONS = 400  # a tenth of them open
CHANGES = 1600
BEGAN = 1_780_000_000
DAY = 86_400


@dataclass(frozen=True, kw_only=True)
class Size:
    """How much there is."""

    cases: int  # on each device
    nights: int

    @property
    def runs(self) -> int:
        """A night on a device each."""
        return self.nights * DEVICES

    @property
    def jobs(self) -> int:
        """Each has two results."""
        return self.runs * self.cases


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
    words = _WORDS[dialect]

    def moment(seconds: str) -> str:
        return words["moment"].format(f"{BEGAN} + {seconds}")

    def numbers(count: int) -> str:
        return words["numbers"].format(count) + " AS m"

    series = 2 * DEVICES * size.cases
    yield "INSERT INTO host (id, name) VALUES (1, 'lab')"
    yield (
        "INSERT INTO device (id, key, host_id, name, facts, paused, worker, bundle, environment,"
        " last_run) SELECT i + 1, 'device' || i, 1, 'Card ' || i, '{}', false, '', '', '', 0"
        f" FROM {numbers(DEVICES)}"
    )
    for environment in range(2):
        yield (
            "INSERT INTO environment (hash, driver, driver_version, facts) VALUES"
            f" ('{bundle_sha(str(environment))}', 'driver', '{environment}', '{{}}')"
        )
    yield (
        "INSERT INTO kernel_case (id, name, kernel, format, types, shape, params) SELECT i + 1,"
        " 'mul_mat/q4_0/m' || i || '_n1_k4096', 'mul_mat', 'q4_0', '', 'm' || i || '_n1_k4096', ''"
        f" FROM {numbers(size.cases)}"
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
        f" 2000000, '[]', {words['samples']}, series, finished_at, 0.7, '' FROM"
        f" (SELECT job.id, job.finished_at, m.i, {of_series} AS series,"
        f" {level} * (1 + {noise}) AS s FROM job CROSS JOIN {numbers(2)}) AS made"
    )
    yield from _regressions(numbers(CHANGES), numbers(REGRESSIONS), moment(f"i * {DAY}"), size)


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


_WORDS = {
    "sqlite": {
        "moment": "strftime('%Y-%m-%d %H:%M:%f', {}, 'unixepoch') || '000'",
        "numbers": (
            "(WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n LIMIT {})"
            " SELECT i FROM n)"
        ),
        "samples": "randomblob(80)",
    },
    "postgresql": {
        "moment": "to_timestamp({})",
        "numbers": "(SELECT generate_series(0, {} - 1) AS i)",
        "samples": "decode(repeat(md5(id::text), 5), 'hex')",
    },
}


def bundle_sha(digit: str) -> str:
    """A hash that is easy to say."""
    return digit * 64


def _screen() -> str:
    """As long as what the screen keeps of a series."""
    state = {"values": [-11.123456789012345] * 50, "indices": [199] * 50}
    return json.dumps({"state": state, "jobs": [2_000_000] * 150})
