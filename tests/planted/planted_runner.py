"""A runner without a device that does what a job's case says: `sleep/f32/n20` sleeps 20 ms.

`unmakeable` ends it as soon as the job has come, as one does whose pipeline crashes the driver.

It speaks the protocol of the real one and keeps its promises (lock, death with its parent, exit
status), and writes what it does to a file of `events`, so that a test sees every run of every job.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts, Environment, device_key
from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench.settings import Settings, settings
from vkbench_worker.protocol import (
    DEVICE_LOST_STATUS,
    Ready,
    Stage,
    line_of,
    lock_folder,
    lock_path,
    read_line,
    stage_line,
)
from vkbench_worker.runner.inbox import Inbox

hardware = ""  # what the devices of this host are
_out = os.dup(1)


def main() -> None:
    """Serve jobs until stdin ends."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--device", default="0")
    arguments.add_argument("--parent", type=int, required=True)
    arguments.add_argument("--beside", type=int, default=1)
    arguments.add_argument("--strange", action="store_true")
    given = arguments.parse_args()
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != given.parent:
        sys.exit("the parent is gone")
    if given.device == "none":
        sys.exit("no Vulkan device: install a driver")
    if (settings().data / "unplugged").exists():
        sys.exit("the device is unplugged")
    ready = Ready(facts=facts(given.device), environment=environment(), hardware=hardware)
    path = lock_path(settings(), ready.facts.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        say(line_of(ready))
        inbox = Inbox(sys.stdin.fileno())
        for line in inbox:
            for early in inbox.lines_there():
                foresee(parse(read_line(early, Job).case))
            serve(read_line(line, Job), ready)


def foresee(case: Case) -> None:
    """Do what the real one does with a coming job: have the driver make its pipeline."""
    if case.kernel == "unmakeable":
        segfault(case)


def serve(job: Job, ready: Ready) -> None:
    """Do one job and answer."""
    case = parse(job.case)
    began = time.time()
    note(f"start {ready.facts.key} {job.id} {job.token} {began:.6f} {os.getpid()}")
    act = ACTS.get(case.kernel, succeed)
    if act is succeed and job.mode is Mode.PAIRED:
        sys.exit("no such pairs here")
    act(case)
    note(f"end {ready.facts.key} {job.id} {job.token} {time.time():.6f} {os.getpid()}")
    seconds = time.time() - began
    say(
        line_of(
            Result(
                job=job.id,
                token=job.token,
                outcome=Outcome.PASSED,
                variant="planted",
                seconds=seconds,
                started=began,
                telemetry=readings(case),
            )
        )
    )


def readings(case: Case) -> Mapping[str, float]:
    """Nothing; n readings of `overtell`."""
    count = case.shape["n"] if case.kernel == "overtell" else 0
    return {f"reading {number}": 1.0 for number in range(count)}


def sleep(case: Case) -> None:
    """Take n milliseconds."""
    time.sleep(case.shape["n"] / 1000)


def succeed(case: Case) -> None:
    """Pass after 50 ms: a case of the catalogue."""
    time.sleep(0.05)


def segfault(case: Case) -> None:
    """Read address 0."""
    ctypes.string_at(0)


def segfault_if_fragile(case: Case) -> None:
    """Pass, until the data folder has a file `fragile`: a driver that was updated."""
    if (settings().data / "fragile").exists():
        segfault(case)


def hang(case: Case) -> None:
    """Wait in C for ever, holding the interpreter's lock."""
    library = ctypes.PyDLL(None)
    mutex = ctypes.create_string_buffer(64)
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)


def lose_device(case: Case) -> None:
    """End as a runner does whose device is lost."""
    print("VK_ERROR_DEVICE_LOST", file=sys.stderr)
    sys.exit(DEVICE_LOST_STATUS)


def kill_worker(case: Case) -> None:
    """Take the supervisor along."""
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(10)


def swarm(case: Case) -> None:
    """Start processes that would outlive this one, and wait to be killed."""
    for _ in range(case.shape["n"]):
        if os.fork() == 0:
            with suppress(PermissionError):
                os.setsid()
            note(f"child {os.getpid()}")
            time.sleep(60)
    time.sleep(60)


def open_file(case: Case) -> None:
    """Read a file of the data folder."""
    (settings().data / str(case.params["file"])).read_bytes()


def babble(case: Case) -> None:
    """Write a line that is no result, and wait to be killed for it."""
    say(b'{"job": "none"}\n')
    time.sleep(30)


def lie(case: Case) -> None:
    """Write the result of a job that was never sent, and wait to be killed for it."""
    say(line_of(Result(job=10**9, token=1, outcome=Outcome.PASSED)))
    time.sleep(30)


def flood(case: Case) -> None:
    """Fill stderr, then answer with a large line."""
    for _ in range(4):
        os.write(2, b"x" * 65535 + b"\n")
    time.sleep(0.01)


def tell_stages(case: Case) -> None:
    """Say n times how far a file is loaded; n = 0: without end."""
    total = case.shape["n"]
    for done in range(total or sys.maxsize):
        say(stage_line(Stage(what="loading x", done=done, total=total)))


def no_stage(case: Case) -> None:
    """Write a line that tells no stage, and wait to be killed for it."""
    say(b'stage {"what": 1}\n')
    time.sleep(30)


ACTS: dict[str, Callable[[Case], None]] = {
    "sleep": sleep,
    "segfault": segfault,
    "fragile": segfault_if_fragile,
    "unmakeable": segfault,
    "hang": hang,
    "lose_device": lose_device,
    "kill_worker": kill_worker,
    "swarm": swarm,
    "read": open_file,
    "babble": babble,
    "lie": lie,
    "flood": flood,
    "stages": tell_stages,
    "no_stage": no_stage,
}


def facts(selector: str, ours: Settings | None = None) -> DeviceFacts:
    """The facts of planted device `selector`."""
    host = (ours or settings()).host
    uuid = f"{selector:0>32}"
    return DeviceFacts(
        key=device_key(host, uuid),
        host=host,
        index=0,
        name=f"planted {selector}",
        uuid=uuid,
        vendor_id=0,
        device_id=0,
        type="other",
        memory_bytes=1 << 30,
        subgroup_size=8,
        features=(),
        limits={},
    )


def environment() -> Environment:
    """The environment of every planted device."""
    return Environment(
        driver="planted",
        driver_version="1",
        driver_info="",
        api_version="1.3",
        loader="",
        os="",
        os_kernel="",
        cpu="",
        vkbench="0",
    )


def events_path(settings: Settings) -> Path:
    """The file of what planted runners did, in a folder that every runner may write."""
    return lock_folder(settings) / "events"


def note(line: str) -> None:
    """Append one line to the events, whole even if this process dies next or the disk is full."""
    most, bound = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bound, bound))
    os.write(_events(), line.encode() + b"\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, bound))


@cache
def _events() -> int:
    return os.open(events_path(settings()), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def say(line: bytes) -> None:
    """Write one line to the supervisor."""
    while line:
        line = line[os.write(_out, line) :]


if __name__ == "__main__":
    main()
