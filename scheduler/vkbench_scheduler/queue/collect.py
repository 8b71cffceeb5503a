"""The collector: writes results from the stream to SQL; a batch may be delivered twice."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from vkbench import log
from vkbench.errors import ServiceUnreachable
from vkbench.result import Result
from vkbench_db.database import Database
from vkbench_db.work.store import record
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
        results = [result for _, result in self._entries if result]
        if results:
            self._record(results)
        self._stream.done([name for name, _ in self._entries])
        done, self._entries = len(self._entries), []
        return done

    def _record(self, results: Sequence[Result]) -> None:
        try:
            with self._database.transaction() as tx:
                recorded = record(tx, results, time.time())
        except ServiceUnreachable:
            raise
        except Exception as error:
            # A result that cannot be stored must not block the others.
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
