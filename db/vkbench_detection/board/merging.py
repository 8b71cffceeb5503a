"""The statements that take an index which another process made into the index of a board.

Words, classes, devices and pages are found or made, and numbers of them are translated by tables
that are gone afterwards. What belongs to one file alone moves up by as much as there was before.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

_MOVED: Final = ("file", "section", "bunch")
_TABLES: Final = ("word_of", "class_of", "device_of", "page_of", "top")


def _list_statements() -> Iterator[str]:
    for table in ("word", "class", "device", "page"):
        yield f"CREATE TEMP TABLE {table}_of (old INTEGER PRIMARY KEY, new INT)"
    yield "INSERT OR IGNORE INTO word (text) SELECT text FROM part.word ORDER BY id"
    yield (
        "INSERT INTO word_of SELECT part.word.id, main.word.id"
        " FROM part.word JOIN main.word USING (text)"
    )
    yield "INSERT OR IGNORE INTO class (name) SELECT name FROM part.class ORDER BY id"
    yield (
        "INSERT INTO class_of SELECT part.class.id, main.class.id"
        " FROM part.class JOIN main.class USING (name)"
    )
    yield (
        "INSERT INTO device (key, class, llc_bytes, is_cpu)"
        " SELECT key, new, llc_bytes, is_cpu FROM part.device JOIN class_of ON old = class"
        " WHERE true ORDER BY id ON CONFLICT (key, class)"
        " DO UPDATE SET llc_bytes = excluded.llc_bytes, is_cpu = excluded.is_cpu"
    )
    yield (
        "INSERT INTO device_of SELECT one.id, two.id FROM part.device AS one"
        " JOIN class_of ON old = one.class"
        " JOIN main.device AS two ON two.key = one.key AND two.class = new"
    )
    yield (
        "INSERT OR IGNORE INTO page (class, case_name)"
        " SELECT new, case_name FROM part.page JOIN class_of ON old = class ORDER BY id"
    )
    yield (
        "INSERT INTO page_of SELECT one.id, two.id FROM part.page AS one"
        " JOIN class_of ON old = one.class"
        " JOIN main.page AS two ON two.class = new AND two.case_name = one.case_name"
    )
    tops = ", ".join(f"(SELECT coalesce(max(id), 0) FROM main.{name}) AS {name}" for name in _MOVED)
    yield f"CREATE TEMP TABLE top AS SELECT {tops}"
    yield (
        "INSERT INTO file SELECT id + top.file, name, size, changed, fault, first + top.bunch,"
        " last + top.bunch FROM part.file CROSS JOIN top"
    )
    yield (
        "INSERT INTO section SELECT id + top.section, one.file + top.file, uuid, sha, key, made_at,"
        " jobs, timings, first + top.bunch, last + top.bunch, words, devices, hidden, same_as"
        " FROM part.section AS one CROSS JOIN top"
    )
    yield (  # in their order, each page by its number
        "INSERT INTO bunch SELECT one.id + top.bunch, one.section + top.section, page_of.new,"
        " kinds, places, seconds FROM top CROSS JOIN part.bunch AS one"
        " CROSS JOIN page_of ON page_of.old = one.page ORDER BY one.id"
    )
    yield "INSERT OR IGNORE INTO dirty SELECT new FROM page_of"


MERGING: Final = tuple(_list_statements())
CLEARING: Final = tuple(f"DROP TABLE temp.{table}" for table in _TABLES)
