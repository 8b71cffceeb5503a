"""Options that say how long a run measures, how it is called, and which history it joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from vkbench.job import MAIN
from vkbench_scheduler.planning.selection import LIMIT_SECONDS, NOISE

RunLabel = Annotated[
    str, Option(metavar="TEXT", help="Label of the run; commands that take a RUN accept it.")
]


@dataclass(frozen=True, kw_only=True)
class Effort:
    """Options that limit the measuring time, and that label and order the run."""

    seconds: Annotated[
        float | None,
        Option(
            metavar="S",
            min=0.001,
            help="Time limit for sampling one metric (hot or cold); default: the suite's.",
        ),
    ] = None
    noise: Annotated[
        float,
        Option(
            metavar="FRACTION",
            min=0.0,
            help="Stop sampling when the confidence interval of the median is within this "
            "fraction of it.",
        ),
    ] = NOISE
    limit: Annotated[
        float,
        Option(metavar="S", min=0.1, help="End a job that runs longer than S seconds."),
    ] = LIMIT_SECONDS
    repeat: Annotated[
        int,
        Option(
            metavar="N",
            min=1,
            help="Run every job N times, checks with other inputs each time; list the seeds with "
            "which a case was wrong.",
        ),
    ] = 1
    priority: Annotated[int, Option(metavar="N", help="Runs of higher priority go first.")] = 0
    label: RunLabel = ""
    track: Annotated[
        str,
        Option(
            metavar="NAME",
            help="History to add the timings to; 'none' keeps a trial out of regression detection.",
        ),
    ] = MAIN
