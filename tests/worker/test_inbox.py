"""Lines of a pipe: in order, waited for when one is due, never when only looked at."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import pytest

from vkbench_worker.runner.inbox import MOST_LINES, Inbox


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:  # the test has closed it
            continue


def test_what_has_arrived_is_seen_without_being_taken(pipe: tuple[int, int]) -> None:
    out, into = pipe
    inbox = Inbox(out)
    assert inbox.lines_there() == ()
    os.write(into, b"one\ntwo\nthr")
    assert inbox.lines_there() == (b"one", b"two")
    assert next(inbox) == b"one"
    assert inbox.lines_there() == (b"two",)
    os.write(into, b"ee\nfour")
    assert inbox.lines_there() == (b"two", b"three")
    os.close(into)
    assert list(inbox) == [b"two", b"three", b"four"]
    assert inbox.lines_there() == ()


def test_a_due_line_is_waited_for(pipe: tuple[int, int]) -> None:
    out, into = pipe
    threading.Timer(0.1, os.write, (into, b"late\n")).start()
    assert next(Inbox(out)) == b"late"


def test_no_more_is_taken_in_than_a_bounded_number_of_lines(pipe: tuple[int, int]) -> None:
    out, into = pipe
    os.set_blocking(into, False)
    line = b"x" * 999 + b"\n"
    written = seen = 0
    inbox = Inbox(out)
    for _ in range(20):
        try:
            while True:
                written += os.write(into, line)
        except BlockingIOError:
            seen = len(inbox.lines_there())
    assert MOST_LINES <= seen <= MOST_LINES + 66  # a read takes 64 KiB
    assert 1000 * seen < written - 40000  # the rest still is in the pipe
    os.close(into)
    assert sum(len(each) + 1 for each in inbox) in (written, written + 1)
