"""The runner: the one process that loads the driver; does jobs until its input ends.

    python -m vkbench_worker.runner.main --device SELECTOR --parent PID

It speaks the lines of `protocol` on the stdin and stdout it was started with. Whatever a driver
prints to stdout goes to stderr. It dies with its parent, and holds the device's lock as long as it
lives.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import BinaryIO, Final

from vkbench.case import is_model
from vkbench.device import DeviceFacts
from vkbench.errors import VkbenchError
from vkbench.job import Job, Mode, Outcome
from vkbench.messages.wire import MalformedMessage
from vkbench.process import system
from vkbench.result import Result
from vkbench.settings import Settings, settings
from vkbench_shaders.bundle import Bundle, kept_bundles, packaged_sha
from vkbench_worker import policy
from vkbench_worker.judging.shelf import SHELF
from vkbench_worker.phases import telemetry
from vkbench_worker.progress import heard_by
from vkbench_worker.protocol import (
    DEVICE_LOST_STATUS,
    FAILED_STATUS,
    MALFORMED_STATUS,
    Ready,
    Stage,
    canary_folder,
    line_of,
    lock_path,
    read_line,
    stage_line,
)
from vkbench_worker.runner.bounds import checks_bounds, note_bounds_checked
from vkbench_worker.runner.execute import execute as execute_job
from vkbench_worker.runner.foresight import Foresight
from vkbench_worker.runner.inbox import Inbox
from vkbench_worker.runtime.device import Device
from vkbench_worker.runtime.vulkan.device import VulkanDevice
from vkbench_worker.timing.canary import CanaryTimer
from vkbench_worker.timing.paired import execute_pair

SAVE_SECONDS: Final = (
    2.0  # least time between two saves of the pipeline cache: a runner may be killed any time
)
SAVE_SHARE: Final = 0.05  # of the time may go into saving it: it can grow to a hundred MB
_KEPT_BUNDLES: Final = 4
_MOST_PREPARERS: Final = 8
_PREPARER_BYTES: Final = 4 << 30  # of the host's memory, that a large case may take for a while

Execute = Callable[[Device, Bundle, Job], Result]


def execute_any(device: Device, bundle: Bundle, job: Job) -> Result:
    """The result of a job on a kernel or on a whole model."""
    if not is_model(job.case):
        return execute_job(device, bundle, job)
    from vkbench_worker.models.execute import execute_model  # few runners have models

    return execute_model(device, bundle, job)


def compare_any(device: Device, old: Bundle, new: Bundle, job: Job) -> Result:
    """The result of a job that times two bundles' code of a kernel or of a whole model in pairs."""
    if not is_model(job.case):
        return execute_pair(device, old, new, job)
    from vkbench_worker.models.pairing import execute_model_pair

    return execute_model_pair(device, old, new, job)


def main(execute: Execute = execute_any, arguments: Sequence[str] | None = None) -> int:
    """Serve until stdin ends; `execute` does one job. Returns the exit status."""
    options = _arguments(arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
    if not system.end_with(options.parent):
        print(f"process {options.parent} did not start this runner, or is gone", file=sys.stderr)
        return FAILED_STATUS
    answers = _claim_stdout()
    current = settings()
    opening = replace(current, robust=current.robust and options.strange)
    with ExitStack() as stack:

        def lock(facts: DeviceFacts) -> None:
            if not options.lent:
                _lock(current, stack, options.key or facts.key)

        try:
            device = stack.enter_context(
                VulkanDevice.open(options.device, opening, lock, options.pipelines)
            )
            device.facts = replace(device.facts, key=options.key or device.facts.key)
        except VkbenchError as error:
            print(error, file=sys.stderr)
            return FAILED_STATUS
        ready = Ready(
            facts=device.facts,
            environment=device.environment,
            hardware=device.hardware,
            checks_all=current.robust and not device.checks_each,
        )
        _answer(answers, ready)
        stack.enter_context(heard_by(partial(_tell, answers)))
        stack.enter_context(SHELF.helped_by(preparers(device.facts, options.beside)))
        bundle_of = _bundles(current)
        # Readings with bounds checked, or beside another driver, are not those of other runners.
        has_canary = not (device.checks_bounds or options.lent)
        canary = CanaryTimer(device, bundle_of, canary_folder(current)) if has_canary else None
        return serve(device, Inbox(sys.stdin.fileno()), answers, bundle_of, execute, canary)


def serve(
    device: Device,
    inbox: Inbox,
    answers: BinaryIO,
    bundle_of: Callable[[str], Bundle],
    execute: Execute,
    canary: CanaryTimer | None = None,
) -> int:
    """Answer each line's Job with a Result, in order; returns the exit status."""
    save_at = time.monotonic() + SAVE_SECONDS
    foresight = Foresight(device, bundle_of)
    for line in inbox:
        foresight.look([line, *inbox.lines_there()])
        try:
            job = read_line(line, Job)
        except MalformedMessage as error:
            print(error, file=sys.stderr)
            return MALFORMED_STATUS
        looked = _look(canary, job)
        result = _do(device, bundle_of, execute, job)
        result = replace(result, telemetry={**result.telemetry, **looked})
        _answer(answers, result)
        if result.outcome is Outcome.DEVICE_LOST:
            _leave(DEVICE_LOST_STATUS)
        if time.monotonic() > save_at:
            save_at = _save(device)
    return 0


def _look(canary: CanaryTimer | None, job: Job) -> Mapping[str, float]:
    """Telemetry of a job's canary: its reading, and how long it took just now."""
    if not canary or job.mode is not Mode.PERFORMANCE:
        return {}
    began = time.perf_counter()
    canary.look()
    return {**canary.readings, **telemetry({"canary": time.perf_counter() - began})}


def _save(device: Device) -> float:
    """Save the pipeline cache; says when to do so next."""
    began = time.monotonic()
    device.save_cache()
    ended = time.monotonic()
    return ended + max(SAVE_SECONDS, (ended - began) / SAVE_SHARE)


def _do(device: Device, bundle_of: Callable[[str], Bundle], execute: Execute, job: Job) -> Result:
    try:
        if job.pair:
            old, new = map(bundle_of, job.bundles)
            return _note_bounds(device, compare_any(device, old, new, job), old, new)
        bundle = bundle_of(job.bundle)
        return _note_bounds(device, execute(device, bundle, job), bundle)
    except VkbenchError as error:  # no such bundle, or a broken one
        blank = Result(
            job=job.id,
            token=job.token,
            outcome=Outcome.ERROR,
            case=job.case,
            started=time.time(),
            bundle=job.bundle or packaged_sha(),
        )
        return replace(
            blank, reason=str(error), device=device.facts.key, environment=device.environment.hash
        )


def _note_bounds(device: Device, result: Result, *bundles: Bundle) -> Result:
    return (
        note_bounds_checked(result) if device.checks_bounds or checks_bounds(*bundles) else result
    )


def _leave(status: int) -> None:
    """End at once: on a lost device, closing things may hang."""
    sys.stderr.flush()
    os._exit(status)


def _answer(answers: BinaryIO, record: Ready | Result) -> None:
    answers.write(line_of(record))
    answers.flush()


def _tell(answers: BinaryIO, stage: Stage) -> None:
    answers.write(stage_line(stage))
    answers.flush()


def _claim_stdout() -> BinaryIO:
    """The stdout of before, kept for answers alone; from now on file descriptor 1 is stderr."""
    kept = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return kept


def _lock(settings: Settings, stack: ExitStack, key: str) -> None:
    """Hold a device's lock until the stack closes; waits as long as another process has it."""
    path = lock_path(settings, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = stack.enter_context(path.open("a"))
    system.lock(file)


def preparers(facts: DeviceFacts, beside: int = 1) -> int:
    """How many processes prepare coming cases: a CPU driver has all processors to itself.

    Others share processors and memory with so many runners, their own among them.
    """
    if facts.type == "cpu":
        return 0
    memory, spare = system.free_memory_bytes(), system.usable_processors() // beside - 1
    return max(0, min(_MOST_PREPARERS, spare, memory // beside // _PREPARER_BYTES))


def _bundles(settings: Settings) -> Callable[[str], Bundle]:
    kept = lru_cache(_KEPT_BUNDLES)(kept_bundles(settings).get)

    def allowed_bundle(sha: str) -> Bundle:
        policy.check(settings.bundles, sha)
        return kept(sha)

    return allowed_bundle


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="vkbench_worker.runner.main", description=__doc__)
    parser.add_argument("--device", default="", help="index, part of a name, UUID or device key")
    parser.add_argument("--parent", type=int, required=True, help="process to die with")
    parser.add_argument("--beside", type=int, default=1, help="runners that share the processors")
    parser.add_argument("--key", default="", help="of the device that this driver shows")
    parser.add_argument(
        "--lent", action="store_true", help="another runner holds the device's lock"
    )
    parser.add_argument("--pipelines", type=Path, help="folder of a cache of pipelines of its own")
    parser.add_argument("--strange", action="store_true", help="do jobs of other bundles")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
