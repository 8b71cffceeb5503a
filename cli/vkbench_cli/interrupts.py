"""Ctrl-C reaches a command wherever it is pressed: Python loses one in imports and clean-ups.

An import that is broken off between taking its lock and the block that returns it blocks all later
ones for ever, and what a callback of the garbage collector raises is printed and forgotten.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

RETRY_SECONDS = 0.02
_IMPORTING = "<frozen importlib."  # begins the names of the files that import modules


@contextmanager
def interruptible() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt once no import is under way, and again if it was lost.

    Does nothing where another thread than the main one asks, or where Ctrl-C is not Python's own.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    print_lost = sys.unraisablehook

    def retry_lost(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            _press_again()
        else:
            print_lost(lost)

    signal.signal(signal.SIGINT, _raise_outside_imports)
    sys.unraisablehook = retry_lost
    try:
        yield
    finally:
        sys.unraisablehook = print_lost
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _raise_outside_imports(signal_number: int, frame: FrameType | None) -> None:
    if _is_importing(frame):
        _press_again()
    else:
        raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    while frame:
        if frame.f_code.co_filename.startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False


def _press_again() -> None:
    # not threading.Thread, whose locks the main thread may hold as the signal comes
    _thread.start_new_thread(_send_interrupt, ())


def _send_interrupt() -> None:
    time.sleep(RETRY_SECONDS)
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
