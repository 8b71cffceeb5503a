"""Real terminals of some width: for a command in this process, and for one in its own."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

WAIT_SECONDS = 20.0
END = b"\x1c"  # sent last: of what closes at once, a reader may miss the last pieces


@dataclass
class Terminal:
    """A pseudo-terminal that commands print on."""

    text: str = ""
    pieces: list[bytes] = field(default_factory=list)

    def read(self, end: int) -> None:
        """Take what comes until the mark of the end."""
        while not self.pieces or not self.pieces[-1].endswith(END):
            self.pieces.append(os.read(end, 65536))
        self.text = b"".join(self.pieces).removesuffix(END).decode().replace("\r\n", "\n")

    def end(self, theirs: int, reader: threading.Thread) -> None:
        """Close the end that was printed on when all of it has been read."""
        os.write(theirs, END)
        reader.join()
        os.close(theirs)


@contextmanager
def terminal(
    columns: int, patch: pytest.MonkeyPatch, *, errors: bool = False
) -> Iterator[Terminal]:
    """Stdout is a terminal of so many columns; what was printed is there afterwards.

    With `errors`, stderr is the same one.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    found = Terminal()
    reader = threading.Thread(target=found.read, args=(ours,))
    reader.start()
    try:
        with os.fdopen(theirs, "w", closefd=False) as stream, patch.context() as patched:
            patched.delenv("COLUMNS", raising=False)
            patched.setattr(sys, "stdout", stream)
            patched.setattr(sys, "__stdout__", stream)
            if errors:
                patched.setattr(sys, "stderr", stream)
            yield found
    finally:
        found.end(theirs, reader)
        os.close(ours)


def _take_terminal() -> None:
    """Have the keys of the terminal: Ctrl-C too, which a job in the background ignores."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def typed_into(
    words: list[str], *, after: str, key: bytes, env: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run a command in a terminal of its own, and press a key when it has shown some words.

    Says how it ended, and all that the terminal was sent.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    found = Terminal()
    reader = threading.Thread(target=found.read, args=(ours,))
    reader.start()
    environ = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    child = subprocess.Popen(
        words,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**environ, "TERM": "xterm-256color", **(env or {})},
        start_new_session=True,
        preexec_fn=_take_terminal,
    )
    try:
        end = time.monotonic() + WAIT_SECONDS
        while after not in b"".join(found.pieces).decode(errors="replace"):
            assert time.monotonic() < end, b"".join(found.pieces)
            assert child.poll() is None, b"".join(found.pieces)
            time.sleep(0.02)
        os.write(ours, key)
        code = child.wait(WAIT_SECONDS)
    finally:
        child.kill()
        child.wait()
        found.end(theirs, reader)
        os.close(ours)
    return code, found.text
