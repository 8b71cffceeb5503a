"""Progress on standard error: a bar on a terminal, a line now and then where nobody watches."""

from __future__ import annotations

import sys
import time
from typing import Any

SILENCE_SECONDS = 30.0  # between lines where there is no terminal


class Progress:
    """So many of so many done; a context manager that leaves the terminal clean."""

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
        """So many are done; `words` say what is going on."""
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
