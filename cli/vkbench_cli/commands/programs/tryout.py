"""`vkbench try`: two builds of a program timed in pairs, to see what a change does."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from vkbench.errors import EXIT_INTERRUPTED, NothingToDo, UnknownName, UsageError
from vkbench_cli.builds import (
    choose_cases,
    find_for_fleet,
    give_to_fleet,
    kept_builds,
    kept_programs,
)
from vkbench_cli.machine import open_alone
from vkbench_cli.options.records import Store
from vkbench_cli.options.spreading import spread
from vkbench_cli.options.try_options import TryOptions
from vkbench_cli.show.printing import Output
from vkbench_cli.show.telling import Doing
from vkbench_cli.show.tryout import await_rounds, exit_code_of, show_tryout
from vkbench_cli.store import open_database
from vkbench_detection.compare.tryouts import tryout_of
from vkbench_detection.steps import require
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.tryouts import TriedBuilds, submit_tryout

if TYPE_CHECKING:
    from vkbench.device import DeviceFacts
    from vkbench.programs.build import Build
    from vkbench.settings import Settings
    from vkbench_db.database import Database

SUITE = "ggml"


@spread
def try_builds(
    *,
    program: Annotated[
        str,
        Argument(metavar="PROGRAM", help="The program; `vkbench program ls` lists them."),
    ],
    old: Annotated[
        str, Option("--old", metavar="BUILD", help="The build to compare with: its name or hash.")
    ],
    new: Annotated[
        str, Option("--new", metavar="BUILD", help="The build with the change: its name or hash.")
    ],
    options: TryOptions,
    submit: Annotated[
        bool, Option("--submit", help="Let the fleet's workers do it, and wait for them.")
    ] = False,
    store: Store,
    output: Output,
) -> int:
    """Time two builds of a program in pairs, and say what became slower or wrong.

    Each case is timed in turns, old, new, new, old, each build in a process that stays, and both
    are judged at every visit. Cases that seem to have changed are measured again until that is
    certain or the time is over; what is left of it goes to the others.

    Without options that choose cases, these are the suite `ggml`, or all cases of a program that
    has its own.

    \b
    vkbench try ggml-vulkan --old b8121 --new mine
    vkbench try ggml-vulkan --old b8121 --new mine --budget 5m --markdown
    vkbench try ggml-vulkan --old b8121 --new mine --device '*' --submit

    Exit codes: 0 nothing became worse, 1 slower, 3 wrong, 4 a case fails, 7 nothing was compared,
    130 interrupted.
    """
    options.check(output)
    require()
    end = time.monotonic() + options.limit_seconds
    settings = store.settings()
    opened = open_database(settings) if submit else open_alone(settings)
    with Doing("looking for both builds"), opened as database:
        lab = _Fleet(database) if submit else _Here(database, settings)
        builds = _choose_builds(lab, program, old, new)
        chosen = choose_cases(options.choose(SUITE), builds.new, is_open=options.is_open)
        run = lab.begin(builds, chosen, options)
        ended = lab.time_rounds(run, end)
        with database.reading() as tx:
            tried = tryout_of(tx, run, old=builds.old.label, new=builds.new.label)
    show_tryout(tried, output, all_rows=options.all_rows, markdown=options.markdown)
    return exit_code_of(tried) if ended else EXIT_INTERRUPTED


class _Here:
    """The devices of this machine, with no server."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._devices: Sequence[DeviceFacts] = ()

    def find(self, word: str, program: str = "") -> Build:
        """The build of a name, among those of a program, or all, kept here."""
        return kept_builds(self._settings).find(word, program)

    def begin(self, builds: TriedBuilds, selection: Selection, options: TryOptions) -> int:
        """Store a first round on the chosen devices; the number of its run."""
        from vkbench_db.work.devices import store_device
        from vkbench_local.machine import chosen_devices

        Doing.now("loading the driver")
        self._devices = chosen_devices(list(options.device), self._settings)
        with self._database.transaction() as tx:
            for facts in self._devices:
                store_device(tx, facts)
        words = options.say_words(builds.old.label, builds.new.label)
        run = submit_tryout(
            self._database,
            builds,
            selection,
            self._devices,
            words,
            limit_seconds=options.limit_seconds,
        )
        return run.id

    def time_rounds(self, run: int, end: float) -> bool:
        """Time pairs until nothing is open or a moment of the monotonic clock; False: stopped."""
        from vkbench_cli.show.waiting import RunProgress
        from vkbench_local.tryout import time_rounds

        view = partial(RunProgress, self._database)
        seconds = end - time.monotonic()
        return time_rounds(self._database, self._settings, run, self._devices, seconds, view)


class _Fleet:
    """The devices that workers serve."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, word: str, program: str = "") -> Build:
        """The build of a name, of a program or any, kept here or known to the database."""
        return find_for_fleet(self._database, word, program)

    def begin(self, builds: TriedBuilds, selection: Selection, options: TryOptions) -> int:
        """Store a first round on the chosen devices; the number of its run."""
        from vkbench_cli.show.waiting import warn
        from vkbench_db.ask import queries
        from vkbench_db.ask.devices.names import served_keys

        with self._database.reading() as tx:
            known = [row.facts for row in queries.devices(tx)]
            keys = tuple(served_keys(tx, options.device))
        give_to_fleet((builds.old, builds.new))
        chosen = replace(selection, devices=keys)
        words = options.say_words(builds.old.label, builds.new.label)
        limit = options.limit_seconds
        run = submit_tryout(self._database, builds, chosen, known, words, limit_seconds=limit).id
        warn(self._database, f"run {run}", run=run)
        return run

    def time_rounds(self, run: int, end: float) -> bool:
        """Wait for rounds until nothing is open or a moment of the monotonic clock."""
        return await_rounds(self._database, run, end)


def _choose_builds(lab: _Here | _Fleet, program: str, old: str, new: str) -> TriedBuilds:
    """The two builds that were named; an error if they are one, or of another program."""
    from vkbench.settings import settings

    known = kept_programs(settings()).find(program)
    builds = TriedBuilds(
        old=_find_build(lab, old, known.name), new=_find_build(lab, new, known.name)
    )
    if builds.old.sha == builds.new.sha:
        raise NothingToDo(f"{old} and {new} have the same files: there is nothing to compare")
    return builds


def _find_build(lab: _Here | _Fleet, word: str, program: str) -> Build:
    """The build of a program that a word means; UsageError where it is another program's."""
    try:
        return lab.find(word, program)
    except UnknownName as unknown:
        try:
            other = lab.find(word)
        except UsageError:
            raise unknown from None
        reason = f"{other.label} is a build of {other.program}, not of {program}"
        raise UsageError(reason) from unknown
