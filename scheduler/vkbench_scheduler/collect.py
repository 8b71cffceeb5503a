"""The collector: results from the stream into SQL, in batches that may come twice."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from vkbench import log
from vkbench.errors import ServiceUnreachable
from vkbench.result import Result
from vkbench_db.database import Database
from vkbench_db.store import record
from vkbench_scheduler.stream import ResultStream

_log = logging.getLogger(__name__)


class Collector:
    """Takes entries off the stream once they are recorded."""

    def __init__(self, database: Database, stream: ResultStream) -> None:
        self._database = database
        self._stream = stream

    def turn(self) -> int:
        """Record the next batch, after waiting a moment for one; says how many entries that were.

        What is raised on the way leaves the batch pending in the stream: `read` gives it again.
        """
        entries = self._stream.read()
        if not entries:
            return 0
        results = [result for _, result in entries if result]
        if results:
            self._record(results)
        self._stream.done([name for name, _ in entries])
        return len(entries)

    def _record(self, results: Sequence[Result]) -> None:
        try:
            with self._database.transaction() as tx:
                recorded = record(tx, results, time.time())
        except ServiceUnreachable:
            raise
        except Exception as error:
            # One result that no database can hold must not stop all others.
            if len(results) == 1:
                _log.exception("result_unrecordable", exc_info=error)
                return
            for result in results:
                self._record([result])
            return
        log.event(
            _log,
            "results_recorded",
            logging.DEBUG,
            results=len(results),
            ignored=recorded.ignored,
        )
