"""What rows of an index name by numbers: texts, runs, and what numbers of a run mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vkbench_detection.board.index import Index
from vkbench_detection.board.packing import PackedKind, unpack_kinds, unpack_numbers


@dataclass(frozen=True, kw_only=True)
class Export:
    """A run of a file, as a page names it."""

    file: str
    key: str  # fingerprint of the key that signed it; "" if it is unsigned
    made_at: float
    timings: int  # on the page


class Words:
    """The texts and runs of an index, each looked up once."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._texts: dict[int, str] = {}
        self._exports: dict[int, tuple[str, str, float]] = {}
        self._numbers: dict[int, tuple[Sequence[int], Sequence[int]]] = {}

    def text(self, number: int) -> str:
        """The text of a number."""
        if (known := self._texts.get(number)) is not None:
            return known
        [text] = self._index.query("SELECT text FROM word WHERE id = ?", (number,)).fetchone()
        self._texts[number] = text
        return str(text)

    def export(self, section: int, timings: int) -> Export:
        """A run of a file, of which a page shows so many timings."""
        if section not in self._exports:
            self._exports[section] = self._index.query(
                "SELECT file.name, key, made_at FROM section JOIN file ON file.id = section.file "
                "WHERE section.id = ?",
                (section,),
            ).fetchone()
        file, key, made_at = self._exports[section]
        return Export(file=file, key=key, made_at=made_at, timings=timings)

    def kinds(self, section: int, packed: bytes) -> list[PackedKind]:
        """The kinds of a bunch of a run, in their places."""
        if (numbers := self._numbers.get(section)) is None:
            sql = "SELECT words, devices FROM section WHERE id = ?"
            words, devices = self._index.query(sql, (section,)).fetchone()
            numbers = self._numbers[section] = (unpack_numbers(words), unpack_numbers(devices))
        return [*unpack_kinds(packed, *numbers)]
