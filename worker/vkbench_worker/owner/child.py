"""A child process that answers in lines; its pipes are read and written without blocking."""

from __future__ import annotations

import logging
import os
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from vkbench.job import Job, Outcome
from vkbench.messages import wire
from vkbench.process import log, system
from vkbench.result import Result
from vkbench_worker.progress import Tell, tell_nobody
from vkbench_worker.protocol import DEVICE_LOST_STATUS, NOTICE, STAGE, Stage, read_line

LONGEST_LINE = 16 << 20  # bytes; all samples of a long timing fit many times over
KEPT_STDERR = 4096  # bytes
PROMPT_SECONDS = 30.0  # how often a wait for a busy device is logged
LOOK_SECONDS = 0.25  # between looks whether an awaited answer is still needed
LAST_WORDS_SECONDS = 2.0  # time to exit once its stdout is closed
MOST_NOTICES = 8  # a user's shader may have a driver write anything

_log = logging.getLogger(__name__)


class Silence(Exception):
    """No line came before the deadline."""


class Gone(Exception):
    """The child has closed its stdout: it ended, or is about to."""


class Babble(Exception):
    """A line is longer than any that is expected, or tells a stage that is none."""


class NoAnswer(Exception):
    """A job gets no answer, for the reason that the message says; its process has to be ended."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class Child:
    """One process, its pipes, and the end of what it said on stderr."""

    def __init__(
        self,
        command: Sequence[str],
        environ: Mapping[str, str],
        tell: Tell = tell_nobody,
        name: str = "it",
        *,
        is_apart: bool = True,
    ) -> None:
        """Start it, in a group of its own; or in this process's, with which it is ended then."""
        self._name = name  # as reasons have it
        self._is_apart = is_apart
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environ,
            process_group=0 if is_apart else None,  # Ctrl-C in a terminal is the parent's to handle
        )
        self._stdin, self._stdout, self._stderr = map(_pipe, self._pipes())
        self._outbox = bytearray()
        self._inbox = bytearray()
        self._scanned = 0  # bytes of the inbox that hold no line end
        self._stderr_ends: deque[bytes] = deque(maxlen=64)
        self._notices = 0
        self._tell = tell
        self._ready = selectors.PollSelector()
        self._ready.register(self._stdout, selectors.EVENT_READ)
        self._ready.register(self._stderr, selectors.EVENT_READ)

    @property
    def pid(self) -> int:
        """The id of the child's process."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        if not hasattr(os, "waitid"):
            return self._process.poll() is None
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT  # its number stays its own until `close`
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self.pid, flags) is None
        return False

    def send(self, data: bytes) -> None:
        """Have `data` written while `line` waits."""
        if not self._outbox:
            self._ready.register(self._stdin, selectors.EVENT_WRITE)
        self._outbox += data

    def send_now(self, data: bytes) -> None:
        """Write `data`, what fits the pipe, without a wait for an answer."""
        self.send(data)
        with suppress(Silence, Gone):
            self._turn(0.0)

    def line(self, deadline: float) -> bytes:
        """The next line without its end that tells no stage, which `tell` hears.

        Raises Silence at the deadline, Gone, or Babble.
        """
        while (line := self._next(deadline)).startswith(STAGE):
            try:
                self._tell(read_line(line.removeprefix(STAGE), Stage))
            except wire.MalformedMessage as error:
                raise Babble(f"a malformed stage: {error}") from error
            if time.monotonic() >= deadline:
                raise Silence
        return line

    def has_line(self) -> bool:
        """Whether a line is there that tells no stage; waits for nothing."""
        with suppress(Silence, Gone):
            self._turn(0.0)
        return b"\n" in self._inbox and not self._inbox.startswith(STAGE)

    def first_line(self, deadline: float | None, selector: str) -> bytes:
        """The first line; a long wait for it, as while others have the device, is logged.

        Raises Silence at the deadline, if there is one, Gone, or Babble.
        """
        while True:
            prompt = time.monotonic() + PROMPT_SECONDS
            try:
                return self.line(min(prompt, deadline or prompt))
            except Silence:
                if deadline and time.monotonic() >= deadline:
                    raise
                log.warn(_log, "device_awaited", selector=selector)

    def answer(
        self,
        job: Job,
        read: Callable[[bytes], Result],
        deadline: float,
        is_over: Callable[[], bool],
    ) -> Result | None:
        """The result of a job that was sent; None once the job is over for whoever sent it.

        Raises NoAnswer at the deadline, or if the process ended or wrote what `read` refuses.
        """
        while not is_over():
            try:
                return read(self.line(min(deadline, time.monotonic() + LOOK_SECONDS)))
            except Silence:
                if time.monotonic() >= deadline:
                    reason = f"no answer within {job.limit_seconds:g} s"
                    raise NoAnswer(Outcome.TIMED_OUT, reason) from None
            except Gone:
                raise NoAnswer(*self.cause_of_death()) from None
            except (Babble, wire.MalformedMessage) as error:
                reason = f"{self._name} sent an invalid line: {error}"
                raise NoAnswer(Outcome.ERROR, reason) from error
        return None

    def _next(self, deadline: float) -> bytes:
        is_late = False
        while True:
            end = self._inbox.find(b"\n", self._scanned)
            if end >= 0:
                line = bytes(self._inbox[:end])
                del self._inbox[: end + 1]
                self._scanned = 0
                return line
            self._scanned = len(self._inbox)
            if self._scanned > LONGEST_LINE:
                raise Babble(f"a line of more than {LONGEST_LINE} bytes")
            if is_late:  # what it writes to stderr may never end
                raise Silence
            self._turn(deadline)
            is_late = time.monotonic() >= deadline

    def kill(self) -> None:
        """End it and all that it started at once; safe from any thread."""
        if not self._is_apart:
            self._process.kill()
            return
        # A contained child cannot leave its group; the kernel stops no fork between two kills.
        with suppress(ProcessLookupError):
            os.killpg(self.pid, system.KILL)

    def wait(self, seconds: float = LAST_WORDS_SECONDS) -> int:
        """Its exit status (negative: signal); it is killed after `seconds`."""
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            status = self._process.wait()
        self._drain()
        return status

    def finish(self, seconds: float) -> None:
        """Have it end by itself after what it was sent, if it does so in time."""
        stdin, *_ = self._pipes()
        stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def cause_of_death(self) -> tuple[Outcome, str]:
        """How it ended, and what it said last."""
        status, words = self.wait(), self.last_words()
        outcome = Outcome.DEVICE_LOST if status == DEVICE_LOST_STATUS else Outcome.CRASHED
        return outcome, f"{ending(status)}: {words}" if words else ending(status)

    def close(self) -> None:
        """End it, and close its pipes."""
        self.kill()
        self._process.wait()
        self._ready.close()
        for pipe in self._pipes():
            pipe.close()

    def last_words(self) -> str:
        """The last line of its stderr; "" if it wrote none."""
        lines = b"".join(self._stderr_ends).decode(errors="replace").split("\n")
        words = (line.strip() for line in reversed(lines) if not line.startswith(NOTICE))
        return next(filter(None, words), "")[:500]

    def _pipes(self) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
        process = self._process
        assert process.stdin
        assert process.stdout
        assert process.stderr
        return process.stdin, process.stdout, process.stderr

    def _turn(self, deadline: float) -> None:
        ready = self._ready.select(max(0.0, deadline - time.monotonic()))
        if not ready:
            raise Silence
        for key, _ in ready:
            if key.fd == self._stdin:
                self._write()
            elif key.fd == self._stderr:
                self._listen()
            else:
                self._read()

    def _write(self) -> None:
        try:
            del self._outbox[: os.write(self._stdin, self._outbox[:65536])]
        except BlockingIOError:
            return
        except BrokenPipeError:  # what it last said is still to be read
            self._outbox.clear()
        if not self._outbox:
            self._ready.unregister(self._stdin)

    def _read(self) -> None:
        data = os.read(self._stdout, 1 << 16)
        if not data:
            raise Gone
        self._inbox += data

    def _listen(self) -> None:
        data = os.read(self._stderr, KEPT_STDERR)
        if data:
            self._stderr_ends.append(data)
            self._pass_on(data)
        else:
            self._ready.unregister(self._stderr)

    def _pass_on(self, data: bytes) -> None:
        for line in data.decode(errors="replace").splitlines():
            if line.startswith(NOTICE) and self._notices < MOST_NOTICES:
                self._notices += 1
                log.warn(_log, "runner_notice", pid=self.pid, words=line.removeprefix(NOTICE))

    def _drain(self) -> None:
        # Bounded: a grandchild that inherited stderr could keep it open and busy.
        for _ in range(64):
            try:
                data = os.read(self._stderr, KEPT_STDERR)
            except BlockingIOError:
                return
            if not data:
                return
            self._stderr_ends.append(data)
            self._pass_on(data)


def ending(status: int) -> str:
    """An exit status for people: the signal's name, or `exit 3`."""
    if status >= 0:
        return f"exit {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def _pipe(stream: IO[bytes]) -> int:
    os.set_blocking(stream.fileno(), False)
    return stream.fileno()
