"""Runs llama.cpp's test-backend-ops on one device: finds its backend, has it judge and time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from uuid import UUID

from vkbench import system
from vkbench.device import NVIDIA, DeviceFacts
from vkbench.settings import Settings
from vkbench_worker.owner.child import ending
from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.ggml_file import COLOURS, TABLES, backends_of
from vkbench_worker.peers.llama_cpp.operations import PEER, Operation
from vkbench_worker.peers.llama_cpp.printed import Fields, Printed, rows_of_sql, setting

PROCESSOR: Final = "CPU"  # ggml's backend of that name
TESTS: Final = "test-backend-ops"
_MOST_US: Final = 1e12
_MOST_RUNS: Final = 1 << 40
_ANSWER_SECONDS: Final = 60.0  # to say what it has; the first time a driver compiles a lot
_AHEAD: Final = 16  # numbers behind the one that is known, for operations that came since
_MOST_CODES: Final = 32  # operations of one kind


class Died(CannotDo):
    """The program ended before it was done."""


class TooSlow(Exception):
    """The program did not answer in time."""


@dataclass(frozen=True, kw_only=True)
class Timed:
    """What the program said of one test."""

    seconds: float  # of a run: the mean of all
    runs: int
    build: str  # commit of llama.cpp


def program(name: str, settings: Settings) -> str:
    """The path of one of llama.cpp's programs; CannotDo if it is not there."""
    if path := shutil.which(name, path=settings.ggml or None):
        return path
    where = settings.ggml or "PATH"
    raise CannotDo(f"llama.cpp's {name} is not in {where}: VKBENCH_GGML names its folder")


def environ(facts: DeviceFacts) -> dict[str, str]:
    """The variables by which llama.cpp's backends see this device alone."""
    seen = {"GGML_VK_VISIBLE_DEVICES": str(facts.index), "GGML_NO_BACKTRACE": "1"}
    found = {**os.environ, **seen}
    if facts.vendor_id == NVIDIA:
        found["CUDA_VISIBLE_DEVICES"] = f"GPU-{UUID(facts.uuid)}"
    return found


class TestBackendOps:
    """The program on one backend."""

    def __init__(self, facts: DeviceFacts, settings: Settings) -> None:
        self._path = program(TESTS, settings)
        self._environ = environ(facts)
        self.backend = backend_of(facts, backends_of(self._says("support", "-o", "NONE")))
        self._numbers: dict[tuple[str, int | None], Operation | None] = {}

    def numbered(self, operation: Operation) -> Operation:
        """An operation under the numbers of this version; CannotDo if it has none of that name."""
        key = operation.op, operation.code
        if key not in self._numbers:
            self._numbers[key] = self._search(operation)
        if not (found := self._numbers[key]):
            raise CannotDo(f"this {TESTS} has no operation {operation.op}")
        return operation.numbered(found.number, found.code)

    def complaint(self, operation: Operation, seconds: float) -> str:
        """What its own comparison with its processor's results finds wrong; "" if nothing."""
        text = self._done("test", [operation.line("t")], operation.op, seconds)
        for row in self._tests(operation, text):
            if row.count("passed", 1) == 0:
                said = [line for line in text.splitlines() if line.startswith("[")]
                return " ".join(said)[:200].strip() or row.word("error_message", "test failed")
        return ""

    def timed(self, operation: Operation, seconds: float) -> Timed:
        """Its timing of at least a second."""
        text = self._done("perf", [operation.line("t")], operation.op, seconds)
        [row] = self._tests(operation, text)
        return Timed(
            seconds=row.number_of("time_us", _MOST_US) * 1e-6,
            runs=row.count("n_runs", _MOST_RUNS, 1),
            build=setting(row.word("build_commit", "unknown")),
        )

    def _tests(self, operation: Operation, text: str) -> Sequence[Fields]:
        printed = Printed(Path(self._path), TESTS)
        rows = [Fields(printed, 1, row) for row in rows_of_sql(text, TABLES)]
        if not rows:
            raise CannotDo(f"{TESTS} said nothing of {operation.op}")
        if any(row.count("supported", 1, 1) == 0 for row in rows):
            raise CannotDo(f"{PEER}'s {self.backend} has no {operation.op} of this case")
        return rows

    def _search(self, operation: Operation) -> Operation | None:
        """First where it was, then before and after: a number that is none ends the program."""
        known = operation.number
        codes = [None] if operation.code is None else range(_MOST_CODES)
        for numbers, each in (
            ([known], [operation.code]),
            ([known], codes),
            (range(1, known), codes),
            *((([number], codes)) for number in range(known + 1, known + _AHEAD)),
        ):
            tried = [operation.numbered(number, code) for number in numbers for code in each]
            if found := self._found(tried):
                return found
        return None

    def _found(self, tried: Sequence[Operation]) -> Operation | None:
        """That of several numbers whose name the program says is the operation's."""
        lines = [each.line(f"t{place}", bare=True) for place, each in enumerate(tried)]
        try:
            text = self._done("support", lines, tried[0].op, _ANSWER_SECONDS)
        except Died:
            return None
        named = re.search(r"'name=t(\d+),", text)
        return tried[int(named[1])] if named else None

    def _done(self, mode: str, lines: Iterable[str], op: str, seconds: float) -> str:
        """What it prints of tests, statements of SQL at the beginnings of lines."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "tests.txt")
            file.write_text("".join(f"{line}\n" for line in lines))
            asked = (mode, "--test-file", str(file), "-b", self.backend, "-o", op)
            text = self._says(*asked, "--output", "sql", seconds=seconds)
        return text.replace("INSERT INTO", "\nINSERT INTO")

    def _says(self, *arguments: str, seconds: float = _ANSWER_SECONDS) -> str:
        done = run([self._path, *arguments], self._environ, seconds)
        if "Usage:" in done:  # it does not know an option
            raise CannotDo(f"this {TESTS} is too old: it reads no tests from a file")
        return done


def run(command: Sequence[str], variables: Mapping[str, str], seconds: float) -> str:
    """What a program prints; CannotDo if it cannot or dies, TooSlow if it takes longer."""
    try:
        done = subprocess.run(
            command,
            env=variables,
            capture_output=True,
            timeout=seconds,
            errors="replace",
            # a program of minutes does not outlive a peer that is killed
            preexec_fn=partial(system.end_with, os.getpid()) if system.IS_LINUX else None,
        )
    except subprocess.TimeoutExpired as error:
        raise TooSlow(f"{Path(command[0]).name} took more than {seconds:.0f} s") from error
    except OSError as error:
        raise CannotDo(f"cannot start {command[0]}: {error.strerror}") from error
    if done.returncode not in (0, 1):  # 1: some test failed
        words = next(filter(None, reversed(done.stderr.strip().splitlines())), "")
        how = ending(done.returncode)
        raise Died(f"{Path(command[0]).name} ended with {how}: {words}"[:300])
    return COLOURS.sub("", done.stdout)


def backend_of(facts: DeviceFacts, backends: Mapping[str, str]) -> str:
    """The backend that describes itself as this device; that of processors serves their drivers."""
    named = [name for name, described in backends.items() if described == facts.name]
    if named:
        return min(named, key=lambda name: not name.startswith("Vulkan"))
    if facts.type == "cpu" and PROCESSOR in backends:
        return PROCESSOR
    has = ", ".join(backends) or "none"
    raise CannotDo(f"{PEER} has no backend for {facts.name}: it has {has}")
