"""Markdown tables and summaries for GitHub, chat and mail, cut to the length they accept."""

from __future__ import annotations

from collections.abc import Sequence

from vkbench.words.visible import visible

MOST = 60_000  # characters: GitHub takes 65,536 of a comment or a check
MOST_ROWS = 50  # of a table
APART = "\u200b"  # no @mention and no #issue becomes a link


def table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Sequence[int] = (),
    most: int = MOST_ROWS,
    total: int = 0,
) -> str:
    """A table of cells; columns of numbers are `right`, and what is left out is counted below.

    `total` is how many rows there are where not all of them are given.
    """
    rules = ["--:" if index in right else "---" for index in range(len(headings))]
    lines = [_line(headings), _line(rules), *map(_line, rows[:most])]
    if (left := max(total, len(rows)) - most) > 0:
        lines += ["", f"… and {left} more"]
    return "\n".join(lines) + "\n"


def escape_text(text: str) -> str:
    """Text as one line in which Markdown shows every character as it is."""
    flat = visible(" ".join(text.split()))
    for sign in "\\`*_[]<>|~&":
        flat = flat.replace(sign, f"\\{sign}")
    return flat.replace("@", f"@{APART}").replace("#", f"#{APART}")


def code(text: str) -> str:
    """Text as inline code; backticks in it are replaced."""
    flat = visible(" ".join(text.replace("`", "'").split())).replace("|", "\\|")
    return f"`{flat}`" if flat else ""


def summary(title: str, parts: Sequence[str], *, most: int = MOST) -> str:
    """A heading and parts below it; those that would make it too long are left out, and it says so.

    The gravest part comes first: of one that does not fit, the lines that do are kept.
    """
    note = "\n… cut here: it was too long\n"
    text = f"### {escape_text(title)}\n"
    for part in parts:
        if len(text) + len(part) + 1 > most - len(note):
            return text + _fitting(part, most - len(note) - len(text) - 1) + note
        text += f"\n{part.rstrip()}\n"
    return text


def _fitting(part: str, room: int) -> str:
    kept = part[: max(room, 0)].rpartition("\n")[0]
    return f"\n{kept}\n" if kept else ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
