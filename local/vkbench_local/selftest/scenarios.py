"""What happens in the simulated lab: a row for each kind of trouble, and how to plant it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vkbench_detection.changes.decisions import Cause
from vkbench_detection.statistics.synthetic import KINDS, Noise
from vkbench_local.selftest.rigs import Rig, Step, Stream, stream

QUIET = 45  # nights before anything changes
SPREAD = 15  # nights among which a change falls
AFTER = 25  # nights in which it should be found
NIGHTS = QUIET + SPREAD + AFTER
KERNEL, DRIVER, HOST = Cause.KERNEL, Cause.ENVIRONMENT, Cause.HOST

_BY_NAME = {noise.name: noise for noise in KINDS}
GAUSS_HALF, GAUSS_1, GAUSS_2 = (_BY_NAME[f"gauss {percent} %"] for percent in ("0.5", "1", "2"))
SLOW = tuple(_BY_NAME[name] for name in ("day drift 2 %", "wave 2 %", "walk 2 %"))
CLOCK = Noise(name="clock states", sigma=0.005, states=0.03, stay=3.0)
HOURS = Noise(name="time of day", sigma=0.005, hours=0.01)
SIZES = ((1.03, GAUSS_1), (1.05, GAUSS_2), (1 / 1.03, GAUSS_1), (1 / 1.05, GAUSS_2))

Rng = np.random.Generator
Make = Callable[[str, Rng], Rig]  # by the device's name


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One kind of trouble that a simulated lab has."""

    name: str
    about: str  # in words for people
    series: int  # of a device
    make: Make
    nights: int = NIGHTS
    release: int | None = None  # the night whose run is pinned as a release


def _moment(rng: Rng) -> int:
    return int(rng.integers(QUIET, QUIET + SPREAD))


def _steps(cause: Cause) -> Make:
    """A step of each size that the detection has to see."""

    def make(name: str, rng: Rng) -> Rig:
        streams = [
            stream(number, noise, rng, NIGHTS, steps=[_step(rng, factor, cause)])
            for number, (factor, noise) in enumerate(SIZES)
        ]
        return Rig(name=name, streams=streams, rng=rng)

    return make


def _streams(
    rng: Rng,
    plans: Iterable[Sequence[Step]],
    nights: int = NIGHTS,
    noise: Noise = GAUSS_1,
    touched: Sequence[int] = (),
) -> list[Stream]:
    """A case for each plan; a plan may draw its steps when it is its case's turn."""
    return [
        stream(number, noise, rng, nights, steps=steps, touched=touched)
        for number, steps in enumerate(plans)
    ]


def _small(name: str, rng: Rng) -> Rig:
    """Kernels that are slower or faster by less than is promised: found or not, sizes are true."""
    plans = (
        [Step(night=_moment(rng), factor=factor, cause=KERNEL, is_wanted=False)]
        for factor in (1.01, 1.015, 1.02, 1 / 1.015)
    )
    return Rig(name=name, streams=_streams(rng, plans), rng=rng)


def _step(rng: Rng, factor: float, cause: Cause) -> Step:
    return Step(night=_moment(rng), factor=factor, cause=cause)


def _both(name: str, rng: Rng) -> Rig:
    """Driver and kernels of all cases are new in one night; one, the other or both are slower."""
    night = _moment(rng)
    slower = ((KERNEL,), (DRIVER,), (KERNEL, DRIVER), ())
    plans = [[Step(night=night, factor=1.05, cause=cause) for cause in causes] for causes in slower]
    streams = _streams(rng, plans, touched=(night,))
    return Rig(name=name, streams=streams, updates=(night,), rng=rng)


def _in_four_nights(name: str, rng: Rng) -> Rig:
    """A second change comes four nights after the first."""
    causes = ((KERNEL, KERNEL), (KERNEL, DRIVER), (DRIVER, KERNEL), (DRIVER, DRIVER))
    plans = (
        [
            Step(night=night, factor=1.05, cause=cause)
            for night, cause in zip((first, first + 4), two, strict=True)
        ]
        for two in causes
        for first in (_moment(rng),)
    )
    return Rig(name=name, streams=_streams(rng, plans), rng=rng)


def _returning_driver(name: str, rng: Rng) -> Rig:
    """A driver that is slower, is undone, and comes again after a few good nights."""
    again = 75 + int(rng.choice((5, 8, 12, 14)))
    nights = again + AFTER
    steps = [
        Step(night=45, until=75, factor=1.08, cause=DRIVER),
        Step(night=again, factor=1.08, cause=DRIVER),
    ]
    streams = _streams(rng, [steps] * 2, RETURNS)
    return Rig(name=name, streams=streams, away=frozenset(range(nights, RETURNS)), rng=rng)


RETURNS = 75 + 14 + AFTER


def _fixed_kernels(name: str, rng: Rng) -> Rig:
    """Kernels that are fixed after some nights, or still slower when a driver is faster."""
    streams = []
    for number, lasts in enumerate((10, 18)):
        night = _moment(rng)
        steps = [Step(night=night, until=night + lasts, factor=1.06, cause=KERNEL)]
        streams.append(stream(number, GAUSS_1, rng, FIXED, steps=steps))
    slower = Step(night=_moment(rng), factor=1.06, cause=KERNEL)
    faster = Step(night=slower.night + 15, factor=0.96, cause=DRIVER)
    streams.append(stream(2, GAUSS_1, rng, FIXED, steps=[slower, faster]))
    return Rig(name=name, streams=streams, rng=rng)


FIXED = QUIET + SPREAD + 18 + AFTER


def _harmless(noise: Noise) -> Make:
    """Drivers every twelve nights, kernels every twenty; nothing is slower or faster."""

    def make(name: str, rng: Rng) -> Rig:
        streams = [
            stream(number, noise, rng, NIGHTS, touched=range(15 + 5 * number, NIGHTS, 20))
            for number in range(4)
        ]
        return Rig(name=name, streams=streams, updates=range(12, NIGHTS, 12), rng=rng)

    return make


def _decay(name: str, rng: Rng) -> Rig:
    """Ten bundles, one every third night, each of which is slower by 0.6 %."""
    streams = []
    for number, noise in enumerate((GAUSS_HALF, GAUSS_1)):
        first = _moment(rng)
        steps = [
            Step(night=first + 3 * turn, factor=1.006, cause=KERNEL, is_wanted=turn == 9)
            for turn in range(10)
        ]
        decaying = stream(number, noise, rng, DECAY, steps=steps)
        streams.append(replace(decaying, is_gradual=True))
    return Rig(name=name, streams=streams, rng=rng)


DECAY = NIGHTS + 30


def _in_noise(noise: Noise) -> Make:
    """A kernel that is slower by 6 %, a driver by 6 %, and two cases without a change."""

    def make(name: str, rng: Rng) -> Rig:
        planted = [[_step(rng, 1.06, cause)] for cause in (KERNEL, DRIVER)]
        streams = _streams(rng, [*planted, [], []], noise=noise)
        return Rig(name=name, streams=streams, builds=range(10, NIGHTS, 10), rng=rng)

    return make


def _cold(name: str, rng: Rng) -> Rig:
    """Only cold timings change: by a kernel, and by a driver."""
    streams = [
        stream(
            number,
            GAUSS_1,
            rng,
            NIGHTS,
            steps=[Step(night=_moment(rng), factor=1.05, cause=cause, metrics=("cold",))],
            metrics=("hot", "cold"),
        )
        for number, cause in enumerate((KERNEL, DRIVER))
    ]
    return Rig(name=name, streams=streams, rng=rng)


def _missing_nights(name: str, rng: Rng) -> Rig:
    """Three nights of ten bring no results."""
    away = frozenset(int(n) for n in np.flatnonzero(rng.random(NIGHTS + 30) < 0.3))
    plans = (
        [Step(night=_moment(rng) + 15, factor=factor, cause=cause)]
        for factor, cause in ((1.05, KERNEL), (0.95, KERNEL), (1.05, DRIVER))
    )
    streams = _streams(rng, plans, NIGHTS + 30)
    builds = range(7, NIGHTS + 30, 7)
    return Rig(name=name, streams=streams, builds=builds, away=away, rng=rng)


def _swapped_devices(name: str, rng: Rng) -> Rig:
    """Another device stands in for the old one: every case takes another time."""
    night = _moment(rng)
    plans = (
        [Step(night=night, factor=float(rng.uniform(1.05, 1.15)), cause=HOST)] for _ in range(6)
    )
    streams = _streams(rng, plans)
    return Rig(name=name, streams=streams, builds=range(9, NIGHTS, 9), rng=rng)


def _loaded_host(name: str, rng: Rng) -> Rig:
    """The host is busy with something else for a night or two, now and then."""
    busy = [
        Step(
            night=int(night),
            until=int(night) + int(rng.integers(1, 3)),
            factor=float(rng.uniform(1.05, 1.2)),
            cause=HOST,
            is_wanted=False,
        )
        for night in np.flatnonzero(rng.random(NIGHTS) < 0.03)
    ]
    streams: list[Stream] = [
        stream(number, GAUSS_1, rng, NIGHTS, steps=busy, touched=range(15 + number, NIGHTS, 20))
        for number in range(4)
    ]
    return Rig(name=name, streams=streams, updates=range(12, NIGHTS, 12), rng=rng)


def _quiet_lab(name: str, rng: Rng) -> Rig:
    """Nothing happens at all: the same kernels, the same driver."""
    noises = (GAUSS_HALF, GAUSS_1, GAUSS_2, _BY_NAME["bimodal 2 %"])
    streams = [stream(number, noise, rng, NIGHTS) for number, noise in enumerate(noises)]
    return Rig(name=name, streams=streams, rng=rng)


SCENARIOS = (
    Scenario(
        name="kernel steps", about="3 % at 1 % noise, 5 % at 2 %", series=4, make=_steps(KERNEL)
    ),
    Scenario(name="small steps", about="1 to 2 % at 1 % noise", series=4, make=_small),
    Scenario(
        name="driver steps", about="3 % at 1 % noise, 5 % at 2 %", series=4, make=_steps(DRIVER)
    ),
    Scenario(name="both at once", about="driver and kernel in one night", series=4, make=_both),
    Scenario(name="two in four nights", about="5 %, and 5 % again", series=4, make=_in_four_nights),
    Scenario(
        name="driver returns",
        about="8 % again after 5 to 14 good nights",
        series=2,
        make=_returning_driver,
        nights=RETURNS,
    ),
    Scenario(
        name="kernel fixed",
        about="6 % for 10 and 18 nights; or a faster driver",
        series=3,
        make=_fixed_kernels,
        nights=FIXED,
    ),
    Scenario(
        name="slow decay",
        about="0.6 % a bundle, ten times",
        series=2,
        make=_decay,
        nights=DECAY,
        release=QUIET - 5,
    ),
    Scenario(
        name="clock states",
        about="two clocks 3 % apart; steps of 6 %",
        series=4,
        make=_in_noise(CLOCK),
    ),
    Scenario(
        name="time of day", about="1 % by the hour; steps of 6 %", series=4, make=_in_noise(HOURS)
    ),
    Scenario(
        name="heavy tails",
        about="Student's t; steps of 6 %",
        series=4,
        make=_in_noise(_BY_NAME["tails 2 %"]),
    ),
    Scenario(name="cold only", about="5 % of cold timings", series=4, make=_cold),
    Scenario(
        name="missing nights",
        about="three of ten; steps of 5 %",
        series=3,
        make=_missing_nights,
        nights=NIGHTS + 30,
    ),
    Scenario(
        name="device swapped", about="every case 5 to 15 % slower", series=6, make=_swapped_devices
    ),
    Scenario(name="host load", about="some nights 5 to 20 % slower", series=4, make=_loaded_host),
    *(
        Scenario(
            name=f"harmless, {noise.name[:-4]}",
            about="drivers that change nothing",
            series=4,
            make=_harmless(noise),
        )
        for noise in SLOW
    ),
    Scenario(name="A/A", about="nothing changes", series=4, make=_quiet_lab),
)
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}
