"""The commands of `vkbench`: one row each, so that help is there before any of them loads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Command:
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
    Command(
        name="run",
        help="Check and time kernels on this machine, with no server.",
        module="measure.run",
    ),
    Command(
        name="exec",
        help="Run one kernel on your own arrays.",
        function="execute",
        module="measure.exec",
    ),
    Command(
        name="shard",
        help="Divide one case among the devices of this machine.",
        module="measure.shard",
    ),
    Command(
        name="kernels", help="List kernels with their formats and variants.", module="ask.kernels"
    ),
    Command(
        name="kernel",
        help="Begin a kernel of your own, and check the file that declares it.",
        function="app",
        module="measure.kernel",
    ),
    Command(
        name="devices",
        help="List the devices of the database, or of this machine.",
        module="ask.devices",
    ),
    Command(
        name="results",
        help="Show results, the latest of each case by default.",
        module="ask.results",
    ),
    Command(
        name="compare",
        help="Compare two runs, bundles, builds, drivers, devices or baselines.",
        module="ask.compare",
    ),
    Command(
        name="baseline",
        help="Name results that later ones are compared with.",
        function="app",
        module="ask.baseline",
    ),
    Command(
        name="noise",
        help="Show the noise of each series, and the smallest change visible in it.",
        module="ask.noise",
    ),
    Command(
        name="plot",
        help="Plot the history of one series, with the points at which it changed.",
        module="ask.plot",
    ),
    Command(
        name="regressions",
        help="List what became slower, wrong or faster, or fails now; acknowledge or close it.",
        function="app",
        module="ask.regressions",
    ),
    Command(
        name="try",
        help="Time two builds of a program in pairs, and say what became slower or wrong.",
        function="try_builds",
        module="programs.tryout",
    ),
    Command(
        name="bisect",
        help="Find the bundle, build, driver or revision that made a case slower, wrong or crash.",
        function="app",
        module="measure.bisect",
    ),
    Command(
        name="report",
        help="Summarise a run, a change or losses; write the lab as a page.",
        function="app",
        module="ask.report",
    ),
    Command(
        name="query",
        help="Query the database in SQL, read-only.",
        module="ask.query",
    ),
    Command(
        name="submit", help="Queue cases for the devices of the fleet.", module="measure.submit"
    ),
    Command(
        name="schedule",
        help="Submit runs again and again, at the times of a cron expression.",
        function="app",
        module="measure.schedule",
    ),
    Command(
        name="calibrate",
        help="Measure the peak rates of devices, which timings are compared with.",
        module="measure.calibrate",
    ),
    Command(
        name="tune",
        help="Find the fastest configurations of kernels by timing them.",
        module="measure.tune",
    ),
    Command(
        name="status",
        help="Show whether the services run, and what waits for which device.",
        module="ask.status",
    ),
    Command(
        name="watch", help="Watch a run, or the whole fleet, until it ends.", module="ask.watch"
    ),
    Command(name="jobs", help="List runs, or the jobs of one run.", module="ask.jobs"),
    Command(name="cancel", help="Cancel the unfinished jobs of a run.", module="measure.steer"),
    Command(
        name="pause",
        help="Stop sending jobs to a device, or to all devices of a host.",
        module="measure.steer",
    ),
    Command(name="resume", help="Send jobs to a paused device again.", module="measure.steer"),
    Command(
        name="import",
        help="Import results that another host exported.",
        module="serve.exchange",
        function="import_",
    ),
    Command(
        name="export",
        help="Export the results of a run to a file that `import` reads.",
        module="serve.exchange",
    ),
    Command(
        name="model",
        help="Work with whole models, as GGUF files hold them.",
        function="app",
        module="measure.model",
    ),
    Command(
        name="accuracy",
        help="Show what each format loses: the error of products, or a model's perplexity.",
        module="measure.accuracy",
    ),
    Command(
        name="board",
        help="Build a site of many labs' exports, which needs no server.",
        function="app",
        module="serve.board",
    ),
    Command(
        name="bundle",
        help="Build and list sets of compiled kernels.",
        function="app",
        module="serve.bundle",
    ),
    Command(
        name="driver",
        help="Add drivers, and time kernels through one or another of them.",
        function="app",
        module="programs.driver",
    ),
    Command(
        name="program",
        help="Keep other programs and their builds, to check and time them.",
        function="app",
        module="programs.program",
    ),
    Command(
        name="worker",
        help="Run the jobs of this host's devices until stopped.",
        module="serve.services",
    ),
    Command(
        name="scheduler",
        help="Send jobs to workers and store their results until stopped.",
        module="serve.services",
    ),
    Command(
        name="web",
        help="Show the results as pages in a browser until stopped.",
        module="serve.web",
    ),
    Command(
        name="mcp",
        help="Answer an agent's questions by the Model Context Protocol on stdin and stdout.",
        module="serve.mcp",
    ),
    Command(
        name="healthy",
        help="Check whether a service of this machine goes on.",
        module="serve.healthy",
    ),
    Command(
        name="token",
        help="Make and revoke tokens, which permit writing by the pages.",
        function="app",
        module="serve.token",
    ),
    Command(
        name="key",
        help="Make the keys that sign messages between workers and schedulers.",
        function="app",
        module="serve.key",
    ),
    Command(
        name="db", help="Create or upgrade the database.", function="app", module="serve.database"
    ),
    Command(
        name="demo",
        help="Show vkbench with the made-up results of a lab: no GPU is needed.",
        module="serve.demo",
    ),
    Command(
        name="doctor",
        help="Check what vkbench needs on this machine, and how to install it.",
        module="serve.doctor",
    ),
    Command(
        name="selftest",
        help="Test the regression detection on synthetic results.",
        function="app",
        module="measure.selftest",
    ),
)
