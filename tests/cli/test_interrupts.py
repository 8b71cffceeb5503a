"""Ctrl-C that Python itself would lose: in an import, and where the garbage collector calls."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from vkbench_cli.interrupts import interruptible

WAIT_SECONDS = 20.0
# A module that loses what interrupts it, as the ones in C that look for other modules do.
LOSING = """
import signal
try:
    signal.raise_signal(signal.SIGINT)
except BaseException:
    pass
"""


class Interrupted:
    """An object at whose end Ctrl-C is pressed."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def losing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "planted_losing.py").write_text(LOSING)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "planted_losing", raising=False)
    return "planted_losing"


def load(losing: str) -> None:
    __import__(losing)
    wait_for_interrupt()


def end_object() -> None:
    Interrupted()
    wait_for_interrupt()


def wait_for_interrupt() -> None:
    end = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < end:
        time.sleep(0.01)


def test_an_import_is_not_broken_off_and_the_interrupt_comes_after_it(losing: str) -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        load(losing)
    assert losing in sys.modules


def test_an_interrupt_that_a_clean_up_lost_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        end_object()
    assert capsys.readouterr().err == ""


def test_one_press_interrupts_once(losing: str) -> None:
    with interruptible():
        with pytest.raises(KeyboardInterrupt):
            load(losing)
        time.sleep(0.2)


def test_what_stood_before_stands_again() -> None:
    hook = sys.unraisablehook
    with interruptible():
        assert sys.unraisablehook is not hook
    assert sys.unraisablehook is hook
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_process_that_ignores_interrupts_goes_on_to(handler: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_changes_nothing() -> None:
    handlers = []

    def look() -> None:
        with interruptible():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
