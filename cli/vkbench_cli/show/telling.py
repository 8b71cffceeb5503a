"""Lines of text: on stderr, where everything goes that is no answer, and on stdout.

Whatever a command prints goes through here, or through a table: names in it may be anybody's.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from shutil import get_terminal_size
from textwrap import fill
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, ClassVar, Self, TextIO

from vkbench.words.units import span
from vkbench.words.visible import visible, visible_lines

if TYPE_CHECKING:
    from rich.console import Group

SILENCE_SECONDS = 30.0  # between lines where there is no terminal
PATIENCE_SECONDS = 2.0  # of people, without a sign that something goes on
NARROWEST = 20  # columns of a terminal that tables fit into
_COMMAND = re.compile(r"`[^`]+`")
_NO_BREAK = "\0"  # a space at which no line may break


def tell(text: str) -> None:
    """Print on stderr; on a terminal, lines break between words, and never within a command."""
    width = room(sys.stderr)
    shown = visible_lines(text)
    lines = (_break_line(line, width) for line in shown.splitlines()) if width else [shown]
    print("\n".join(lines), file=sys.stderr, flush=True)


def say(text: str, end: str = "\n") -> None:
    """Print on stdout, for people, what is no table."""
    print(visible_lines(text), end=end, flush=True)


def hand_over(text: str) -> None:
    """Print on stdout, exactly, what another program reads."""
    print(text, end="")


def _break_line(line: str, width: int) -> str:
    whole = _COMMAND.sub(lambda match: match[0].replace(" ", _NO_BREAK), line)
    indent = line[: len(line) - len(line.lstrip())] + "  "
    wrapped = fill(
        whole, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapped.replace(_NO_BREAK, " ")


def room(stream: TextIO) -> int:
    """The columns of the terminal that a stream is, or what COLUMNS says of it; 0 for a file."""
    return max(get_terminal_size().columns, NARROWEST) if stream.isatty() else 0


class Elapsed:
    """How long a wait lasts in which nothing can be counted, such as that for one query.

    A context manager. It says nothing of a short wait, and no more once a Progress shows.
    """

    _shown: ClassVar[list[Elapsed]] = []

    def __init__(self, label: str) -> None:
        self._label = label
        self._began = time.monotonic()
        self._over = Event()
        self._thread = Thread(target=self._tell, daemon=True)

    def __enter__(self) -> Self:
        self._shown.append(self)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.remove(self)
        self._end()

    @classmethod
    def hush(cls) -> None:
        """End what is said of the waits that last."""
        for wait in cls._shown:
            wait._end()

    def _end(self) -> None:
        self._over.set()
        self._thread.join()

    def _tell(self) -> None:
        if self._over.wait(PATIENCE_SECONDS):
            return
        if live := live_view(self.view):
            with live:
                self._over.wait()
            return
        while not self._over.wait(SILENCE_SECONDS):
            tell(self._sentence())

    def _sentence(self) -> str:
        return f"{self._label}: {span(time.monotonic() - self._began)}"

    def view(self) -> Group:
        """What a terminal shows."""
        from rich.console import Group
        from rich.text import Text

        return Group(Text(visible(self._sentence()), no_wrap=True, overflow="ellipsis"))


def live_view(view: Callable[[], Group]) -> Any:
    """A live view on stderr; None where that is no terminal, or one that cannot move its cursor."""
    if not sys.stderr.isatty():
        return None
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    if console.is_dumb_terminal:
        return None
    return Live(get_renderable=view, console=console, transient=True, refresh_per_second=4)
