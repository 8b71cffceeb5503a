"""Exports that a stranger changed: imported, or refused in a sentence that leaves nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from databases import Lab, one_engine
from fuzz import damaged, fuzz, understood_or
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer.exchange import export_run, import_lines, lines_of
from vkbench_db.transfer.lines import KINDS
from vkbench_db.transfer.transcript import Line, _parse, _parse_in_steps
from vkbench_detection.board.lines import BOARD_KINDS


class Undone(Exception):
    """Ends a transaction without a trace."""


def sealed(data: bytes) -> str:
    """The lines with an end that fits them, so that each is read for what it says."""
    body = data.decode(errors="replace").split("\n")[:-1]
    kept = [f"{line}\n" for line in body if not line.startswith('{"end"') and line.strip()]
    jobs = sum(line.startswith('{"job"') for line in kept)
    told = "".join(line.rstrip("\r\n") + "\n" for line in kept)
    sha = hashlib.sha256(told.encode()).hexdigest()
    return told + json.dumps({"end": {"jobs": jobs, "sha256": sha}}) + "\n"


@one_engine
@pytest.mark.parametrize("kinds", [KINDS, BOARD_KINDS], ids=["import", "board"])
def test_a_line_that_is_read_at_once_is_what_steps_make_of_it(
    lab: Lab, kinds: Mapping[str, type[Any]]
) -> None:
    run = lab.submit(lab.add_device(), 1)
    lab.settle(lab.add_device())
    with lab.database.reading() as tx:
        lines = list(export_run(tx, run))
    for line in [*lines, *odd_lines(lines)]:
        compare_ways(line, kinds)
    for line in lines:

        @fuzz
        @given(damaged(line.encode()))
        def check(data: bytes) -> None:
            compare_ways(data.decode(errors="replace"), kinds)
            compare_ways(data.decode(errors="surrogateescape"), kinds)

        check()


def odd_lines(lines: Sequence[str]) -> Iterator[str]:
    """Each line with something that no export has, and two lines as one."""
    for line in lines:
        kind, record = next(iter(json.loads(line).items()))
        yield json.dumps({kind: record, "more": 1})
        yield json.dumps({kind: record | {"more": 1}})
        yield json.dumps({kind: {}})
        yield json.dumps({kind: None})
        yield json.dumps({kind.upper(): record})
        yield f"{line} {line}"
        yield f"{line[:-2]},{line[1:]}"
        yield f" {line}"
        yield line.replace('"', '"\\u0', 1)
        yield line.replace(":", " : ")
        yield line[:1] + " " + line[1:]
        for end in (5, 20, len(line) // 2, len(line) - 2):
            yield line[:end]


def compare_ways(line: str, kinds: Mapping[str, type[Any]]) -> None:
    """Both ways to read a line give equal records, or refuse it in the same words."""

    def read(parse: Callable[..., Line]) -> Line | str:
        try:
            return parse(1, line, kinds)
        except ImportRefused as refusal:
            return str(refusal)

    assert read(_parse) == read(_parse_in_steps)


def test_import_lines(lab: Lab, tmp_path: Path) -> None:
    run = lab.submit(lab.add_device(), 3)
    lab.settle(lab.add_device())
    with lab.database.reading() as tx:
        whole = "".join(export_run(tx, run)).encode()
    path = tmp_path / "export"

    def count(database: Database) -> int:
        with database.reading() as tx:
            tables = schema.TABLES.sorted_tables
            asked = (select(func.count()).select_from(table) for table in tables)
            return sum(tx.execute(each).scalar_one() for each in asked)

    with Database.open(f"sqlite:///{tmp_path / 'other.db'}", create=True) as other:
        before = count(other)

        @fuzz
        @given(damaged(whole) | st.binary(max_size=64), st.booleans())
        def check(data: bytes, is_sealed: bool) -> None:
            path.write_text(sealed(data) if is_sealed else data.decode(errors="replace"))
            with (
                suppress(Undone),
                understood_or(ImportRefused),
                path.open() as file,
                other.transaction() as tx,
            ):
                import_lines(tx, lines_of(file), 1.0)
                raise Undone

        check()
        assert count(other) == before
