"""Waiting for work of the fleet or of this machine, with a view of how far each device is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from vkbench.errors import WaitTimeout
from vkbench.job import JobState
from vkbench.result import Result
from vkbench.words.units import rate_column
from vkbench_cli.show.pace import Lane, sum_of
from vkbench_cli.show.progress import LOOK_SECONDS, Progress
from vkbench_cli.show.telling import tell
from vkbench_db.ask.devices import tallies
from vkbench_db.ask.devices.tallies import Tally
from vkbench_db.database import Database
from vkbench_db.upkeep.attendance import attendance
from vkbench_tables.absence import absence
from vkbench_worker.protocol import Stage


def wait_for(database: Database, run: int, timeout: float | None = None) -> None:
    """Return when a run has ended; WaitTimeout when that takes longer than `timeout` seconds."""
    _wait(f"run {run}", lambda: run_lanes(database, run), timeout, f"vkbench watch {run}")


def wait_for_fleet(database: Database, since: float, timeout: float | None = None) -> Lane:
    """Return when no device has anything left to do; says what was done since a moment."""

    def look() -> list[Lane]:
        with database.reading() as tx:
            return lanes(tallies.of_fleet(tx, since))

    return _wait("fleet", look, timeout, "vkbench watch")


class RunProgress(Progress):
    """A view of a run of this machine; the executor passes it what it has to tell."""

    def __init__(self, database: Database, run: int) -> None:
        super().__init__(f"run {run}", lambda: run_lanes(database, run))

    def watch(self, result: Result) -> None:
        """Show that a job ended."""
        self.update(result.case)

    def tell(self, stage: Stage) -> None:
        """Show that a job waits for a file, which is made or loaded."""
        unit, (done, total) = rate_column([stage.done, stage.total], "B")
        self.update(f"{stage.what}: {done} of {total} {unit}")


def run_lanes(database: Database, run: int) -> list[Lane]:
    """How far each device is with a run."""
    with database.reading() as tx:
        return lanes(tallies.of_run(tx, run))


def lanes(tallies: Sequence[Tally]) -> list[Lane]:
    """Tallies as a view shows them: host and key tell devices of one name apart."""
    named = [(tally.name, tally.host) for tally in tallies]
    names = [name for name, _ in named]
    return [
        Lane(
            name=_name(
                tally, names.count(tally.name) > 1, named.count((tally.name, tally.host)) > 1
            ),
            total=tally.total,
            done=tally.finished,
            wrong=tally.counts.get(JobState.WRONG, 0),
            failed=tally.counts.get(JobState.FAILED, 0),
            left_seconds=tally.left_seconds,
        )
        for tally in tallies
    ]


def _name(tally: Tally, by_host: bool, by_key: bool) -> str:
    if by_key:
        return f"{tally.host}/{tally.device} {tally.name}"
    return f"{tally.host}/{tally.name}" if by_host else tally.name


def _wait(label: str, look: Callable[[], list[Lane]], timeout: float | None, again: str) -> Lane:
    """Return when all lanes are done; WaitTimeout says what waits for them `again`."""
    end = None if timeout is None else time.monotonic() + timeout
    with Progress(label, look) as progress:
        while not (total := sum_of(progress.see(), label)).is_done:
            if end and time.monotonic() >= end:
                raise WaitTimeout(
                    f"{label}: {total.total - total.done} of {total.total} jobs are unfinished "
                    f"after {timeout:g} s; they continue: `{again}`"
                )
            time.sleep(LOOK_SECONDS)
    return total


def warn(
    database: Database, work: str, *, run: int | None = None, devices: Sequence[str] = ()
) -> None:
    """Print on stderr, in one line, which service has to be started before the work is done.

    The work is what a run has left, or anything on these devices (keys).
    """
    with database.reading() as tx:
        services = attendance(tx, run=run, devices=devices)
    missing = absence(services, time.time())
    if missing:
        tell(f"{work} waits: {missing}")
