"""Bundles that jobs name and this host lacks come through Redis, once."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from redis import Redis
from redis.exceptions import RedisError

from vkbench import log, wire
from vkbench.errors import VkbenchError
from vkbench.settings import Settings
from vkbench.signing import NO_KEYS, Keys, seal, unseal
from vkbench_shaders.archive import from_archive
from vkbench_shaders.bundle import kept_bundles
from vkbench_worker import policy
from vkbench_worker.errors import BundleUnavailable
from vkbench_worker.service import fetched
from vkbench_worker.service.connection import persist

PATIENCE_SECONDS = 20.0
LOOK_SECONDS = 0.25
_MOST_WORDS = 500

_log = logging.getLogger(__name__)


class Depot:
    """The bundles of this host, and the way to more."""

    def __init__(
        self,
        redis: Redis,
        ours: Settings,
        stopping: Callable[[], bool],
        keys: Keys = NO_KEYS,
    ) -> None:
        self._keys = keys
        self._redis = redis
        self._policy = ours.bundles
        self._most_bytes = ours.bundle_megabytes * 10**6
        self._store = kept_bundles(ours)
        self._stopping = stopping
        self._here = {""}

    def provide(self, sha: str) -> None:
        """Have a bundle in the store; BundleUnavailable if no scheduler sends it.

        BundleForbidden if this host does not run it: then nobody is asked for it.
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
        except RedisError as error:
            raise BundleUnavailable(f"Redis cannot give bundle {sha[:12]}: {error}") from error
        fetched.note(self._store.folder, sha)
        self._here.add(sha)

    def doubt(self) -> None:
        """Look at all bundles again before the next job: a runner could not use one."""
        self._here = {""}

    def _fetch(self, sha: str) -> None:
        bundle = from_archive(self._await(sha))  # checks every blob
        if bundle.sha != sha:
            raise BundleUnavailable(f"bundle {sha[:12]} came as {bundle.sha[:12]}")
        self._store.put(bundle)
        fetched.note(self._store.folder, sha, is_new=True)
        log.event(_log, "bundle_fetched", bundle=sha)
        for evicted in fetched.evict(self._store.folder, self._most_bytes):
            self._here.discard(evicted)
            log.event(_log, "bundle_evicted", bundle=evicted)

    def _await(self, sha: str) -> bytes:
        end, refused = time.monotonic() + PATIENCE_SECONDS, wire.refusal_of(sha)
        wish = seal(sha.encode(), wire.WISH, self._keys)
        while time.monotonic() < end and not self._stopping():
            data = persist(lambda: self._redis.get(wire.bundle_of(sha)), "bundle", self._stopping)
            if isinstance(data, bytes):
                return data
            if reason := persist(lambda: self._redis.get(refused), "bundle", self._stopping):
                raise BundleUnavailable(f"bundle {sha[:12]}: {self._why(sha, reason)}")
            persist(lambda: self._redis.sadd(wire.WANTED, wish), "bundle", self._stopping)
            time.sleep(LOOK_SECONDS)
        raise BundleUnavailable(
            f"bundle {sha[:12]} is not here and the scheduler did not bring it "
            f"within {PATIENCE_SECONDS:g} s"
        )

    def _why(self, sha: str, word: object) -> str:
        """The scheduler's reason not to bring a bundle; a VkbenchError if another said it."""
        message = word if isinstance(word, bytes) else str(word)
        reason = unseal(message, wire.refusal_subject(sha), self._keys)
        return reason.decode(errors="replace")[:_MOST_WORDS]


def problem(depot: Depot, sha: str) -> str:
    """Why a bundle cannot be had, "" if it is there."""
    try:
        depot.provide(sha)
    except (VkbenchError, MemoryError) as error:
        log.warn(_log, "bundle_unavailable", bundle=sha, error=error)
        return str(error) or "the host has not enough memory for this bundle"
    return ""
