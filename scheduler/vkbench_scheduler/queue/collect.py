"""The collector: writes results from the stream to SQL; a batch may be delivered twice.

While the database cannot be used, results stay in the stream. What it refuses for its content is
set aside in the table `refused`, and its job ends with the reason.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from vkbench.errors import ServiceUnreachable
from vkbench.job import Outcome
from vkbench.process import log
from vkbench.result import Result
from vkbench_db.database import Database, is_of_schema, reason_of
from vkbench_db.work.refused import Refusal, set_aside
from vkbench_db.work.store import record
from vkbench_scheduler.metrics import counters
from vkbench_scheduler.queue.stream import Entry, ResultStream

_log = logging.getLogger(__name__)


class Collector:
    """Takes entries off the stream once they are recorded."""

    def __init__(self, database: Database, stream: ResultStream) -> None:
        self._database = database
        self._stream = stream
        self._entries: list[Entry] = []  # read and not yet done

    def turn(self) -> int:
        """Record the next batch, after waiting a moment for one; says how many entries that were.

        A batch that could not be recorded is the next turn's; if this process dies, another's.
        """
        self._entries = self._entries or self._stream.read()
        if not self._entries:
            return 0
        self._record(self._entries)
        self._stream.delete_entries([entry.name for entry in self._entries])
        done, self._entries = len(self._entries), []
        return done

    def _record(self, entries: Sequence[Entry]) -> None:
        results = [entry.result for entry in entries if entry.result]
        malformed = [_refusal(entry, entry.trouble) for entry in entries if not entry.result]
        try:
            with self._database.transaction() as tx:
                now = time.time()
                set_aside(tx, malformed, now)
                recorded = record(tx, results, now)
        except ServiceUnreachable:
            raise
        except Exception as error:
            if is_of_schema(error):
                raise  # the results are not at fault, and wait
            if len(entries) > 1:
                for entry in entries:
                    self._record([entry])
            else:
                self._refuse(entries[0], error)
            return
        for refusal in malformed:
            counters.REFUSED.labels("result").inc()
            log.warn(_log, "result_refused", error=refusal.reason)
        counters.count_recorded(results, now)
        log.event(
            _log,
            "results_recorded",
            device=",".join(dict.fromkeys(result.device for result in results)),
            job=log.numbers(result.job for result in results),
            ignored=recorded.ignored,
        )

    def _refuse(self, entry: Entry, error: Exception) -> None:
        """Set a result aside that cannot be stored, and give its job the reason in its place."""
        reason = reason_of(error)
        counters.REFUSED.labels("unrecordable").inc()
        log.warn(_log, "result_refused", job=entry.result and entry.result.job, error=reason)
        now = time.time()
        with self._database.transaction() as tx:
            set_aside(tx, [_refusal(entry, reason)], now)
            if entry.result:
                record(tx, [_instead(entry.result, reason)], now)


def _refusal(entry: Entry, reason: str) -> Refusal:
    job = entry.result.job if entry.result else None
    return Refusal(job_id=job, reason=reason, body=entry.body)


def _instead(result: Result, reason: str) -> Result:
    """The result that replaces one which the database does not accept."""
    return Result(
        job=result.job,
        token=result.token,
        outcome=Outcome.ERROR,
        case=result.case,
        reason=f"the database refuses this result: {reason}",
    )
