"""The broker: chunks into the queues of the devices. The only module here that knows Celery."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable

from celery import Celery
from kombu.entity import Exchange, Queue
from kombu.exceptions import OperationalError
from redis import Redis
from redis.exceptions import RedisError

from vkbench import wire
from vkbench.wire import Chunk
from vkbench_scheduler.connection import reached
from vkbench_scheduler.errors import BrokerUnreachable

PROBE = "vk:probe"  # written before anything is picked, to see whether Redis takes writes


class Broker:
    """Publishes chunks, and sees which jobs still wait in a queue."""

    def __init__(self, url: str, redis: Redis) -> None:
        self._redis = redis
        self._app = Celery("vkbench", broker=url, backend=None, set_as_current=False)
        self._app.conf.update(
            task_serializer="json",
            task_ignore_result=True,
            broker_connection_max_retries=0,
            broker_transport_options={
                "socket_timeout": 5,
                "socket_connect_timeout": 5,
                "socket_keepalive": True,
                "health_check_interval": 5,
            },
        )

    def check(self) -> None:
        """Raise BrokerUnreachable when Redis is away or full."""
        with reached():
            self._redis.set(PROBE, 1, ex=5)

    def publish(self, chunks: Iterable[Chunk]) -> None:
        """Send chunks; after BrokerUnreachable some may have arrived: their tokens bear it."""
        try:
            with self._app.producer_pool.acquire(block=True, timeout=10) as producer:
                for chunk in chunks:
                    self._send(chunk, producer)
        except (OperationalError, RedisError, OSError) as error:
            raise BrokerUnreachable(f"cannot send to Redis: {error}") from error

    def queued(self, device: str) -> set[tuple[int, int]]:
        """(job, token) of all that waits in a device's queue."""
        with reached():
            messages = self._redis.lrange(wire.queue_of(device), 0, -1)
        return {pair for message in messages for pair in _jobs_of(message)}

    def close(self) -> None:
        """Close the connections of the publisher."""
        self._app.close()

    def _send(self, chunk: Chunk, producer: object) -> None:
        name = wire.queue_of(chunk.device)
        self._app.send_task(
            wire.CHUNK_TASK,
            args=[wire.to_builtins(chunk)],
            # The anonymous exchange: no binding in Redis that could get lost.
            queue=Queue(name, Exchange(""), routing_key=name),  # type: ignore[no-untyped-call]
            producer=producer,
            retry=False,
            argsrepr="",
            kwargsrepr="",
        )


def _jobs_of(message: bytes | str) -> list[tuple[int, int]]:
    try:
        body = base64.b64decode(json.loads(message)["body"])
        chunk = wire.from_builtins(json.loads(body)[0][0], Chunk)
    except (ValueError, KeyError, IndexError, TypeError, wire.MalformedMessage):
        return []  # not ours; the worker refuses it
    return [(job.id, job.token) for job in chunk.jobs]
