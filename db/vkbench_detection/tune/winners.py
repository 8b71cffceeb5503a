"""The winner among configurations that were timed several times each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vkbench.job import JobState
from vkbench_db.upkeep.tuning import Trial

# Another place in the code cache alone can make a kernel so much faster or slower.
LEAST_GAIN = 0.02


@dataclass(frozen=True, kw_only=True)
class Timed:
    """A configuration of a case, and its timings; none unless each of its results was right."""

    configuration: str
    seconds: tuple[float, ...]  # of each round
    low: float  # least and greatest ends of the medians' intervals
    high: float
    reason: str = ""  # why it has no timings

    @property
    def typical(self) -> float:
        """The median over the rounds."""
        return median(self.seconds)


@dataclass(frozen=True, kw_only=True)
class Standing:
    """All configurations of a case on a device: the estimated one, and the one to take."""

    timed: Sequence[Timed]  # in the order of the sweep
    estimated: Timed | None  # None where none has timings
    best: Timed | None


def standings(trials: Iterable[Trial]) -> Mapping[tuple[str, str], Standing]:
    """How the configurations of each device (key) and case stand."""
    grouped: dict[tuple[str, str], dict[str, list[Trial]]] = {}
    for trial in trials:
        of_case = grouped.setdefault((trial.device, trial.case), {})
        of_case.setdefault(trial.configuration, []).append(trial)
    return {
        place: standing([_summarise_rounds(name, rounds) for name, rounds in of_case.items()])
        for place, of_case in grouped.items()
    }


def standing(timed: Sequence[Timed]) -> Standing:
    """The best configuration is the estimated one, unless another is faster beyond the noise.

    Of many equals the luckiest looks the fastest. So a configuration wins if each of its rounds
    was faster than each of the estimated one's, with the whole intervals of their medians, and by
    LEAST_GAIN.
    """
    right = [timing for timing in timed if timing.seconds]
    if not right:
        return Standing(timed=timed, estimated=None, best=None)
    estimated, fastest = right[0], min(right, key=lambda timing: timing.typical)
    wins = fastest.high < estimated.low and (
        max(fastest.seconds) < min(estimated.seconds) * (1 - LEAST_GAIN)
    )
    return Standing(timed=timed, estimated=estimated, best=fastest if wins else estimated)


def _summarise_rounds(name: str, rounds: Sequence[Trial]) -> Timed:
    failed = next((trial for trial in rounds if trial.state != JobState.PASSED), None)
    seconds = tuple(trial.seconds for trial in rounds if trial.seconds)
    if failed or not seconds:
        reason = f"{failed.state}: {failed.reason}" if failed else "no time"
        return Timed(configuration=name, seconds=(), low=0.0, high=0.0, reason=reason)
    return Timed(
        configuration=name,
        seconds=seconds,
        low=min(trial.low for trial in rounds if trial.low is not None),
        high=max(trial.high for trial in rounds if trial.high is not None),
    )
