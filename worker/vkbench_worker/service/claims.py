"""Claims: each (job, token) is run once, however often its message is delivered.

A claim is a bit that Redis sets and whose value before it tells: it takes no memory worth counting,
so it may outlive every redelivery whatever the number of jobs. A bit does not say whose it is. If
the answer to a claim is lost, its jobs count as claimed, nobody runs them, and the reconciler sends
them again with a new token.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from redis import Redis

from vkbench.errors import VkbenchError
from vkbench.job import Job
from vkbench.messages.signing import NO_KEYS, Keys, Subject, unseal
from vkbench.messages.wire import cancel_of, cancel_subject, claim_of
from vkbench.process import log
from vkbench_worker.service.app import VISIBILITY_SECONDS
from vkbench_worker.service.connection import persist

_log = logging.getLogger(__name__)

CLAIM_SECONDS = 2 * VISIBILITY_SECONDS  # outlives every redelivery


def claim(redis: Redis, jobs: Sequence[Job], keys: Keys = NO_KEYS) -> list[Job]:
    """The jobs that no worker claimed before and whose runs are not cancelled."""
    bits = [claim_of(job.id, job.token) for job in jobs]
    bitmaps = sorted({bitmap for bitmap, _ in bits})
    runs = sorted({job.run for job in jobs})

    def ask() -> list[object]:
        with redis.pipeline(transaction=True) as pipe:
            for bitmap, bit in bits:
                pipe.setbit(bitmap, bit, 1)
            for run in runs:
                pipe.get(cancel_of(run))
            for bitmap in bitmaps:
                pipe.expire(bitmap, CLAIM_SECONDS)
            return list(pipe.execute(raise_on_error=False))

    answers = persist(lambda: _answers_to_claims(ask(), len(jobs)), "claim")
    off = cancelled_runs(runs, answers[len(jobs) : len(jobs) + len(runs)], keys)
    return [
        job
        for job, before in zip(jobs, answers, strict=False)
        if before == 0 and job.run not in off
    ]


def _answers_to_claims(answers: list[object], claims: int) -> list[object]:
    """The answers of Redis, if it noted the claims; an odd word of cancellation spoils none."""
    for answer in answers[:claims]:
        if isinstance(answer, Exception):
            raise answer
    return answers


def cancelled_runs(runs: Iterable[int], words: Iterable[object], keys: Keys) -> frozenset[int]:
    """The runs that a scheduler has cancelled, by what Redis has under the keys of their names."""
    pairs = zip(runs, words, strict=True)
    return frozenset(run for run, word in pairs if is_said(word, cancel_subject(run), keys))


def is_said(word: object, subject: Subject, keys: Keys) -> bool:
    """Whether a key of Redis holds a word of a scheduler."""
    if not isinstance(word, bytes):
        return False
    try:
        unseal(word, subject, keys)
    except VkbenchError as error:
        log.warn(_log, "word_refused", error=error)
        return False
    return True
