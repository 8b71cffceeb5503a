"""The three printers, compared with what a person or a program should see."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from vkbench_cli.show.printing import Output, show
from vkbench_tables import regressions, series
from vkbench_tables.comparisons import comparison
from vkbench_tables.runs import JOBS, RUNS
from vkbench_tables.table import Column, Table, ValueKind
from vkbench_tables.written.text import column_text, is_shown

COLUMNS = (
    Column(key="case", heading="case"),
    Column(key="device", heading="device", lifted=True),
    Column(key="count", heading="jobs", kind=ValueKind.COUNT),
    Column(key="hot_seconds", heading="hot", kind=ValueKind.SECONDS),
    Column(key="bytes_per_second", heading="moved", kind=ValueKind.BYTE_RATE),
    Column(key="spread", heading="±", kind=ValueKind.PERCENT),
    Column(key="nmse", heading="nmse", kind=ValueKind.NUMBER),
    Column(key="detail", heading="detail", hidden=True),
)
ROWS = (
    {
        "case": "copy/f32/n4096",
        "device": "llvmpipe",
        "count": 1234567,
        "hot_seconds": 1.5e-3,
        "bytes_per_second": 21.5e9,
        "spread": 0.0123,
        "nmse": 0.0,
        "detail": ["a", {"b": 1}],
    },
    {
        "case": "add/f32/n1",
        "device": "llvmpipe",
        "count": 7,
        "hot_seconds": 12.345678e-6,
        "bytes_per_second": None,
        "spread": None,
        "nmse": 3.14e-13,
        "detail": None,
    },
)
TABLE = Table(columns=COLUMNS, rows=ROWS)


def printed(table: Table, **how: bool) -> str:
    stream = io.StringIO()
    show(table, Output(**how), stream)
    return stream.getvalue()


def test_text_has_one_scale_a_column_and_points_under_each_other() -> None:
    lines = printed(TABLE).splitlines()
    assert lines == [
        "device: llvmpipe",
        "case                 jobs   hot ms  moved GB/s     ±      nmse",
        "copy/f32/n4096  1,234,567  1.500         21.50  1.2%  0",
        "add/f32/n1              7  0.01235                    3.14e-13",
    ]


def test_a_column_of_empty_lists_is_left_out() -> None:
    column = Column(key="a", heading="a")
    empty_cells: tuple[object, ...] = (None, "", [], ())
    for empty in empty_cells:
        assert not is_shown(column, [{"a": empty}, {}])
    assert is_shown(column, [{"a": []}, {"a": 0}])
    assert is_shown(column, [{"a": ["b1 third"]}])


def test_no_probability_is_shown_as_zero() -> None:
    column = Column(key="p", heading="p", kind=ValueKind.PROBABILITY)
    rows = [{"p": value} for value in (0.5, 0.0499, 0.001, 0.00099, 1e-12, None)]
    lines = printed(Table(columns=[column], rows=rows)).splitlines()
    assert lines == ["     p", " 0.500", " 0.050", " 0.001", "<0.001", "<0.001", ""]


@pytest.mark.parametrize("columns", [comparison.COLUMNS, regressions.MEMBERS, series.CHANGES])
def test_no_interval_of_a_small_change_seems_to_begin_with_one(columns: Sequence[Column]) -> None:
    row = {"ratio": 1.0152, "ratio_low": 1.0041, "low": 1.0041}
    shown = [column_text(column, [row])[1] for column in columns if column.key in row]
    assert sorted(shown) == [["1.004"], ["1.015"]]


def test_json_keeps_base_units_and_types() -> None:
    answer = json.loads(printed(TABLE, json=True))
    assert answer["schema_version"] == 1
    assert answer["rows"] == list(ROWS)


def test_csv_keeps_every_digit_and_nests_as_json() -> None:
    rows = list(csv.DictReader(io.StringIO(printed(TABLE, csv=True))))
    assert [float(row["hot_seconds"]) for row in rows] == [1.5e-3, 12.345678e-6]
    assert rows[1]["spread"] == ""
    assert json.loads(rows[0]["detail"]) == ["a", {"b": 1}]


def test_json_is_a_valid_document_without_rows() -> None:
    empty = Table(columns=COLUMNS, rows=())
    assert json.loads(printed(empty, json=True)) == {"schema_version": 1, "rows": []}


def test_without_rows_csv_names_its_columns_and_text_says_so(
    capsys: pytest.CaptureFixture[str],
) -> None:
    empty = Table(columns=COLUMNS[:3], rows=())
    assert printed(empty, csv=True) == "case,device,count\n"
    assert capsys.readouterr().err == "nothing to show\n"
    assert printed(replace(empty, nothing="none yet")) == ""
    assert capsys.readouterr().err == "none yet\n"


def test_text_leaves_out_columns_without_a_value() -> None:
    table = Table(columns=COLUMNS[:4], rows=[{"case": "a", "device": "", "count": None}])
    assert printed(table) == "case\na\n"


def test_times_are_utc_for_programs() -> None:
    table = Table(
        columns=[Column(key="at", heading="at", kind=ValueKind.TIME)],
        rows=[{"at": datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp()}],
    )
    assert "2026-02-03T04:05:06+00:00" in printed(table, json=True)


def test_a_value_with_line_ends_stays_one_row() -> None:
    table = Table(columns=COLUMNS[:1], rows=[{"case": "two\nlines"}])
    assert printed(table).splitlines() == ["case", "two lines"]
    assert len(list(csv.reader(io.StringIO(printed(table, csv=True))))) == 2


def test_numbers_that_json_cannot_hold_are_null() -> None:
    table = Table(columns=[COLUMNS[6]], rows=[{"nmse": float("inf")}, {"nmse": float("nan")}])
    rows = json.loads(printed(table, json=True), parse_constant=pytest.fail)["rows"]
    assert rows == [{"nmse": None}, {"nmse": None}]


@pytest.mark.parametrize(
    ("columns", "keys"),
    [
        (RUNS, ["id"]),
        (JOBS, ["id", "run"]),
        (regressions.ROWS, ["id"]),
        (regressions.MEMBERS, ["change", "before_job", "after_job", "series"]),
        (regressions.SUSPECTED, ["change"]),
    ],
)
def test_numbers_that_name_something_can_be_given_to_commands(
    columns: Sequence[Column], keys: list[str]
) -> None:
    named = {column.key: column for column in columns}
    for key in keys:
        assert column_text(named[key], [{key: 12345}])[1] == ["12345"]
