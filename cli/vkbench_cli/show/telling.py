"""Lines of text: on stderr, where everything goes that is no answer, and on stdout."""

from __future__ import annotations

import re
import sys
from shutil import get_terminal_size
from textwrap import fill
from typing import TextIO

from vkbench.visible import visible_lines

NARROWEST = 20  # columns of a terminal that tables fit into
_COMMAND = re.compile(r"`[^`]+`")
_NO_BREAK = "\0"  # a space at which no line may break


def tell(text: str) -> None:
    """Print on stderr; on a terminal, lines break between words, and never within a command."""
    width = room(sys.stderr)
    shown = visible_lines(text)
    lines = (_broken(line, width) for line in shown.splitlines()) if width else [shown]
    print("\n".join(lines), file=sys.stderr, flush=True)


def say(text: str, end: str = "\n") -> None:
    """Print on stdout what is no table; names in it may be anybody's."""
    print(visible_lines(text), end=end)


def _broken(line: str, width: int) -> str:
    whole = _COMMAND.sub(lambda found: found[0].replace(" ", _NO_BREAK), line)
    indent = line[: len(line) - len(line.lstrip())] + "  "
    wrapped = fill(
        whole, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapped.replace(_NO_BREAK, " ")


def room(stream: TextIO) -> int:
    """The columns of the terminal that a stream is, or what COLUMNS says of it; 0 for a file."""
    return max(get_terminal_size().columns, NARROWEST) if stream.isatty() else 0
