"""The index of a board: one SQLite file with each timing of each export, read once.

The timings of one run and one page are one row, or several where a run has over 12,000. It can be
deleted at any time: the next build reads all exports again.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from vkbench.device import DeviceFacts
from vkbench_detection.board.merging import CLEARING, MERGING
from vkbench_detection.board.packing import RunNumbers, pack_numbers, renumber
from vkbench_detection.board.reading import Bunches, Section, read_sections

VERSION: Final = 2
_CACHED: Final = 20_000  # words whose numbers are kept in memory
_SCHEMA: Final = """
CREATE TABLE file (
  id INTEGER PRIMARY KEY, name TEXT UNIQUE, size INT, changed INT, fault TEXT DEFAULT '',
  first INT DEFAULT 0, last INT DEFAULT -1);
CREATE TABLE section (
  id INTEGER PRIMARY KEY, file INT REFERENCES file, uuid TEXT, sha TEXT, key TEXT, made_at REAL,
  jobs INT, timings INT, first INT, last INT, words BLOB, devices BLOB,
  hidden INT DEFAULT 0, same_as TEXT DEFAULT '');
CREATE INDEX section_file ON section (file);
CREATE TABLE class (id INTEGER PRIMARY KEY, name TEXT UNIQUE, roofs TEXT DEFAULT '');
CREATE TABLE device (
  id INTEGER PRIMARY KEY, key TEXT, class INT, llc_bytes INT, is_cpu INT, UNIQUE (key, class));
CREATE TABLE page (id INTEGER PRIMARY KEY, class INT, case_name TEXT, UNIQUE (class, case_name));
CREATE TABLE word (id INTEGER PRIMARY KEY, text TEXT UNIQUE);
CREATE TABLE bunch (
  id INTEGER PRIMARY KEY, section INT, page INT, kinds BLOB, places BLOB, seconds BLOB);
CREATE TABLE identity (text TEXT);
CREATE TABLE dirty (page INTEGER PRIMARY KEY);
CREATE TABLE shown (
  page INTEGER PRIMARY KEY, timings INT, devices INT, metric TEXT, median REAL, apart INT);
"""


@dataclass(frozen=True, kw_only=True)
class Stamp:
    """How a file is recognised without reading it."""

    size: int
    changed: int  # nanoseconds


class Index:
    """The index of a board, for one process."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self._word = lru_cache(maxsize=_CACHED)(self._find_word)
        self._page = lru_cache(maxsize=_CACHED)(self._find_page)
        self._class = lru_cache(maxsize=_CACHED)(self._find_class)

    @property
    def folder(self) -> Path:
        """Where the index lies."""
        [[_, _, file], *_] = self.connection.execute("PRAGMA database_list").fetchall()
        return Path(file).parent

    @property
    def identity(self) -> str:
        """What tells this index from another that was made in its place."""
        [identity] = self.connection.execute("SELECT text FROM identity").fetchone()
        return str(identity)

    def stamps(self) -> dict[str, Stamp]:
        """The files that the index has, by name."""
        rows = self.connection.execute("SELECT name, size, changed FROM file")
        return {name: Stamp(size=size, changed=changed) for name, size, changed in rows}

    def add(self, name: str, stamp: Stamp, lines: Iterable[str]) -> None:
        """Take a file's timings, all or none; ImportRefused says what is wrong."""
        self.remove(name)
        with self._transaction():
            file = self._insert_file(name, stamp)
            first = self._next("bunch")
            self._insert_sections(file, read_sections(lines))
            last = self._next("bunch") - 1
            changes = (first, last, file)
            self.connection.execute("UPDATE file SET first = ?, last = ? WHERE id = ?", changes)
            self._mark_range(first, last)

    def merge(self, part: Path) -> None:
        """Take all files of another index, which read them, and forget what this one had of them.

        Their bunches, sections and files move up by a number each, and so stay in their ranges.
        """
        with closing(_connect(part)) as other:
            names = other.execute("SELECT name FROM file").fetchall()
        for (name,) in names:
            self.remove(name)
        self.connection.execute("ATTACH ? AS part", (str(part),))
        try:
            with self._transaction():
                for statement in MERGING:
                    self.connection.execute(statement)
                self._renumber()
                for statement in CLEARING:
                    self.connection.execute(statement)
        finally:
            self.connection.execute("DETACH part")

    def refuse(self, name: str, stamp: Stamp, fault: str) -> None:
        """Note that a file cannot be read, so that no build tries again before it changes."""
        self.remove(name)
        with self._transaction():
            self._insert_file(name, stamp, fault)

    def remove(self, name: str) -> None:
        """Forget a file and its timings; pages that had them are to be written again."""
        row = self.connection.execute(
            "SELECT id, first, last FROM file WHERE name = ?", (name,)
        ).fetchone()
        if not row:
            return
        file, first, last = row
        with self._transaction():
            self._mark_range(first, last)
            self.connection.execute("DELETE FROM bunch WHERE id BETWEEN ? AND ?", (first, last))
            self.connection.execute("DELETE FROM section WHERE file = ?", (file,))
            self.connection.execute("DELETE FROM file WHERE id = ?", (file,))

    def choose(self) -> None:
        """Let each run count once, however many files have it.

        If several files hold the same lines or the same run, a signed file counts before an
        unsigned one, then the file with more jobs. So an unsigned file displaces no signed one.
        """
        before = self._list_hidden()
        with self._transaction():
            self.connection.execute("UPDATE section SET hidden = 0, same_as = ''")
            for group in ("sha", "uuid, key", "uuid"):
                self._hide(group, unsigned_alone=group == "uuid")
            moved = before ^ self._list_hidden()
            for section, first, last in self.connection.execute(
                "SELECT id, first, last FROM section"
            ).fetchall():
                if section in moved:
                    self._mark_range(first, last)

    def query(self, sql: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        """Ask the index by a statement that reads."""
        return self.connection.execute(sql, values)

    def write(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Change the index by a statement for each row."""
        with self._transaction():
            self.connection.executemany(sql, rows)

    def _list_hidden(self) -> set[int]:
        rows = self.connection.execute("SELECT id FROM section WHERE hidden")
        return {section for (section,) in rows}

    def _hide(self, group: str, *, unsigned_alone: bool) -> None:
        """Hide all but the best section of each group, and note which file has that one."""
        only = "AND key = ''" if unsigned_alone else ""
        self.connection.execute(
            f"""
            WITH ranked AS (
              SELECT section.id,
                first_value(file.name) OVER best AS winner, row_number() OVER best AS place
              FROM section JOIN file ON file.id = section.file WHERE NOT hidden
              WINDOW best AS (
                PARTITION BY {group} ORDER BY key <> '' DESC, jobs DESC, file.name, section.id))
            UPDATE section SET hidden = 1, same_as = ranked.winner
            FROM ranked WHERE ranked.id = section.id AND place > 1 {only}
            """
        )

    def _insert_file(self, name: str, stamp: Stamp, fault: str = "") -> int:
        made = self.connection.execute(
            "INSERT INTO file (name, size, changed, fault) VALUES (?, ?, ?, ?)",
            (name, stamp.size, stamp.changed, fault),
        )
        return int(made.lastrowid or 0)

    def _next(self, table: str) -> int:
        """The number that the next row of a table gets."""
        sql = f"SELECT coalesce(max(id), 0) + 1 FROM {table}"
        [number] = self.connection.execute(sql).fetchone()
        return int(number)

    def _insert_sections(self, file: int, pieces: Iterable[tuple[Section, Bunches | None]]) -> None:
        """Store bunches of runs, and each run when its last bunch is there."""
        section, first, count, numbers = self._next("section"), self._next("bunch"), 0, RunNumbers()
        for run, bunches in pieces:
            if bunches is not None:
                count += self._insert_bunches(section, run, bunches, numbers)
                continue
            last = self._next("bunch") - 1
            made = (section, file, run.run.uuid, run.sha, run.key, run.run.created_at, run.jobs)
            words = pack_numbers([self._word(text) for text in numbers.words])
            devices = [self._store_device(run.devices[key]) for key in numbers.devices]
            self.connection.execute(
                "INSERT INTO section VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, '')",
                (*made, count, first, last, words, pack_numbers(devices)),
            )
            section, first, count, numbers = section + 1, last + 1, 0, RunNumbers()

    def _insert_bunches(
        self, section: int, run: Section, bunches: Bunches, numbers: RunNumbers
    ) -> int:
        """Store bunches of a run; return how many timings they have."""
        count, rows = 0, []
        for (name, case), bunch in bunches.items():
            if not bunch.seconds:  # of jobs without timings
                continue
            count += len(bunch.seconds)
            page = self._page(self._class(name), case)
            rows.append((section, page, *numbers.pack(bunch)))
        self.connection.executemany("INSERT INTO bunch VALUES (NULL, ?, ?, ?, ?, ?)", rows)
        return count

    def _renumber(self) -> None:
        """Translate numbers of words and devices in the runs of an index that is merged."""
        words, devices = (
            dict(self.connection.execute(f"SELECT old, new FROM {table}_of"))
            for table in ("word", "device")
        )
        moved = [
            (renumber(own_words, words), renumber(own_devices, devices), section)
            for section, own_words, own_devices in self.connection.execute(
                "SELECT id + top.section, words, devices FROM part.section CROSS JOIN top"
            )
        ]
        self.connection.executemany(
            "UPDATE main.section SET words = ?, devices = ? WHERE id = ?", moved
        )

    def _mark_range(self, first: int, last: int) -> None:
        self.connection.execute(
            "INSERT OR IGNORE INTO dirty SELECT DISTINCT page FROM bunch WHERE id BETWEEN ? AND ?",
            (first, last),
        )

    def _find_word(self, text: str) -> int:
        return self._find("word", ("text",), (text,))

    def _find_page(self, class_number: int, case: str) -> int:
        return self._find("page", ("class", "case_name"), (class_number, case))

    def _find_class(self, name: str) -> int:
        return self._find("class", ("name",), (name,))

    def _store_device(self, facts: DeviceFacts) -> int:
        """The number of a device; how large its cache is, its newest export says."""
        device = self._find("device", ("key", "class"), (facts.key, self._class(facts.name)))
        self.connection.execute(
            "UPDATE device SET llc_bytes = ?, is_cpu = ? WHERE id = ?",
            (facts.llc_bytes, facts.type == "cpu", device),
        )
        return device

    def _find(self, table: str, columns: Sequence[str], values: Sequence[Any]) -> int:
        """The number of a row, which is made if it is not there."""
        names, marks = ", ".join(columns), ", ".join("?" * len(columns))
        where = " AND ".join(f"{column} = ?" for column in columns)
        row = self.connection.execute(f"SELECT id FROM {table} WHERE {where}", values).fetchone()
        if row:
            return int(row[0])
        made = self.connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", values)
        return int(made.lastrowid or 0)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.connection.execute("BEGIN")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            for cached in (self._word, self._page, self._class):  # numbers of rows that are gone
                cached.cache_clear()
            raise
        self.connection.execute("COMMIT")


@contextmanager
def open_index(path: Path) -> Iterator[Index]:
    """The index in a file; one of another version of vkbench is made anew."""
    connection = _connect(path)
    try:
        [version] = connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            connection.close()
            path.unlink(missing_ok=True)
            connection = _connect(path)
            connection.executescript(_SCHEMA)
            connection.execute("INSERT INTO identity VALUES (?)", (uuid4().hex,))
            connection.execute(f"PRAGMA user_version = {VERSION}")
        yield Index(connection)
    finally:
        connection.close()


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    # The index can be made again, so a power cut may spoil it; what is sorted goes to the disk.
    for pragma in ("journal_mode = MEMORY", "synchronous = OFF", "temp_store = FILE"):
        connection.execute(f"PRAGMA {pragma}")
    # a cache, and as much again for what is being sorted; each process of a build has both
    connection.execute("PRAGMA cache_size = -4000")
    return connection
