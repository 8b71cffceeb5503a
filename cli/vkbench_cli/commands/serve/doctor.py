"""`vkbench doctor`: checks what vkbench needs on this machine."""

from __future__ import annotations

from vkbench.errors import EXIT_OK, VkbenchError
from vkbench_cli.options.records import Store
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import Elapsed, tell
from vkbench_tables.table import Column, Rank, Table

COLUMNS = (
    Column(key="state", heading="state", rank=Rank.KEY),
    Column(key="check", heading="what", rank=Rank.KEY),
    Column(key="detail", heading="found", prose=True),
    Column(key="optional", heading="optional", prose=True, for_people=True),
    Column(key="fix", heading="how to get it", prose=True),
    Column(key="needed_for", heading="needed for", hidden=True),
)


def doctor(*, store: Store, output: Output) -> int:
    """Check what vkbench needs on this machine, and how to install it.

    What is optional is needed for what its line names, such as fleets, and by nothing else: the
    exit code is 0 if everything that `vkbench run` needs is there.
    """
    from vkbench_local.diagnosis import examine

    with Elapsed("checking"):
        findings = list(examine(store.settings()))
    rows = [
        {
            "check": finding.what,
            "state": "ok" if finding.ok else "missing" if finding.for_run else "optional",
            "detail": finding.detail,
            "optional": "" if finding.ok or finding.for_run else finding.needed_for,
            "fix": "" if finding.ok else finding.fix,
            "needed_for": "run" if finding.for_run else finding.needed_for,
        }
        for finding in findings
    ]
    show(Table(columns=COLUMNS, rows=rows), output)
    missing = [finding.what for finding in findings if finding.for_run and not finding.ok]
    if missing:
        tell(f"`vkbench run` cannot do without: {', '.join(missing)}")
        return VkbenchError.exit_code
    tell("all that `vkbench run` needs is here")
    return EXIT_OK
