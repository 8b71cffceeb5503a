"""Exports that a stranger changed: imported, or refused in a sentence that leaves nothing."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from databases import Lab
from fuzz import damaged, fuzz, understood_or
from vkbench_db import schema
from vkbench_db.database import Database
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer.exchange import export_run, import_lines, lines_of


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
