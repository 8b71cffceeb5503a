"""Bundles that jobs name and this host lacks come through Redis, once.

What lies there under a bundle's name may be anyone's. Only the bundle itself counts, which its hash
proves, or a scheduler's signed word that it does not come. Beside these two it is awaited, and the
jobs that need it go back without a try: no stranger makes them fail.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from vkbench.errors import VkbenchError
from vkbench.messages import wire
from vkbench.messages.signing import NO_KEYS, Keys
from vkbench.messages.stamps import Stamp, Stamps, check_age
from vkbench.process import log
from vkbench.settings import Settings
from vkbench.words.visible import visible
from vkbench_shaders.archive import from_archive
from vkbench_shaders.bundle import Bundle, kept_bundles
from vkbench_worker import policy
from vkbench_worker.errors import BundleAwaited, BundleUnavailable
from vkbench_worker.service import fetched
from vkbench_worker.service.connection import persist

PATIENCE_SECONDS = 20.0
SHORT_PATIENCE_SECONDS = 2.0  # with a bundle that did not come before: other jobs wait meanwhile
LACK_SECONDS = 10.0  # after which it is looked for again
LOOK_SECONDS = 0.25
ASK_SECONDS = 1.0  # between two wishes: a scheduler answers each one once
_MOST_WORDS = 500

_log = logging.getLogger(__name__)


class Depot:
    """The bundles of this host, and the way to more."""

    def __init__(
        self,
        redis: Redis,
        settings: Settings,
        stopping: Callable[[], bool],
        keys: Keys = NO_KEYS,
    ) -> None:
        self._keys = keys
        self._redis = redis
        self._stamps = Stamps(redis)
        self._asked_at = float("-inf")  # monotonic
        self._policy = settings.bundles
        self._most_bytes = settings.bundle_megabytes * 10**6
        self._store = kept_bundles(settings)
        self._stopping = stopping
        self._here = {""}
        self._awaited: dict[str, BundleAwaited] = {}  # bundle -> why it did not come
        self._not_before: dict[str, float] = {}  # bundle -> when to look for it again (monotonic)

    def provide(self, sha: str) -> None:
        """Have a bundle in the store.

        BundleAwaited if it does not come; BundleUnavailable if a scheduler says why it does not,
        or if it cannot be stored here; BundleForbidden if this host does not run it.
        """
        policy.check(self._policy, sha)
        if sha in self._here:
            fetched.note(self._store.folder, sha)
            return
        try:
            if not self._store.is_whole(sha):
                self._fetch(sha)
        except OSError as error:
            raise BundleUnavailable(f"bundle {sha[:12]} cannot be stored here: {error}") from error
        except RedisError as error:  # the worker is stopping
            raise BundleAwaited(sha, str(error)) from error
        fetched.note(self._store.folder, sha)
        self._here.add(sha)

    def doubt(self) -> None:
        """Look at all bundles again before the next job: a runner could not use one."""
        self._here = {""}

    def _fetch(self, sha: str) -> None:
        if time.monotonic() < self._not_before.get(sha, 0.0):
            raise self._awaited[sha]
        self._store.put(self._await(sha))
        self._awaited.pop(sha, None)
        fetched.note(self._store.folder, sha, is_new=True)
        log.event(_log, "bundle_fetched", bundle=sha)
        for evicted in fetched.evict(self._store.folder, self._most_bytes):
            self._here.discard(evicted)
            log.event(_log, "bundle_evicted", bundle=evicted)

    def _await(self, sha: str) -> Bundle:
        """The bundle, once a scheduler has brought it."""
        patience = SHORT_PATIENCE_SECONDS if sha in self._awaited else PATIENCE_SECONDS
        end, why = time.monotonic() + patience, "no scheduler has brought it"
        while time.monotonic() < end and not self._stopping():
            for look in (self._find, self._heed_refusal, self._ask):
                try:
                    if bundle := look(sha):
                        return bundle
                except BundleUnavailable:
                    raise
                except (VkbenchError, MemoryError, ResponseError) as error:
                    why = f"Redis holds what no scheduler put there: {error}"
            time.sleep(LOOK_SECONDS)
        self._awaited[sha] = awaited = BundleAwaited(sha, visible(why)[:_MOST_WORDS])
        self._not_before[sha] = time.monotonic() + LACK_SECONDS
        log.warn(_log, "bundle_awaited", bundle=sha, reason=why)
        raise awaited

    def _find(self, sha: str) -> Bundle | None:
        data = self._read(wire.bundle_of(sha))
        return from_archive(data, sha) if data else None

    def _heed_refusal(self, sha: str) -> None:
        """Raise BundleUnavailable if a scheduler says why a bundle does not come."""
        message = self._read(wire.refusal_of(sha))
        if message:
            word = wire.hear(message, wire.refusal_subject(sha), self._keys)
            check_age(word.stamp, self._stamp().sent, wire.REFUSAL_SECONDS)
            raise BundleUnavailable(f"bundle {sha[:12]}: {word.text[:_MOST_WORDS]}")

    def _ask(self, sha: str) -> None:
        if time.monotonic() < self._asked_at + ASK_SECONDS:
            return
        self._asked_at = time.monotonic()
        wish = wire.say(wire.WISH, self._stamp(), self._keys, sha)
        persist(lambda: self._redis.sadd(wire.WANTED, wish), "bundle", self._stopping)

    def _stamp(self) -> Stamp:
        return persist(self._stamps.next, "time", self._stopping)

    def _read(self, key: str) -> bytes | None:
        word = persist(lambda: self._redis.get(key), "bundle", self._stopping)
        return word if isinstance(word, bytes) else None
