"""The commands that a page of the documentation shows, and what it shows that they print."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ANYTHING = "..."  # a line of output that stands for others
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_QUESTION = re.compile(r"# [^\n]+\n\n([A-Z][^.?!]*(?:[.!](?! )[^.?!]*)*\?)(?=\s)")
_CODE = re.compile(r"#.*exit code (\d+)")
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_CHANGING = re.compile(  # hashes, numbers and days
    rf"\b[0-9a-f-]{{8,}}\b|\b\d+ (?:{_MONTHS})\b|[\d.,:]+"
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A command as a page shows it."""

    page: Path
    typed: str
    code: int  # that it ends with
    printed: tuple[str, ...]  # lines, some of which stand for others

    def missing(self, printed: str) -> list[str]:
        """The lines of the page that were not printed, numbers and hashes aside."""
        real = [masked(line) for line in printed.splitlines()]
        return [line for line in self.printed if line.strip() and not any(_fits(line, real))]


def _fits(line: str, real: Iterable[str]) -> Iterator[bool]:
    """Whether each of the printed lines is this one."""
    parts = (re.escape(masked(part)) for part in line.split(ANYTHING))
    pattern = re.compile(r"\s*.*\s*".join(parts))
    return (bool(pattern.fullmatch(each)) for each in ("", *real))


def masked(line: str) -> str:
    """A line without what changes from one time to the next."""
    return " ".join(_CHANGING.sub("#", line).split())


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of one language."""
    return [text for found, text in _BLOCK.findall(page.read_text()) if found == language]


def shown(page: Path) -> Iterator[Shown]:
    """The commands of a page, in their order."""
    for block in blocks(page, "console"):
        _, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
        for part in parts:
            typed, *printed = part.replace("\\\n", "").splitlines()
            code = _CODE.search(typed)
            yield Shown(
                page=page,
                typed=typed,
                code=int(code[1]) if code else 0,
                printed=tuple(printed),
            )


def first_question(text: str) -> str:
    """The question that a page begins with, right below its title; "" if it begins otherwise."""
    found = _QUESTION.match(text)
    return " ".join(found[1].split()) if found and "\n\n" not in found[1] else ""
