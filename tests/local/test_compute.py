"""A computation apart: however its process ends, it is one line here."""

from __future__ import annotations

import sys

import pytest

from vkbench_local.compute import ComputationFailed, answers, ask


@pytest.mark.parametrize(
    ("code", "message", "status"),
    [
        ("import ctypes; ctypes.string_at(0)", "SIGSEGV", 4),
        ("import os; os.abort()", "SIGABRT", 4),
        (
            "import sys; print('chatter\\nno such thing', file=sys.stderr); sys.exit(2)",
            "no such thing",
            2,
        ),
        ("import time; time.sleep(60)", "no answer from the device within 0.5 s", 4),
    ],
    ids=["segfault", "abort", "error", "hang"],
)
def test_every_end_is_one_line(code: str, message: str, status: int) -> None:
    with pytest.raises(ComputationFailed, match=message) as caught:
        ask([sys.executable, "-c", code], 0.5 if "sleep" in code else 20, {})
    assert caught.value.exit_code == status
    assert "\n" not in str(caught.value)


def test_answers_come_as_they_are_said() -> None:
    """The first is here before the process, which says more than a pipe holds, has ended."""
    code = (
        "import sys, time\nprint('one', flush=True)\n"
        "sys.stderr.write('e' * 200_000)\ntime.sleep(60)"
    )
    found = answers([sys.executable, "-c", code], 1.5, {})
    assert next(found) == "one\n"
    with pytest.raises(ComputationFailed, match=r"within 1\.5 s"):
        next(found)
