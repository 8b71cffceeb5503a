"""`vkbench worker`: serves jobs from Redis, each device of this host in a process of its own."""

from __future__ import annotations

import argparse
import errno
import logging
import os
import signal
import sys
from collections.abc import Iterable, Sequence

from redis import Redis
from redis.exceptions import RedisError

from vkbench.errors import VkbenchError
from vkbench.job import Job, Outcome
from vkbench.messages.keys import keys_for
from vkbench.messages.redis_client import connect
from vkbench.messages.signing import Keys, names_of
from vkbench.messages.stamps import Stale
from vkbench.messages.wire import Announcement
from vkbench.process import alive, log, system
from vkbench.process.interpreter import python
from vkbench.result import Result
from vkbench.settings import Sandbox, Settings, settings
from vkbench.words.visible import visible
from vkbench_shaders.bundle import compile_rest, packaged_sha
from vkbench_worker.containment import kernel
from vkbench_worker.errors import Awaited
from vkbench_worker.owner.supervisor import Supervisor
from vkbench_worker.policy import BuildForbidden
from vkbench_worker.protocol import Ready
from vkbench_worker.service import app, fleet
from vkbench_worker.service.builds import BuildDepot
from vkbench_worker.service.bundles import LACK_SECONDS, Depot
from vkbench_worker.service.chunks import Addressed, Unreadable, jobs_of
from vkbench_worker.service.claims import claim
from vkbench_worker.service.drivers import HostDrivers
from vkbench_worker.service.lease import Pulse
from vkbench_worker.service.parting import Parting
from vkbench_worker.service.sender import Sender

_log = logging.getLogger("vkbench_worker.service.main")  # also when run as __main__

SERVICE = "worker"  # in signs of life
UNFIT_SECONDS = 5.0  # until a worker whose disk is full is sent a chunk again
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def serve(selectors: Sequence[str], settings: Settings) -> int:
    """Serve the named devices, else all of this host, until SIGTERM; returns the exit status.

    Even one device has a parent: Celery ends its process on some errors of Redis, and so does the
    wedge watchdog.
    """
    keys_for(settings)  # or say what is missing
    if settings.sandbox is not Sandbox.OFF:
        kernel.hide()  # as each supervisor does for its own process
    compile_rest()  # compiling beside timings would disturb those of CPU drivers
    devices = list(selectors) or _all_devices()
    alive.expect(settings.data, SERVICE, devices)
    one = python("-m", "vkbench_worker.service.main", "--parent", str(os.getpid()))
    return fleet.serve([(*one, "--beside", str(len(devices)), name) for name in devices])


def _all_devices() -> list[str]:
    from vkbench_worker.owner.probe import (
        local_devices,  # a process that serves one device needs none
    )

    return [facts.key for facts in local_devices()]


def serve_one(selector: str, settings: Settings, beside: int = 1) -> int:
    """Serve one device in this process; so many of a host, this one too, share its processors."""
    builds = BuildDepot(settings)
    drivers = HostDrivers(settings, builds)
    with Supervisor(
        selector,
        settings,
        origin=settings.redis,
        beside=beside,
        program_of=builds.program_of,
        note_environment=drivers.note_environment,
    ) as supervisor:
        ready = supervisor.start()
        drivers.keep_own(ready)
        worker = Worker(supervisor, ready, settings, builds, drivers)
        return worker.work()


class Worker:
    """One device's supervisor with its connections to Redis."""

    def __init__(
        self,
        supervisor: Supervisor,
        ready: Ready,
        settings: Settings,
        builds: BuildDepot,
        drivers: HostDrivers,
    ) -> None:
        self.name = f"{settings.host}:{os.getpid()}"
        self._settings = settings
        self._device = ready.facts.key
        self._supervisor = supervisor
        self._redis: Redis = connect(settings.redis)
        self._keys = keys_for(settings)
        announcement = _announcement(self.name, ready, self._keys)
        self._pulse = Pulse(
            self._redis, announcement, self._renew_mark, self._keys, drivers.describe
        )
        self._sender = Sender(self._redis, self._pulse.release, self._keys)
        self._parting = Parting(self._pulse, self._hand_back, settings.stop_seconds)
        self._depot = Depot(self._redis, settings, lambda: self._parting.began, self._keys)
        self._builds = builds
        self._drivers = drivers

    def work(self) -> int:
        """Consume the device's queue until SIGTERM."""
        left = self._supervisor.recover()
        if left:
            log.warn(_log, "predecessor_died", device=self._device, job=left.job, token=left.token)
            self._sender.put(left)
            self._sender.join()  # before the lease says that more work may come
        self._pulse.start()
        log.event(_log, "worker_ready", device=self._device, worker=self.name)
        celery = app.build(self._settings, self._device, self.run_chunk)
        status = app.consume(celery, f"{self._device}@{self._settings.host}", self._stop)
        self._pulse.stop()
        alive.leave(self._settings.data, SERVICE, [self._device])
        log.event(_log, "worker_stopped", device=self._device, worker=self.name, status=status)
        return status

    def run_chunk(self, message: object) -> None:
        """Run the jobs of one message; ends when all their results are in Redis."""
        jobs = self._claim_jobs(self._accept_jobs(message))
        self._pulse.hold(jobs)
        self._note_claimed(jobs)
        try:
            runnable = self._with_bundles(jobs)
            self._supervisor.run(runnable, self._finish, self._parting.ends)
            if ready := self._supervisor.ready:
                self._drivers.keep_own(ready)  # which may have been updated meanwhile
        except Exception as error:  # whatever it is, each job gets an end, and the next chunk comes
            log.failure(_log, "chunk_failed", error, device=self._device)
            if isinstance(error, OSError) and error.errno in _FULL:
                self._return_rest(f"it cannot write files: {error}")
            self._answer_rest(f"the worker could not run it: {type(error).__name__}: {error}")
        self._parting.finish()
        self._sender.join()
        # No lease names the jobs that could not be handed back: the scheduler will miss them.
        self._pulse.drop()

    def _accept_jobs(self, message: object) -> Sequence[Job]:
        try:
            jobs = jobs_of(message, self._device, self._keys, self._redis)
        except Unreadable as error:
            log.warn(_log, "jobs_unreadable", jobs=len(error.jobs), error=error)
            for job in error.jobs:
                self._finish(self._result_without_run(job, Outcome.ERROR, str(error)))
        except Stale as error:
            log.warn(_log, "message_stale", error=error)
        except VkbenchError as error:
            log.warn(_log, "message_refused", error=error)
            self._pulse.refuse(str(error))
        else:
            self._pulse.accept()
            return jobs
        return ()

    def _claim_jobs(self, jobs: Sequence[Job]) -> Sequence[Job]:
        try:
            return claim(self._redis, jobs, self._keys)
        except RedisError as error:  # no retry helps; the scheduler will miss the jobs
            log.warn(_log, "claim_failed", job=log.numbers(job.id for job in jobs), error=error)
            self._pulse.rest(f"Redis cannot note which jobs are claimed: {error}", UNFIT_SECONDS)
            return ()

    def _with_bundles(self, jobs: Iterable[Job]) -> list[Job]:
        runnable = []
        for job in jobs:
            try:
                self._provide(job)
            except Awaited as error:
                self._pulse.lack(error.sha, str(error), LACK_SECONDS)
                if not self._parting.began:
                    self._finish(self._result_without_run(job, Outcome.HANDED_BACK, str(error)))
            except BuildForbidden as error:
                log.warn(_log, "build_forbidden", job=job.id, error=error)
                self._finish(self._result_without_run(job, Outcome.SKIPPED, str(error)))
            except (VkbenchError, MemoryError) as error:
                reason = str(error) or "the host has not enough memory for this bundle"
                log.warn(_log, "bundle_unavailable", job=job.id, error=reason)
                if not self._parting.began:
                    self._finish(self._result_without_run(job, Outcome.ERROR, reason))
            else:
                runnable.append(job)
        return runnable

    def _provide(self, job: Job) -> None:
        """Fetch the bundles, builds and drivers of a job that are not here."""
        for sha in job.bundles:
            self._depot.provide(sha)
        for sha in job.builds:
            self._builds.provide(sha, job.variant, lambda: self._parting.began)
        for sha in job.drivers:
            self._drivers.provide(sha, lambda: self._parting.began)

    def _return_rest(self, reason: str) -> None:
        """Hand back what this host is not fit for now, and have nothing sent for a while."""
        self._pulse.rest(reason, UNFIT_SECONDS)
        for job in self._pulse.held_jobs():
            self._finish(self._result_without_run(job, Outcome.HANDED_BACK, reason))

    def _answer_rest(self, reason: str) -> None:
        if not self._parting.began:  # else they are handed back
            for job in self._pulse.held_jobs():
                self._finish(self._result_without_run(job, Outcome.ERROR, reason))

    def _hand_back(self, job: Job) -> None:
        log.event(_log, "job_handed_back", device=self._device, run=job.run, job=job.id)
        self._finish(
            self._result_without_run(job, Outcome.HANDED_BACK, "the worker was told to stop")
        )

    def _result_without_run(self, job: Job | Addressed, outcome: Outcome, reason: str) -> Result:
        return Result(
            job=job.id,
            token=job.token,
            outcome=outcome,
            case=job.case,
            reason=reason,
            device=self._device,
            worker=self.name,
        )

    def _note_claimed(self, jobs: Sequence[Job]) -> None:
        runs, ids = log.numbers(job.run for job in jobs), log.numbers(job.id for job in jobs)
        log.event(_log, "chunk_claimed", device=self._device, run=runs, job=ids)

    def _finish(self, result: Result) -> None:
        if result.outcome is Outcome.ERROR:  # of a damaged bundle, perhaps
            self._depot.doubt()
            self._builds.doubt()
        job = self._pulse.finish(result.job, result.token)
        if result.outcome is not Outcome.HANDED_BACK:
            log.event(
                _log,
                "job_ended",
                device=self._device,
                run=job and job.run,
                job=result.job,
                token=result.token,
                outcome=result.outcome,
                seconds=result.seconds,
            )
        self._sender.put(result)

    def _renew_mark(self) -> None:
        alive.beat(self._settings.data, SERVICE, self._device)

    def _stop(self) -> None:
        log.event(_log, "worker_stopping", device=self._device)
        self._supervisor.drain()  # first: no job begins once the others are handed back
        self._parting.stop()
        self._sender.leave()


def _announcement(worker: str, ready: Ready, keys: Keys) -> Announcement:
    return Announcement(
        worker=worker,
        facts=ready.facts,
        environment=ready.environment,
        bundle=packaged_sha(),
        speaks=keys.protocols,
        knows=names_of(keys.scheduler),
    )


def main() -> None:
    """One device's process of a fleet: `python -m vkbench_worker.service.main SELECTOR`."""
    parser = argparse.ArgumentParser(prog="vkbench_worker.service.main")
    parser.add_argument("selector", help="device to serve")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="who ends it")
    parser.add_argument("--beside", type=int, default=1, help="workers that share the processors")
    options = parser.parse_args()
    if not system.end_with(options.parent, signal.SIGTERM):
        sys.exit("the parent is gone")  # while this process was starting
    log.set_up(style=settings().log_format)
    try:
        sys.exit(serve_one(options.selector, settings(), options.beside))
    except VkbenchError as error:
        print(visible(f"vkbench: {error}"), file=sys.stderr)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
