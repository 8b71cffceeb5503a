"""Pairs whose arms do what a test plants, on a device without Vulkan."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from planted_clock import Clock
from vkbench_shaders.bundle import Bundle, entry_key, manifest_text, packaged
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_worker.runtime.null import (
    Function,
    NullBuffer,
    NullDevice,
    NullFlight,
    Shown,
    run_reference,
)
from vkbench_worker.runtime.program import Bytes, Program


def built(case: str, word: bytes) -> Bundle:
    """The packaged kernels, with `word` where a case's code was."""
    posed, bundle = problem(case), packaged()
    [variant, *_] = posed.kernel.variants_for(posed.types)
    key, sha = entry_key(variant, posed.types), hashlib.sha256(word).hexdigest()
    entries = tuple(
        replace(entry, sha256=sha) if entry.key == key else entry
        for entry in bundle.manifest.entries
    )
    text = manifest_text(bundle.manifest.slang, word.decode(), entries, bundle.manifest.interfaces)
    return Bundle(text=text, blobs={**bundle.blobs, sha: word})


class Pair(NullDevice):
    """A device on which each arm's code does what a test plants."""

    def __init__(self, old: Function = run_reference, new: Function = run_reference) -> None:
        super().__init__()
        self.functions = {b"old": old, b"new": new}
        self.ran: list[str] = []  # launches in their order

    def dispatch(self, program: Program, buffers: Sequence[NullBuffer]) -> None:
        self.ran.append(program.code.decode())
        self.function = self.functions[program.code]
        super().dispatch(program, buffers)


class SpoiltFlight(NullFlight):
    """Reads back what is wrong."""

    def bytes_read(self) -> list[Bytes]:
        found = super().bytes_read()
        for piece in found:
            piece[:1] ^= 1
        return found


def after(launches: int, spoilt: Function) -> Function:
    """Right at first."""
    calls = 0

    def function(posed: Problem, shown: Shown) -> None:
        nonlocal calls
        calls += 1
        (run_reference if calls <= launches else spoilt)(posed, shown)

    return function


def off_by_one(posed: Problem, shown: Shown) -> None:
    run_reference(posed, shown)
    shown["y"][7] += np.float32(1)


def taking(clock: Clock, seconds: float) -> Function:
    """Right, and so much later by the clock, however busy this machine is."""

    def function(posed: Problem, shown: Shown) -> None:
        run_reference(posed, shown)
        clock.now += seconds

    return function
