"""A scheduler that kills itself at a named point, once; with no point it is the real one."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from vkbench.messages.wire import Chunk
from vkbench.process import log
from vkbench.result import Result
from vkbench.settings import settings
from vkbench_db.work.store import record
from vkbench_scheduler import service
from vkbench_scheduler.planning.pairs import PairPlan
from vkbench_scheduler.queue import broker, collect, stream
from vkbench_scheduler.watch import confirm


def die(*_: Any, **__: Any) -> None:
    """kill -9 to ourselves."""
    os.kill(os.getpid(), signal.SIGKILL)


def before_commit() -> None:
    """The collector has written results and not committed them."""

    def record_and_die(tx: Any, results: Sequence[Result], now: float) -> None:
        record(tx, results, now)
        die()

    vars(collect)["record"] = record_and_die


def after_commit() -> None:
    """The collector has committed results that are still pending in the stream."""
    stream.ResultStream.delete_entries = die  # type: ignore[method-assign]


def before_publish() -> None:
    """The dispatcher has marked jobs whose message was never sent."""
    broker.Broker.publish = die  # type: ignore[method-assign]


def mid_publish() -> None:
    """The dispatcher has sent one message of several."""
    publish = broker.Broker.publish

    def publish_one_and_die(self: broker.Broker, chunks: Iterable[Chunk]) -> None:
        publish(self, list(chunks)[:1])
        die()

    broker.Broker.publish = publish_one_and_die  # type: ignore[method-assign]


def wedge() -> None:
    """The collector hangs in its first turn for ever."""
    collect.Collector.turn = lambda self: time.sleep(1e6)  # type: ignore[method-assign,assignment,return-value]


POINTS: dict[str, Callable[[], None]] = {
    "": lambda: None,
    "before_commit": before_commit,
    "after_commit": after_commit,
    "before_publish": before_publish,
    "mid_publish": mid_publish,
    "wedge": wedge,
}


def stepped_clock(offset: Path) -> None:
    """Have the clock be wrong by as many seconds as a file says, while it says so."""
    right = time.time

    def wrong() -> float:
        try:
            return right() + float(offset.read_text() or 0)
        except FileNotFoundError:
            return right()

    time.time = wrong


def short_pairs(seconds: float) -> None:
    """Have confirmations time each arm of a pair for so long: what is planted is plain at once."""
    vars(confirm)["PairPlan"] = partial(PairPlan, measure_seconds=seconds)


if __name__ == "__main__":
    log.set_up(style=settings().log_format)
    if seconds := os.environ.get("PLANTED_PAIR_SECONDS"):
        short_pairs(float(seconds))
    if clock := os.environ.get("PLANTED_CLOCK"):
        stepped_clock(Path(clock))
    POINTS[sys.argv[1]]()
    sys.exit(service.serve(settings()))
