"""The lines of a pipe, one at a time, with a look at those that came early."""

from __future__ import annotations

import os
import select
from collections import deque
from collections.abc import Sequence
from typing import Final

MOST_LINES: Final = 64  # that are taken in before their turn
_CHUNK: Final = 1 << 16


class Inbox:
    """An iterator over the lines of a file descriptor."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._lines: deque[bytes] = deque()
        self._begun = b""  # a line whose end has not come
        self._ended = False

    def __iter__(self) -> Inbox:
        return self

    def __next__(self) -> bytes:
        """The next line, for which it waits."""
        while not self._lines and not self._ended:
            self._read()
        if not self._lines:
            raise StopIteration
        return self._lines.popleft()

    def lines_there(self) -> Sequence[bytes]:
        """The lines that come next, as far as they are there; waits for nothing."""
        while len(self._lines) < MOST_LINES and not self._ended and self._is_ready():
            self._read()
        return tuple(self._lines)

    def _is_ready(self) -> bool:
        poll = select.poll()
        poll.register(self._file, select.POLLIN)
        return bool(poll.poll(0))

    def _read(self) -> None:
        data = os.read(self._file, _CHUNK)
        self._ended = not data
        *whole, self._begun = (self._begun + data).split(b"\n")
        self._lines += whole
        if self._ended and self._begun:
            self._lines.append(self._begun)
