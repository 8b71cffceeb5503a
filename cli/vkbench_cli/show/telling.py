"""Lines of text: on stderr, where everything goes that is no answer, and on stdout.

Whatever a command prints goes through here, or through a table: names in it may be anybody's.
"""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Callable
from shutil import get_terminal_size
from textwrap import fill
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, ClassVar, Self, TextIO

from vkbench.settings import read_variables
from vkbench.words.units import count_of, span
from vkbench.words.visible import visible, visible_lines

if TYPE_CHECKING:
    from rich.console import Group

SILENCE_SECONDS = 30.0  # between lines where there is no terminal
PATIENCE_SECONDS = 2.0  # of people, without a sign that something goes on
NARROWEST = 20  # columns of a terminal that tables fit into
_JOINT = re.compile(r"(?<=[\s/_,])")  # after which a name may be broken
_COMMAND = re.compile(r"`[^`]+`")
_NO_BREAK = "\0"  # a space at which no line may break


def tell(text: str) -> None:
    """Print on stderr; on a terminal, lines break between words, and never within a command."""
    print(_fit(text, room(sys.stderr)), file=sys.stderr, flush=True)


def say(text: str, end: str = "\n") -> None:
    """Print on stdout, for people, what is no table; lines break as those of `tell` do."""
    print(_fit(text, room(sys.stdout)), end=end, flush=True)


def say_command(what: str, command: str) -> None:
    """Print on stdout what a command is for, and the command, which a shell takes as it stands.

    One that is too long for the terminal goes on after a backslash.
    """
    width = room(sys.stdout)
    line = f"{what}: {command}"
    if width and len(line) > width:
        pieces = [""]
        for word in map(shlex.quote, shlex.split(command)):
            if len(pieces[-1]) + len(word) > width - len(" \\") - 4 and pieces[-1]:
                pieces.append("")
            pieces[-1] += f"{word} "
        line = f"{what}:\n  " + "\\\n    ".join(pieces)
    print(visible_lines(line.rstrip()), flush=True)


def _fit(text: str, width: int) -> str:
    """Text whose lines are no longer than a terminal's of so many columns; 0 leaves it alone."""
    shown = visible_lines(text)
    if not width:
        return shown
    return "\n".join(_break_line(line, width) for line in shown.split("\n"))


def hand_over(text: str) -> None:
    """Print on stdout, exactly, what another program reads."""
    print(text, end="")


def _break_line(line: str, width: int) -> str:
    if len(line) <= width or " " not in line.strip():  # a hash or path alone is to be copied
        return line
    whole = _COMMAND.sub(lambda match: match[0].replace(" ", _NO_BREAK), line)
    indent = line[: len(line) - len(line.lstrip())] + "  "
    wrapped = fill(
        whole, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    lines = (_break_names(line, indent, width) for line in wrapped.split("\n"))
    return "\n".join(lines).replace(_NO_BREAK, " ")


def _break_names(line: str, indent: str, width: int) -> str:
    """A line whose one word is too long in several, broken as tables do; a command stays whole."""
    if len(line) <= width or _NO_BREAK in line:
        return line
    pieces = [line[: len(line) - len(line.lstrip())]]
    for part in _JOINT.split(line.strip()):
        if len(pieces[-1]) + len(part) > width and pieces[-1].strip():
            pieces.append(indent)
        pieces[-1] += part
    return "\n".join(piece.rstrip() for piece in pieces)


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
        if self._over.wait(self._patience()):
            return
        if live := live_view(self.view):
            with live:
                self._over.wait()
            return
        while not self._over.wait(SILENCE_SECONDS):
            tell(self._sentence())

    def _patience(self) -> float:
        """Seconds of silence before the first word."""
        return PATIENCE_SECONDS

    def _sentence(self) -> str:
        return f"{self._label}: {span(time.monotonic() - self._began)}"

    def view(self) -> Group:
        """What a terminal shows."""
        from rich.console import Group
        from rich.text import Text

        return Group(Text(visible(self._sentence()), no_wrap=True, overflow="ellipsis"))


class Doing(Elapsed):
    """What a command does before it can count its work.

    A terminal shows it at once, in a line that moves. Anything else gets a line after a while.
    """

    def __enter__(self) -> Self:
        self._is_moving = _can_move()
        if self._is_moving:  # the live view, which takes a while to load, writes over this
            print(visible(self._label), end="\r", file=sys.stderr, flush=True)
        return super().__enter__()

    @classmethod
    def now(cls, label: str) -> None:
        """Show what is done now, where a command shows such a thing."""
        for wait in cls._shown:
            if isinstance(wait, Doing):
                wait.turn_to(label)

    def turn_to(self, label: str) -> None:
        """Show that this is done now."""
        self._label = label

    def count_kernels(self, done: int, total: int, key: str) -> None:
        """Show how many kernels are compiled; where nothing moves, a line when all are."""
        self._label = f"compiling kernel {min(done + 1, total)} of {total}"
        if done == total and not self._is_moving:
            tell(f"compiled {count_of(total, 'kernel')}")

    def _end(self) -> None:
        was_shown = not self._over.is_set()
        super()._end()
        if self._is_moving and was_shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)

    def _patience(self) -> float:
        return 0.0 if self._is_moving else SILENCE_SECONDS


def _can_move() -> bool:
    """Whether stderr is a terminal that can move its cursor."""
    is_dumb = read_variables().get("TERM", "").lower() in ("", "dumb", "unknown")
    return sys.stderr.isatty() and not is_dumb


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
