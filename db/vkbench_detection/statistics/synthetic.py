"""Noise as benchmarks have it, seeded: what the detector is tested on.

A number is the logarithm of one job's median over the true time. A series has one a result; the
arms of a confirmation are measured within minutes, so that they share what drifts from day to day.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vkbench_detection.statistics.pairs import arms
from vkbench_detection.statistics.ratios import Floats

PERIOD = 44  # days of a wave
SPIKE = (0.08, 0.30)  # how much slower a disturbed job is


@dataclass(frozen=True, kw_only=True)
class Noise:
    """One kind of noise: parts that add up; a part of 0 is not there."""

    name: str
    sigma: float  # of every job for itself, or of a memory's stationary state
    spikes: float = 0.0  # share of jobs that something disturbed
    modes: float = 0.0  # how far apart two modes are that jobs fall into
    second: float = 0.0  # share of jobs in the slower mode
    memory: float = 0.0  # correlation of one job with the next
    drift: float = 0.0  # sigma of what all jobs of a day share
    drift_memory: float = 0.0  # correlation of one day with the next
    wave: float = 0.0  # sigma of a slow sinusoid that all jobs of a day share
    hours: float = 0.0  # sigma of what the time of day brings: each day's jobs have another
    states: float = 0.0  # how far apart two states of the clock are, one of which a day has
    stay: float = 6.0  # days that a state of the clock lasts on average
    tails: int = 0  # degrees of freedom of Student's t; 0 is normal noise


KINDS = (
    Noise(name="gauss 0.5 %", sigma=0.005),
    Noise(name="gauss 1 %", sigma=0.01),
    Noise(name="gauss 2 %", sigma=0.02),
    Noise(name="spiky 2 %", sigma=0.02, spikes=0.03),
    Noise(name="bimodal 2 %", sigma=0.012, modes=0.035, second=0.3),  # 2 % in all
    Noise(name="AR(1) 2 %", sigma=0.02, memory=0.5),
    Noise(name="day drift 2 %", sigma=0.012, drift=0.016, drift_memory=0.7),
    Noise(name="wave 1 %", sigma=0.002, wave=0.0098),
    Noise(name="wave 2 %", sigma=0.005, wave=0.01936),
    Noise(name="walk 2 %", sigma=0.005, drift=0.01936, drift_memory=0.97),  # returns to its mean
    Noise(name="tails 2 %", sigma=0.02, tails=3),
)


def series(noise: Noise, rng: np.random.Generator, streams: int, length: int) -> Floats:
    """Streams of results, a row each; a result a day."""
    return days(noise, rng, streams, length) + jobs(noise, rng, (streams, length))


def days(noise: Noise, rng: np.random.Generator, streams: int, length: int) -> Floats:
    """What all jobs of a day share, a column a day and a row a stream."""
    logs = _remembering(rng, (streams, length), noise.drift, noise.drift_memory)
    if noise.wave:
        turns = np.arange(length) / PERIOD + rng.random((streams, 1))
        logs = logs + noise.wave * np.sqrt(2) * np.sin(2 * np.pi * turns)
    if noise.hours:
        hours = rng.random((streams, length))
        logs = logs + noise.hours * np.sqrt(2) * np.sin(2 * np.pi * hours)
    if noise.states:
        switches = np.cumsum(rng.random((streams, length)) < 1 / noise.stay, axis=1)
        logs = logs + noise.states * (switches % 2)
    return logs


def pairs(noise: Noise, rng: np.random.Generator, count: int) -> tuple[Floats, Floats]:
    """Times of the old and the new arm of pairs, measured in turn within minutes."""
    measured = jobs(noise, rng, (1, 2 * count))[0]
    order = np.array(arms(count))
    return measured[order == "old"], measured[order == "new"]


def jobs(noise: Noise, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """What each job has for itself."""
    logs = _remembering(rng, shape, noise.sigma, noise.memory)
    if noise.tails:
        logs = rng.standard_t(noise.tails, shape) * noise.sigma / _sigma_of_t(noise.tails)
    if noise.spikes:
        logs = logs + (rng.random(shape) < noise.spikes) * np.log1p(rng.uniform(*SPIKE, shape))
    if noise.modes:
        logs = logs + (rng.random(shape) < noise.second) * np.log1p(noise.modes)
    return logs


def _sigma_of_t(freedom: int) -> float:
    return float(np.sqrt(freedom / (freedom - 2)))


def _remembering(
    rng: np.random.Generator, shape: tuple[int, int], sigma: float, memory: float
) -> Floats:
    """Stationary normal noise in which each column remembers the one before."""
    fresh = rng.normal(size=shape) * sigma
    if not memory:
        return fresh
    from scipy.signal import lfilter

    fresh[:, 1:] *= np.sqrt(1 - memory**2)
    return np.asarray(lfilter([1.0], [1.0, -memory], fresh, axis=1))
