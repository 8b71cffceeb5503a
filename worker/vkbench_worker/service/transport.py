"""Kombu's Redis transport, but for one thing: what is no message costs itself, and not the worker.

By itself it ends the process over an item that is no JSON, and stays deaf while a key that it uses
holds another type. Here such an item is dropped and such a key deleted. The jobs of a message that
was one all the same are missed by the scheduler, which sends them again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import Any, Final

from kombu.transport import TRANSPORT_ALIASES, redis
from redis.exceptions import RedisError, ResponseError

from vkbench.process import log

PAUSE_SECONDS: Final = 0.05  # after something strange: Redis may have more of it
_MOST_WORDS: Final = 200

_log = logging.getLogger(__name__)


def use() -> None:
    """Have Celery take this transport in this process, however it comes to connect."""
    name = f"{__name__}:{Transport.__name__}"
    TRANSPORT_ALIASES.update({"redis": name, "rediss": name})


class QoS(redis.QoS):
    """What was delivered and is not acknowledged; it lies in Redis, where others may have been."""

    def append(self, message: Any, delivery_tag: str) -> None:
        """Note a message that was delivered."""
        _insist(self.channel, partial(super().append, message, delivery_tag))

    def ack(self, delivery_tag: str) -> None:
        """Forget a message that was done."""
        _insist(self.channel, partial(super().ack, delivery_tag))

    def restore_visible(self, *args: Any, **options: Any) -> None:
        """Deliver again what a worker took and never did."""
        _insist(self.channel, partial(super().restore_visible, *args, **options))

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        """Deliver one message again; it is dropped if it is none."""
        try:
            super().restore_by_tag(tag, client, leftmost)  # type: ignore[no-untyped-call]
        except (ResponseError, *self.channel.connection_errors):
            raise
        except Exception as error:
            _warn(self.channel.unacked_key, error)
            self._remove_from_indices(tag).execute()  # type: ignore[no-untyped-call]


class Channel(redis.Channel):
    """A connection that consumes queues."""

    QoS = QoS

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)  # type: ignore[no-untyped-call]
        except (Empty, *self.connection_errors):
            raise
        except ResponseError as error:
            if not _is_of_other_type(error):
                raise
            clear(self)
        except Exception as error:  # of whatever kombu and Celery stumble over in an item
            _warn(",".join(self.active_queues), error)
            time.sleep(PAUSE_SECONDS)
        raise Empty


class Transport(redis.Transport):
    """Redis as a broker."""

    Channel = Channel


def clear(channel: Any) -> None:
    """Delete each key of a channel that holds another type than it should."""
    with channel.conn_or_acquire() as client:
        for key in [channel._q_for_pri(queue, step) for queue, step in _queues(channel)]:
            _clear_one(client, key, client.llen)
        _clear_one(client, channel.unacked_key, client.hlen)
        _clear_one(client, channel.unacked_index_key, lambda key: client.zrange(key, 0, 0))
        _clear_one(client, channel.unacked_mutex_key, client.get)
    time.sleep(PAUSE_SECONDS)


def _queues(channel: Any) -> Iterator[tuple[str, int]]:
    for queue in channel.active_queues:
        for step in channel.priority_steps:
            yield queue, step


def _clear_one(client: Any, key: str, look: Any) -> None:
    try:
        look(key)
    except ResponseError as error:
        if _is_of_other_type(error):
            _warn(key, error)
            with suppress(RedisError):
                client.delete(key)


def _insist(channel: Any, action: Callable[[], None]) -> None:
    """Do it, and once more if Redis refused it for the type of a key."""
    try:
        action()
    except ResponseError as error:
        if not _is_of_other_type(error):
            raise
        clear(channel)
        action()


def _is_of_other_type(error: Exception) -> bool:
    return "WRONGTYPE" in str(error)


def _warn(key: str, error: Exception) -> None:
    words = f"{type(error).__name__}: {error}"[:_MOST_WORDS]
    log.warn(_log, "redis_strange", key=key, found=words)
