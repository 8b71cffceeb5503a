"""Progress on stderr: a bar on a terminal, otherwise a line every half minute."""

from __future__ import annotations

import sys
import time
from typing import Any

SILENCE_SECONDS = 30.0  # between lines where there is no terminal


class Progress:
    """A count of finished jobs; a context manager that clears the bar at its end."""

    def __init__(self, total: int, label: str) -> None:
        self._total = total
        self._label = label
        self._bar: Any = None
        self._task: Any = None
        self._told = time.monotonic()

    def __enter__(self) -> Progress:
        if sys.stderr.isatty():
            self._bar = _bar()
            self._task = self._bar.add_task(self._label, total=self._total)
            self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

    def update(self, done: int, words: str = "") -> None:
        """Show that `done` are finished; `words` describe what runs."""
        if self._bar:
            self._bar.update(self._task, completed=done, description=words or self._label)
        elif time.monotonic() - self._told > SILENCE_SECONDS:
            self._told = time.monotonic()
            print(f"{self._label}: {done} of {self._total}", file=sys.stderr)


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    text = TextColumn("{task.description}", markup=False)
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
        text,
    )
    return Bar(*columns, console=Console(stderr=True), transient=True)
