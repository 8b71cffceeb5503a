"""Options of the commands that time two arms in pairs on many cases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from typer import Option

from vkbench.case import parse_shape
from vkbench.errors import UsageError
from vkbench.process.user import user_name
from vkbench.run import RunWords
from vkbench_cli.options.choices import seconds_of
from vkbench_cli.options.effort import RunLabel
from vkbench_cli.options.records import Devices, Formats, Kernels, Shapes, Suite
from vkbench_cli.show.printing import Output
from vkbench_scheduler.planning.selection import AUTO, Selection


@dataclass(frozen=True, kw_only=True)
class TryOptions:
    """Which cases are tried on which devices, for how long, and what is printed."""

    suite: Suite = ""
    kernel: Kernels = field(default_factory=list)
    format: Formats = field(default_factory=list)
    shape: Shapes = field(default_factory=list)
    case: Annotated[
        list[str],
        Option(metavar="NAME", help="Only this case: its full name; may be repeated."),
    ] = field(default_factory=list)
    device: Devices = field(default_factory=list)
    budget: Annotated[
        str,
        Option(
            metavar="TIME",
            help="Begin no pair after this time, and break off one that goes on: seconds, or 10m, "
            "or 1h.",
        ),
    ] = "10m"
    seconds: Annotated[
        float | None,
        Option(
            metavar="S",
            min=0.001,
            help="Seconds to sample each side of a pair; if not given, 0.1 to 0.3, as time allows.",
        ),
    ] = None
    label: RunLabel = ""
    all_rows: Annotated[
        bool, Option("--all/--changed", help="Show cases that did not change too.")
    ] = False
    markdown: Annotated[bool, Option("--markdown", help="Print a comment for a pull request.")] = (
        False
    )

    @property
    def is_open(self) -> bool:
        """Whether no option chooses cases."""
        return not any((self.suite, self.kernel, self.format, self.shape, self.case))

    @property
    def limit_seconds(self) -> float:
        """After how long no pair begins any more."""
        return seconds_of(self.budget, "--budget")

    def say_words(self, old: str, new: str) -> RunWords:
        """What is said of the run of these two arms."""
        return RunWords(user=user_name(), label=self.label or f"try {old} {new}")

    def check(self, output: Output) -> None:
        """UsageError where options ask for output in two forms."""
        if output.json + output.csv + self.markdown > 1:
            raise UsageError("only one of --json, --csv and --markdown can be printed")

    def choose(self, suite: str, variant: str = AUTO) -> Selection:
        """The chosen cases, or those of a suite if no option chooses any."""
        return Selection(
            suite=suite if self.is_open else self.suite,
            kernels=tuple(self.kernel),
            formats=tuple(self.format),
            shapes=tuple(parse_shape(text) for text in self.shape),
            cases=tuple(self.case),
            variant=variant,
            measure_seconds=self.seconds,
        )
