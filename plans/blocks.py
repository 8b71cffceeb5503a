"""Targets about formats: how small blocks are, and what they lose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from plans.evidence import Evidence, Find, TargetResult, met, not_measured
from vkbench_db.ask.accuracies import AccuracyRow
from vkbench_shaders.formats import PLAIN, format_named
from vkbench_shaders.quantisers.quants import dequantise, quantise


def error_of_blocks(_: Evidence) -> TargetResult:
    """Error of numbers after quantising to Q4_0 and back."""
    values = np.random.default_rng(0).standard_normal((1024, 4096)).astype(np.float32)
    errors = np.abs(dequantise("q4_0", quantise("q4_0", values)) - values)
    largest, mean = float(errors.max()), float(errors.mean())
    return TargetResult(
        standing=met(largest < 0.5),
        measured=f"at most {largest:.3g}, {mean:.3g} on average",
        value=largest,
        how="4,194,304 normal numbers, to blocks and back by gguf",
    )


def compression(format: str, least: float) -> Find:
    """How many times smaller than f32 blocks are, to the decimals of what is wanted."""

    def find(_: Evidence) -> TargetResult:
        found = format_named(format)
        return TargetResult(
            standing=met(round(found.ratio, 1) >= least),
            measured=f"{found.ratio:.3g} times smaller than f32",
            value=found.ratio,
            how=f"{found.bytes} bytes a block of {found.elements}, as gguf has it",
        )

    return find


def saved(format: str, least: float) -> Find:
    """Percent of f32's bytes that blocks save."""

    def find(_: Evidence) -> TargetResult:
        found = format_named(format)
        percent = 100 * (1 - 1 / found.ratio)
        return TargetResult(
            standing=met(round(percent, 1) >= least),
            measured=f"{percent:.1f} % saved",
            value=percent,
            how=f"{found.bytes} bytes a block of {found.elements}, {4 * found.elements} in f32",
        )

    return find


def loss(format: str, most: float) -> Find:
    """Percent that models lose of a text: the greatest loss of those that were read."""

    def find(evidence: Evidence) -> TargetResult:
        read = [
            row
            for row in evidence.losses
            if row.format == format and row.loss is not None and row.base_format in PLAIN
        ]
        if not read:
            command = f"`vkbench accuracy --model FILE --format {format} --text FILE`"
            return not_measured(f"run {command}")
        return _greatest_loss(read, most)

    return find


def _greatest_loss(read: Sequence[AccuracyRow], most: float) -> TargetResult:
    worst = max(read, key=lambda row: row.loss or 0.0)
    percent = 100 * (worst.loss or 0.0)
    error = 100 * (worst.loss_error or 0.0)
    said = "; ".join(
        f"{row.model} {100 * (row.loss or 0.0):.3g} % above {row.base_format}'s, "
        f"{row.perplexity or 0.0:.2f} over {row.tokens} tokens in run {row.run}"
        for row in read
    )
    return TargetResult(
        standing=met(percent < most),
        measured=f"perplexity is {percent:.3g} ± {error:.2g} % higher",
        value=percent,
        how=f"by `vkbench accuracy --model`: {said}",
    )
