"""The verdicts of a try-out, for people and for scripts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vkbench.errors import (
    EXIT_OK,
    EXIT_REGRESSION,
    NothingToDo,
    VkbenchError,
    WaitTimeout,
    WrongResult,
)
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import hand_over, tell
from vkbench_detection.compare.tryouts import TryVerdict
from vkbench_tables.comparisons import tryout

if TYPE_CHECKING:
    from vkbench_db.database import Database
    from vkbench_detection.compare.tryouts import Tryout


def show_tryout(tried: Tryout, output: Output, *, all_rows: bool, markdown: bool) -> None:
    """Print the verdict on each case that changed, or on all of them, and sum them up."""
    cases = tried.cases if all_rows else tried.changed
    if markdown:
        hand_over(tryout.in_markdown(tried))
    elif cases or output.json or output.csv:
        show(tryout.table(tried, cases), output)
    tell("\n".join(tryout.lines(tried)))


def exit_code_of(tried: Tryout) -> int:
    """0 nothing became worse, 1 slower, 3 wrong, 4 a case fails; NothingToDo if none was timed."""
    counts = tried.counts
    if counts[TryVerdict.WRONG]:
        return WrongResult.exit_code
    if counts[TryVerdict.FAILED]:
        return VkbenchError.exit_code
    if not tried.timed_cases and not counts[TryVerdict.FIXED]:
        raise NothingToDo("no case was timed by both: --all shows why")
    return EXIT_REGRESSION if counts[TryVerdict.SLOWER] else EXIT_OK


def await_rounds(database: Database, run: int, end: float) -> bool:
    """Wait for the fleet's rounds until nothing is open or a moment of the monotonic clock.

    False: it was stopped. Pairs that have not begun by then are cancelled.
    """
    from vkbench_cli.show.waiting import wait_for
    from vkbench_scheduler.planning.tryouts import add_round, cancel_rest

    try:
        while (left := end - time.monotonic()) > 0:
            wait_for(database, run, left)
            if not add_round(database, run):
                return True
    except WaitTimeout:
        pass
    except KeyboardInterrupt:
        return False
    finally:
        cancel_rest(database, run)
    return True
