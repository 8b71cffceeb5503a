"""The broker: sends chunks to the queues of devices. Only this module imports Celery."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from celery import Celery
from kombu.entity import Exchange, Queue
from kombu.exceptions import OperationalError
from kombu.transport.redis import PRIORITY_STEPS, Channel
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from vkbench.errors import VkbenchError
from vkbench.messages import wire
from vkbench.messages.redis_client import SOCKET_OPTIONS, tls_options, without_tls_options
from vkbench.messages.signing import BARE, NO_KEYS, PROTOCOL, Keys
from vkbench.messages.wire import Chunk
from vkbench_scheduler.errors import BrokerUnreachable
from vkbench_scheduler.queue.border import clear_lists, is_of_other_type, reach_redis

MOST_QUEUED = 2000  # messages that are read of each end of a queue; a window has a few
PROBE = "vk:probe"  # written before anything is picked, to see whether Redis takes writes


class Broker:
    """Publishes chunks, and lists the jobs that wait in a queue."""

    def __init__(self, url: str, redis: Redis, keys: Keys = NO_KEYS) -> None:
        self._redis = redis
        self._keys = keys
        self.protocols: Mapping[str, int] = {}  # device -> what its worker reads, if not PROTOCOL
        place = without_tls_options(url)
        self._app = Celery("vkbench", broker=place, backend=None, set_as_current=False)
        self._app.conf.update(
            broker_use_ssl=tls_options(url) or None,
            task_serializer="json",
            task_ignore_result=True,
            broker_connection_max_retries=0,
            broker_transport_options=dict(SOCKET_OPTIONS),
        )

    def check(self) -> None:
        """Raise BrokerUnreachable when Redis is away or full."""
        with reach_redis():
            self._redis.set(PROBE, 1, ex=5)

    def publish(self, chunks: Iterable[Chunk]) -> None:
        """Send chunks; after BrokerUnreachable some may have arrived, and sending again is safe."""
        try:
            now = self._redis.time()[0]
            with self._app.producer_pool.acquire(block=True, timeout=10) as producer:
                for chunk in chunks:
                    self._deliver(replace(chunk, sent=now), producer)
        except (OperationalError, RedisError, OSError) as error:
            raise BrokerUnreachable(f"cannot send to Redis: {error}") from error

    def list_queued(self, device: str) -> set[tuple[int, int]]:
        """(job, token) of each job that waits in a device's queue."""
        name = wire.queue_of(device)
        with reach_redis():
            try:
                # Workers take from the end. What strangers put there is soon taken from it too.
                messages = self._redis.lrange(name, -MOST_QUEUED, -1)
                messages += self._redis.lrange(name, 0, MOST_QUEUED - 1)
            except ResponseError as error:
                if not is_of_other_type(error):
                    raise
                messages = []
                self._clear(name)
        return {pair for message in set(messages) for pair in self._jobs_of(message, device)}

    def close(self) -> None:
        """Close the connections of the publisher."""
        self._app.close()

    def _deliver(self, chunk: Chunk, producer: object) -> None:
        try:
            self._send(chunk, producer)
        except (OperationalError, ResponseError) as error:
            if not is_of_other_type(error):
                raise
            self._clear(wire.queue_of(chunk.device))
            self._send(chunk, producer)

    def _clear(self, queue: str) -> None:
        """Delete the keys of a queue that hold no list; kombu has a key for each priority."""
        clear_lists(
            self._redis, (queue, *(f"{queue}{Channel.sep}{step}" for step in PRIORITY_STEPS))
        )

    def _send(self, chunk: Chunk, producer: object) -> None:
        name = wire.queue_of(chunk.device)
        self._app.send_task(
            wire.CHUNK_TASK,
            args=[self._message(chunk)],
            # The anonymous exchange needs no binding in Redis, which could be lost.
            queue=Queue(name, Exchange(""), routing_key=name),  # type: ignore[no-untyped-call]
            producer=producer,
            retry=False,
            argsrepr="",
            kwargsrepr="",
        )

    def _message(self, chunk: Chunk) -> object:
        """A chunk as its worker reads it."""
        protocol = self.protocols.get(chunk.device, PROTOCOL)
        if protocol == BARE:
            return wire.to_builtins(chunk)
        return wire.pack(chunk, self._keys, chunk.device, protocol).decode()

    def _jobs_of(self, message: bytes | str, device: str) -> list[tuple[int, int]]:
        try:
            body = json.loads(base64.b64decode(json.loads(message)["body"]))[0][0]
            if isinstance(body, str):
                chunk = wire.unpack(body, Chunk, self._keys, device)
            elif BARE in self._keys.protocols:
                chunk = wire.from_builtins(body, Chunk)
            else:
                return []
        except (ValueError, LookupError, TypeError, RecursionError, VkbenchError):
            return []  # not a message of a scheduler; the worker refuses it
        return [(job.id, job.token) for job in chunk.jobs]
