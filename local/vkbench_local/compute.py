"""Runs computations in processes of their own, so that a driver's crash is an error message."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from subprocess import PIPE
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Event, Timer
from typing import Final

import numpy as np
from numpy.typing import NDArray

from vkbench.errors import VkbenchError
from vkbench.settings import Settings
from vkbench_shaders.kernel import Arrays
from vkbench_shaders.models.perplexity import Foreseen
from vkbench_worker.containment import environment
from vkbench_worker.containment.environment import contained_command
from vkbench_worker.owner.child import ending

_ERRANDS: Final = "vkbench_worker.runner.one_shot"


class ComputationFailed(VkbenchError):
    """The computation on a device failed."""


@dataclass(frozen=True, kw_only=True)
class Errand:
    """A computation: the case, its variant and bundle, and the device."""

    case: str  # canonical name
    variant: str
    device: str  # selector
    bundle: str


@dataclass(frozen=True, kw_only=True)
class LogitsErrand:
    """Tokens that a model reads."""

    model: Path
    tokens: tuple[int, ...]
    cache: str  # format of its keys and values
    variant: str
    device: str  # selector
    bundle: str


@dataclass(frozen=True, kw_only=True)
class Computed:
    """The outputs of an errand."""

    outputs: bytes  # an npz file
    variant: str  # code path that ran
    device: str  # name of the device


@dataclass(frozen=True, kw_only=True)
class Text:
    """A text, in windows of tokens, and how a model reads it."""

    windows: NDArray[np.integer]  # (windows, tokens)
    cache: str  # format of keys and values
    variant: str
    device: str  # selector
    bundle: str


def compute(errand: Errand, arrays: Arrays, limit_seconds: float, settings: Settings) -> Computed:
    """Run a kernel on arrays; ComputationFailed has the worker's error or how it ended."""
    with TemporaryDirectory(prefix="vkbench-") as folder:
        given, output = Path(folder, "in.npz"), Path(folder, "out.npz")
        np.savez(given, **dict(arrays))  # type: ignore[arg-type]
        about = ("--case", errand.case, "--output", str(output))
        command = _command("compute", errand, [given], *about, writes=[output.parent])
        return _read_computed(command, output, limit_seconds, settings)


def logits(errand: LogitsErrand, limit_seconds: float, settings: Settings) -> Computed:
    """A model's logits of tokens; ComputationFailed has the worker's error or how it ended."""
    with TemporaryDirectory(prefix="vkbench-") as folder:
        given, output = Path(folder, "in.npy"), Path(folder, "out.npz")
        np.save(given, np.array(errand.tokens))
        model = errand.model.resolve()
        about = ("--model", str(model), "--cache", errand.cache, "--output", str(output))
        command = _command("logits", errand, [given, model], *about, writes=[output.parent])
        return _read_computed(command, output, limit_seconds, settings)


def foreseen(
    model: Path,
    type: str,
    text: Text,
    limit_seconds: float,
    settings: Settings,
    tell_done: Callable[[int], None] = lambda done: None,
) -> Foreseen:
    """How well a file's model foresees all windows, quantised to a type unless that is "".

    `tell_done` is called with how many are done. ComputationFailed says why there is no answer.
    """
    with TemporaryDirectory(prefix="vkbench-") as folder:
        given, model = Path(folder, "windows.npy"), model.resolve()
        np.save(given, text.windows)
        about = ("--model", str(model), "--cache", text.cache, "--type", type)
        command = _command("perplexity", text, [given, model], *about)
        lines = map(json.loads, answers(command, limit_seconds, environment.of(settings)))
        by, windows = next(lines), []
        for window in lines:
            windows.append(window)
            tell_done(len(windows))
    return Foreseen(
        losses=np.concatenate([window["losses"] for window in windows]),
        tokens_per_second=text.windows.shape[1] / median(window["seconds"] for window in windows),
        variant=by["variant"],
        device=by["device"],
    )


def _read_computed(
    command: list[str], output: Path, limit_seconds: float, settings: Settings
) -> Computed:
    words = json.loads(ask(command, limit_seconds, environment.of(settings)))
    return Computed(outputs=output.read_bytes(), variant=words["variant"], device=words["device"])


def _command(
    name: str,
    errand: Errand | LogitsErrand | Text,
    reads: Sequence[Path],
    *about: str,
    writes: Sequence[Path] = (),
) -> list[str]:
    """The command of an errand, whose input is the first file that it reads."""
    where = ("--variant", errand.variant, "--device", errand.device, "--bundle", errand.bundle)
    arguments = (name, *where, "--input", str(reads[0]), *about)
    return contained_command(_ERRANDS, *arguments, reads=reads, writes=writes)


def ask(command: list[str], limit_seconds: float, environ: Mapping[str, str]) -> str:
    """The stdout of a command; ComputationFailed with the last line of its stderr."""
    return "".join(answers(command, limit_seconds, environ))


def answers(command: list[str], limit_seconds: float, environ: Mapping[str, str]) -> Iterator[str]:
    """The lines of a command's stdout as they come; ComputationFailed as of `ask`."""
    late = Event()
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=PIPE, stderr=errors, text=True, env=environ) as process,
    ):

        def end() -> None:
            late.set()
            process.kill()

        timer = Timer(limit_seconds, end)
        timer.start()
        try:
            assert process.stdout
            yield from process.stdout
            process.wait()
        finally:
            timer.cancel()
            process.kill()
        if late.is_set():
            raise ComputationFailed(f"no answer from the device within {limit_seconds:g} s")
        if process.returncode:
            errors.seek(0)
            raise _failure(process.returncode, errors.read())


def _failure(status: int, errors: str) -> ComputationFailed:
    last = (errors.strip().splitlines() or ["no message on stderr"])[-1]
    if status < 0:
        last = f"the driver ended the computation with {ending(status)}: {last}"
    failure = ComputationFailed(last)
    failure.exit_code = status if status > 1 else failure.exit_code
    return failure
