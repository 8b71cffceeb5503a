"""A table's URL filters, sorts and downloads it, and refuses what it does not know."""

from __future__ import annotations

import csv
import io
import json
import time
from collections.abc import Mapping
from urllib.parse import urlencode

import pytest
from starlette.requests import Request

from vkbench.errors import UnknownName, UsageError
from vkbench_tables.table import Column, Table, ValueKind
from vkbench_web.listing import PAGE_ROWS, Listing, list_table
from vkbench_web.shell import split_names

COLUMNS = (
    Column(key="case", heading="case"),
    Column(key="state", heading="state"),
    Column(key="hot_seconds", heading="hot", kind=ValueKind.SECONDS),
    Column(key="note", heading="note", hidden=True),
)
ROWS = (
    {"case": "copy/f32/n8", "state": "passed", "hot_seconds": 3e-6, "note": "first"},
    {"case": "add/f32/n8", "state": "wrong", "hot_seconds": None, "note": "second"},
    {"case": "copy/f16/n8", "state": "passed", "hot_seconds": 1e-6, "note": "third"},
)


def list_rows(query: str, rows: tuple[Mapping[str, object], ...] = ROWS) -> Listing:
    scope = {"type": "http", "path": "/t", "query_string": query.encode(), "headers": []}
    return list_table(Request(scope), Table(columns=COLUMNS, rows=rows), name="t", own=("own",))


def cases(query: str) -> list[object]:
    return [row["case"] for row in list_rows(query).rows]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ["copy/f32/n8", "add/f32/n8", "copy/f16/n8"]),
        ("case=copy*", ["copy/f32/n8", "copy/f16/n8"]),
        ("case=copy", []),
        ("case=COPY/F16/n8,add*", ["add/f32/n8", "copy/f16/n8"]),
        ("state=wrong", ["add/f32/n8"]),
        ("hot_seconds=%3E2e-6", ["copy/f32/n8"]),
        ("hot_seconds=%3C2e-6", ["copy/f16/n8"]),
        ("hot_seconds=1e-6..2e-6", ["copy/f16/n8"]),
        ("q=f32+passed", ["copy/f32/n8"]),
        ("note=third", ["copy/f16/n8"]),
        ("own=anything", ["copy/f32/n8", "add/f32/n8", "copy/f16/n8"]),
    ],
)
def test_filters(query: str, expected: list[str]) -> None:
    assert cases(query) == expected


def test_every_choice_that_is_offered_finds_its_rows() -> None:
    names = ("llvmpipe (LLVM 15.0.6, 256 bits)", "card [a*]", "card b")
    rows = tuple({"case": name} for name in names for _ in range(2))
    [column] = [column for column in list_rows("", rows).columns if column.key == "case"]
    for name in column.choices:
        listing = list_rows(urlencode({"case": name}), rows)
        assert {row["case"] for row in listing.rows} == {name}
    assert len(column.choices) == 3


def test_clearing_the_filters_keeps_what_is_the_pages_own() -> None:
    narrowed = list_rows("own=7&state=wrong&q=add&page=1&sort=case")
    assert narrowed.is_narrowed
    assert narrowed.whole_url == "/t?own=7"
    assert not list_rows("own=7").is_narrowed
    assert list_rows("state=wrong").whole_url == "/t"


def test_rows_without_a_value_come_last_either_way() -> None:
    assert cases("sort=hot_seconds") == ["copy/f16/n8", "copy/f32/n8", "add/f32/n8"]
    assert cases("sort=-hot_seconds") == ["copy/f32/n8", "copy/f16/n8", "add/f32/n8"]


def test_a_cell_of_no_items_is_no_value_and_comes_last() -> None:
    notes: tuple[list[str], ...] = ([], ["b"], ["a"])
    rows = tuple({"case": str(place), "note": note} for place, note in enumerate(notes))
    for query, order in (("sort=note", ["2", "1", "0"]), ("sort=-note", ["1", "2", "0"])):
        assert [row["case"] for row in list_rows(query, rows).rows] == order


def test_a_heading_sorts_and_turns_round() -> None:
    by = {column.key: column.sort_url for column in list_rows("state=passed").columns}
    assert by["hot_seconds"] == "/t?state=passed&sort=-hot_seconds"  # the largest first
    assert by["case"] == "/t?state=passed&sort=case"
    again = {column.key: column for column in list_rows("sort=case").columns}
    assert again["case"].sort_url == "/t?sort=-case"
    assert again["case"].direction == "ascending"


@pytest.mark.parametrize("query", ["kase=1", "sort=kase", "sort=-"])
def test_an_unknown_column_is_named(query: str) -> None:
    if query == "sort=-":
        assert cases(query) == cases("")
        return
    with pytest.raises(UnknownName, match="kase"):
        list_rows(query)


@pytest.mark.parametrize("query", ["page=0", "page=x", "format=xml", "hot_seconds=fast"])
def test_a_malformed_option_is_refused(query: str) -> None:
    with pytest.raises(UsageError):
        list_rows(query)


def test_a_long_table_has_pages() -> None:
    rows = tuple({"case": f"c{number}"} for number in range(PAGE_ROWS + 1))
    assert len(list_rows("", rows).rows) == PAGE_ROWS
    last = list_rows("page=2", rows)
    assert [row["case"] for row in last.rows] == [f"c{PAGE_ROWS}"]
    assert list_rows("page=99", rows).page == 2
    assert last.url(page=1) == "/t?page=1"
    assert last.url(sort="case") == "/t?sort=case"  # from the first page again


def test_units_stay_while_people_sort_and_turn_pages() -> None:
    rows = tuple({"case": f"c{n}", "hot_seconds": 3e-6 * 1.05**n} for n in range(2 * PAGE_ROWS))
    headings = {
        next(column.heading for column in list_rows(query, rows).columns if column.is_number)
        for query in ("", "sort=hot_seconds", "sort=-hot_seconds", "page=2")
    }
    assert headings == {"hot us"}


def test_downloads_hold_every_row_that_the_filters_leave() -> None:
    answer = list_rows("state=passed&format=csv&sort=case").download()
    assert answer
    rows = list(csv.DictReader(io.StringIO(bytes(answer.body).decode())))
    assert [row["case"] for row in rows] == ["copy/f16/n8", "copy/f32/n8"]
    assert rows[0]["hot_seconds"] == "1e-06"
    answer = list_rows("format=json").download()
    assert answer
    assert [row["note"] for row in json.loads(bytes(answer.body))["rows"]] == [
        "first",
        "second",
        "third",
    ]
    assert list_rows("").download() is None


def test_long_names_break_where_people_expect_it() -> None:
    assert split_names("copy/f32/n8_m4") == ["copy/f32/n8_m4"]  # as short as it is
    long = "flash_attn/q4_0/s1_h64_g8_q512_n7680_d64_e64/mask=causal"
    parts = split_names(long)
    assert parts[:5] == ["flash_", "attn/", "q4_", "0/", "s1_"]
    assert "".join(parts) == long


def test_few_different_texts_are_offered_as_choices() -> None:
    choices = {column.key: column.choices for column in list_rows("").columns}
    assert choices == {"case": [], "state": ["passed", "wrong"], "hot_seconds": []}


def test_moments_are_of_one_clock_and_may_have_other_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        table = Table(
            columns=(Column(key="at", heading="seen", kind=ValueKind.TIME),), rows=({"at": 0.0},)
        )
        request = Request({"type": "http", "path": "/t", "query_string": b"", "headers": []})
        [column] = list_table(request, table, name="t").columns
        assert (column.heading, column.cells) == ("seen (UTC)", ["1970-01-01 00:00"])
        [column] = list_table(
            request, table, name="t", texts={"at": lambda row: "long ago"}
        ).columns
        assert (column.heading, column.cells) == ("seen", ["long ago"])
    finally:
        monkeypatch.undo()
        time.tzset()
