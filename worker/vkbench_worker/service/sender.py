"""The sender posts results from a thread of its own: a device never waits for Redis."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from redis import Redis
from redis.exceptions import RedisError

from vkbench.job import Outcome
from vkbench.messages import wire
from vkbench.messages.signing import NO_KEYS, Keys
from vkbench.process import log
from vkbench.result import Result
from vkbench_worker.service.connection import persist

MOST_AT_ONCE = 200
PARTING_SECONDS = 10.0  # in which a stopping worker still tries to send its last result

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Message:
    """A result as bytes, ready to be sent."""

    job: int
    token: int
    content: bytes


class Sender:
    """A queue of results and the thread that sends them, at least once each."""

    def __init__(
        self, redis: Redis, sent: Callable[[int, int], None], keys: Keys = NO_KEYS
    ) -> None:
        self._redis = redis
        self._keys = keys
        self._sent = sent  # called with job and token of each result that is in Redis
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._unsent = 0
        self._changed = threading.Condition()
        self._leaving = False
        self._came_at = 0.0  # monotonic, the last result
        threading.Thread(target=self._send_on, name="sender", daemon=True).start()

    def put(self, result: Result) -> None:
        """Queue a result for sending."""
        with self._changed:
            self._unsent += 1
            self._came_at = time.monotonic()
        self._queue.put(_message(result, self._keys))

    def join(self) -> None:
        """Wait until every result is sent, or given up after `leave`."""
        with self._changed:
            self._changed.wait_for(lambda: not self._unsent)

    def leave(self) -> None:
        """Give up on Redis PARTING_SECONDS after the last result, which the running job may bring.

        Jobs with unsent results run again later.
        """
        self._came_at = time.monotonic()
        self._leaving = True

    def _send_on(self) -> None:
        while True:
            batch = [self._queue.get()]
            while not self._queue.empty() and len(batch) < MOST_AT_ONCE:
                batch.append(self._queue.get())
            try:
                self._send_surely(batch)
            except RedisError as error:
                log.warn(
                    _log,
                    "results_given_up",
                    job=log.numbers(message.job for message in batch),
                    error=error,
                )
            with self._changed:
                self._unsent -= len(batch)
                self._changed.notify_all()

    def _send_surely(self, batch: list[Message]) -> None:
        # Also where only people can mend what keeps the results out, such as a key of another type.
        persist(lambda: self._send(batch), "send", self._gave_up, until_mended=True)
        for message in batch:
            self._sent(message.job, message.token)

    def _gave_up(self) -> bool:
        return self._leaving and time.monotonic() > self._came_at + PARTING_SECONDS

    def _send(self, batch: list[Message]) -> None:
        with self._redis.pipeline(transaction=False) as pipe:
            for message in batch:
                pipe.xadd(wire.RESULTS, {wire.RESULT_FIELD: message.content})
            pipe.execute()


def _message(result: Result, keys: Keys) -> Message:
    """A result as it travels; of one that JSON cannot hold, that this is so."""
    try:
        content = wire.pack(result, keys)
    except (TypeError, ValueError) as error:  # a file's name that is no text, in a reason
        refusal = Result(
            job=result.job,
            token=result.token,
            outcome=Outcome.ERROR,
            reason=f"the result cannot be sent: {type(error).__name__}",
        )
        content = wire.pack(refusal, keys)
    return Message(job=result.job, token=result.token, content=content)
