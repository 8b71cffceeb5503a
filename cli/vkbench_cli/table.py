"""The commands of `vkbench`: one row each, so that help is there before any of them loads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One command: what it is called, what it does, where it lives."""

    name: str
    help: str  # one line; the first line of the command's own help
    function: str = ""  # in the module; default: the name
    module: str = ""  # in vkbench_cli.commands; default: the name

    @property
    def home(self) -> tuple[str, str]:
        """Module and attribute that hold the command."""
        return f"vkbench_cli.commands.{self.module or self.name}", self.function or self.name


COMMANDS = (
    Row(name="run", help="Check and time kernels on this machine, with no server."),
    Row(name="exec", help="Run one kernel on your own arrays.", function="execute"),
    Row(name="kernels", help="List kernels with their formats and variants."),
    Row(name="devices", help="List devices, known to the database or found here."),
    Row(name="results", help="Show results, the latest of each case by default."),
    Row(name="compare", help="Compare two runs, bundles, drivers, devices, days or baselines."),
    Row(name="baseline", help="Pin what others are compared with.", function="app"),
    Row(name="noise", help="Show how each series scatters, and which changes it hides."),
    Row(
        name="regressions",
        help="Show what became slower, wrong or faster, and say what is done about it.",
        function="app",
    ),
    Row(name="bisect", help="Find the bundle that made a case slower, or wrong.", function="app"),
    Row(name="report", help="Say what was found, for people who were not there.", function="app"),
    Row(name="query", help="Ask the database a question in SQL; nothing can be changed."),
    Row(name="submit", help="Send work to the devices of the fleet."),
    Row(name="schedule", help="Do work again at times of a cron expression.", function="app"),
    Row(name="calibrate", help="Measure what devices do at most: the roofs of timings."),
    Row(name="jobs", help="List runs, or the jobs of one run."),
    Row(name="cancel", help="Cancel what a run has not finished.", module="steer"),
    Row(name="pause", help="Send no more jobs to a device.", module="steer"),
    Row(name="resume", help="Send jobs to a paused device again.", module="steer"),
    Row(
        name="import",
        help="Read results that another host exported.",
        module="exchange",
        function="import_",
    ),
    Row(
        name="export",
        help="Write a run's results to a file that `import` reads.",
        module="exchange",
    ),
    Row(name="bundle", help="Build and list sets of compiled kernels.", function="app"),
    Row(name="worker", help="Serve one device of this host until stopped.", module="services"),
    Row(
        name="scheduler",
        help="Send jobs to workers and store their results until stopped.",
        module="services",
    ),
    Row(name="db", help="Look after the database.", function="app", module="database"),
    Row(name="doctor", help="Say what is missing on this machine and how to install it."),
    Row(name="selftest", help="Try what this program claims about itself.", function="app"),
)
