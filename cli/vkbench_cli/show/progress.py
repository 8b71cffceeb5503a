"""Progress on stderr: a live view on a terminal, otherwise a line every half minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar

from vkbench.words.visible import visible
from vkbench_cli.show.pace import (
    Lane,
    Pace,
    by_lane,
    format_rate,
    remaining,
    sentence,
    sum_of,
    trouble,
)
from vkbench_cli.show.telling import SILENCE_SECONDS, Elapsed, live_view, tell

if TYPE_CHECKING:
    from rich.console import Group
    from rich.table import Table

LOOK_SECONDS = 0.5  # between looks for a live view
BAR_COLUMNS = 16
OTHER_LINES = 4  # of a terminal, that bars leave free

T = TypeVar("T")
Look = Callable[[], Sequence[Lane]]


class Progress:
    """Shows how far some work is; calls `look` when there is reason to show it.

    A context manager: the live view is gone at its end.
    """

    def __init__(self, label: str, look: Look) -> None:
        self._label = label
        self._look = look
        self._lanes: Sequence[Lane] = ()
        self._pace = Pace()
        self._paces: dict[str, Pace] = {}
        self._words = ""
        self._live: Any = None
        self._told_at = self._looked = time.monotonic()

    def __enter__(self) -> Self:
        Elapsed.hush()
        self.see()
        if live := live_view(self.view):
            self._live = live
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def update(self, words: str = "") -> None:
        """Look again, if the last look is old; `words` describe what runs."""
        self._words = words
        if time.monotonic() - self._looked >= (LOOK_SECONDS if self._live else SILENCE_SECONDS):
            self.see()

    def see(self) -> Sequence[Lane]:
        """Look again, and say what was seen; a line now and then where nothing is live."""
        now = self._looked = time.monotonic()
        self._lanes = self._look()
        self._pace.see(now, sum_of(self._lanes, self._label))
        for lane in self._lanes:
            self._paces.setdefault(lane.name, Pace()).see(now, lane)
        if not self._live and now - self._told_at >= SILENCE_SECONDS:
            self._told_at = now
            tell(self._sentence() + by_lane(self._lanes))
        return self._lanes

    def _sentence(self) -> str:
        return sentence(self._label, self._lanes, self._pace.rate, self._seconds_left())

    def _seconds_left(self) -> float | None:
        """Seconds until all is done, whether devices work one after the other or at once."""
        now = time.monotonic()
        ways = [
            self._pace.seconds_left(now),
            *(pace.seconds_left(now) for pace in self._paces.values()),
        ]
        return max((way for way in ways if way is not None), default=None)

    def view(self) -> Group:
        """What a terminal shows: a sentence, a bar for each device, and what runs."""
        from rich.console import Group
        from rich.text import Text

        sentence = Text(visible(self._sentence()), no_wrap=True, overflow="ellipsis")
        runs = Text(f"  {visible(self._words)}", style="dim", no_wrap=True, overflow="ellipsis")
        return Group(sentence, self._bars(), *([runs] if self._words else []))

    def _bars(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
        table.add_column(width=BAR_COLUMNS)
        for _ in range(4):
            table.add_column(justify="right", no_wrap=True)
        now = time.monotonic()
        shown = self._lanes_to_show()
        for lane in shown:
            pace = self._paces[lane.name]
            table.add_row(
                Text(f"  {visible(lane.name)}"),
                ProgressBar(total=max(lane.total, 1), completed=lane.done, width=BAR_COLUMNS),
                f"{lane.done}/{lane.total}",
                ", ".join(trouble(lane)),
                format_rate(pace.rate) if not lane.is_done else "",
                remaining(pace.seconds_left(now)) if not lane.is_done else "done",
            )
        if more := len(self._lanes) - len(shown):
            table.add_row(f"  and {more} more")
        return table

    def _lanes_to_show(self) -> Sequence[Lane]:
        """The lanes that the terminal has lines for, those that have ended last."""
        from shutil import get_terminal_size

        most = max(get_terminal_size().lines - OTHER_LINES, 1)
        return sorted(self._lanes, key=lambda lane: lane.is_done)[:most]


class CountedProgress(Progress):
    """Shows how far some work is that reports by itself how much is done."""

    def __init__(self, label: str, total: int) -> None:
        self._total, self._done = total, 0
        super().__init__(label, self._count)

    def tell(self, done: int, words: str = "") -> None:
        """Show that so much is done; `words` describe what comes next."""
        self._done = done
        self.update(words)

    def count(self, done: int, total: int) -> None:
        """Show that `done` of a `total` that was not known before are finished."""
        self._total = total
        self.tell(done)

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """These items one after the other, counted as they are taken."""
        for done, item in enumerate(items):
            self.tell(done)
            yield item
        self.tell(self._total)

    def _count(self) -> Sequence[Lane]:
        return [Lane(name="", total=self._total, done=self._done)]
