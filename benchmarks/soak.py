"""Whether anything grows while many jobs pass: memory of every process, and objects of Vulkan.

    python benchmarks/soak.py queue --jobs 100000 --devices 2
    python benchmarks/soak.py runner --jobs 10000

`queue` starts Redis, PostgreSQL, a scheduler and workers of its own; a NullDevice computes each
job, and the judge judges it. `runner` has one runner do jobs on lavapipe, a timing among each ten.
After a fifth of the jobs no process may grow by over five per cent, Redis holds less than 64 MB at
any time, and each round of the runner's cases leaves as many Vulkan objects as the one before. The
exit status is 1 where that is not so.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# This folder first would make queue.py the standard library's queue.
sys.path[0] = str(HERE.parent / "tests" / "planted")

import argparse  # noqa: E402
import os  # noqa: E402
import tempfile  # noqa: E402
import threading  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator, Mapping, Sequence  # noqa: E402
from contextlib import contextmanager  # noqa: E402
from dataclasses import dataclass, field, replace  # noqa: E402
from statistics import median  # noqa: E402
from typing import cast  # noqa: E402

import null_runner  # noqa: E402
from own_servers import own_lab  # noqa: E402
from processes import family, own_bytes  # noqa: E402
from vkbench.job import Job, Mode, Outcome  # noqa: E402
from vkbench.result import Result  # noqa: E402
from vkbench.settings import settings  # noqa: E402
from vkbench_shaders.bundle import Bundle, packaged  # noqa: E402
from vkbench_shaders.catalogue import KERNELS  # noqa: E402
from vkbench_worker.protocol import line_of  # noqa: E402
from vkbench_worker.runner.execute import execute  # noqa: E402
from vkbench_worker.runner.inbox import Inbox  # noqa: E402
from vkbench_worker.runner.main import serve  # noqa: E402
from vkbench_worker.runtime.vulkan.device import VulkanDevice  # noqa: E402

GROWTH = 1.05  # of what a process has once it is warm
MOST_REDIS_BYTES = 64 << 20
STEP_SECONDS = 1.0
TIMED_EACH = 10  # of so many jobs one is timed
MB = 1e6


@dataclass
class Memory:
    """What each process had, and how far the work was then."""

    seen: dict[str, list[tuple[float, int]]] = field(default_factory=dict)

    def note(self, name: str, done: float, size: int) -> None:
        """Note the bytes of a process when a share of the jobs was done."""
        if size:
            self.seen.setdefault(name, []).append((done, size))

    def report(self) -> bool:
        """Print what each process had in each fifth of the jobs; whether all stayed flat.

        The first fifth makes a process warm, and only those that lived on to the last one count.
        """
        flat = True
        for name, noted in sorted(self.seen.items()):
            fifths = [[size for done, size in noted if int(5 * done) == part] for part in range(5)]
            if not fifths[1] or not fifths[4]:
                continue
            sizes = [median(some) for some in fifths if some]
            growth = median(fifths[4]) / median(fifths[1])
            grows = growth > GROWTH
            flat &= not grows
            cells = " ".join(f"{size / MB:6.1f}" for size in sizes)
            print(f"{name:28} {cells} MB: {growth - 1:+.1%}{'  GROWS' * grows}")
        return flat


def main() -> int:
    """Soak; 1 if anything grew."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("what", choices=("queue", "runner"))
    parser.add_argument("--jobs", type=int, default=0, help="default: 100000, 10000 of a runner")
    parser.add_argument("--devices", type=int, default=2, help="of the queue")
    options = parser.parse_args()
    if options.what == "runner":
        return soak_runner(options.jobs or 10_000)
    return soak_queue(options.jobs or 100_000, [f"device{n}" for n in range(options.devices)])


def soak_queue(jobs: int, names: Sequence[str]) -> int:
    """Have the queue pass so many jobs, and watch all its processes."""
    memory, most = Memory(), 0
    with (
        tempfile.TemporaryDirectory() as folder,
        own_lab(Path(folder), null_runner.__name__) as lab,
    ):
        scheduler = lab.start_scheduler()
        fleet = lab.start_fleet(*names)
        began = time.monotonic()
        cases = [null_runner.CASES[n % len(null_runner.CASES)] for n in range(jobs // len(names))]
        runs = [lab.submit(cases, name) for name in names]
        total = len(cases) * len(names)
        while (ended := sum(lab.ended(run) for run in runs)) < total:
            most = max(most, cast(dict[str, int], lab.redis.client.info("memory"))["used_memory"])
            for name, size in _sizes(scheduler.pid, fleet.pid).items():
                memory.note(name, ended / total, size)
            time.sleep(STEP_SECONDS)
        seconds = time.monotonic() - began
        lab.check(*runs)
    print(f"{total} jobs in {seconds:.0f} s: Redis held at most {most / MB:.1f} MB")
    return int(not memory.report() or most >= MOST_REDIS_BYTES)


def _sizes(scheduler: int, fleet: int) -> Mapping[str, int]:
    """Bytes of each process by a name that stays its own."""
    own = set(family(scheduler) + family(fleet))
    sizes = {f"{_said(pid)} {pid}": own_bytes(pid) for pid in own}
    others = set(family(os.getpid())) - own - {os.getpid()}
    return sizes | {f"{_said(pid)} {pid}": own_bytes(pid, shared=False) for pid in others}


def _said(pid: int) -> str:
    """A process in a word or two: its module, or its program."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return "ended"
    if not words[0]:
        return "ended"
    module = words[words.index("-m") + 1] if "-m" in words else Path(words[0].split()[0]).name
    return module.rpartition("vkbench_worker.")[2]


def soak_runner(jobs: int) -> int:
    """Have one runner do so many jobs on lavapipe, and count what it leaves."""
    memory, cases = Memory(), small_cases()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {"VKBENCH_CACHE": folder, "VKBENCH_DATA": folder}
        settings.cache_clear()
        live: list[Mapping[str, int]] = []
        with VulkanDevice.open("llvmpipe", replace(settings(), robust=False)) as device:
            done = 0

            def watched(device: VulkanDevice, bundle: Bundle, job: Job) -> Result:
                nonlocal done
                result = execute(device, bundle, job)
                assert result.outcome in (Outcome.PASSED, Outcome.SKIPPED), result.reason
                done += 1
                if done % len(cases) == 0:
                    live.append(dict(+device.live))
                    memory.note("runner", done / jobs, own_bytes(os.getpid()))
                return result

            began = time.monotonic()
            with _fed(cases, jobs) as inbox, open(os.devnull, "wb") as answers:
                serve(device, inbox, answers, lambda sha: packaged(), watched)
            seconds = time.monotonic() - began
    steady = live[len(live) // 5 :]
    leaked = {kind: count - steady[0].get(kind, 0) for kind, count in steady[-1].items()
              if count != steady[0].get(kind, 0)}  # fmt: skip
    print(f"{done} jobs of {len(cases)} cases in {seconds:.0f} s; objects: {steady[-1]}")
    print(f"leaked: {leaked or 'none'}")
    return int(not memory.report() or bool(leaked))


def small_cases() -> list[str]:
    """The smallest case of each kernel but those that measure a device."""
    return [
        min(
            kernel.cases, key=lambda case: (0 in case.shape.values(), sum(case.shape.values()))
        ).name
        for kernel in KERNELS
        if kernel.group != "calibrate"
    ]


@contextmanager
def _fed(cases: Sequence[str], jobs: int) -> Iterator[Inbox]:
    """An inbox into which a thread writes jobs."""
    reading, writing = os.pipe()

    def write() -> None:
        with os.fdopen(writing, "wb") as file:
            for number in range(jobs):
                is_timed = number % TIMED_EACH == 0
                mode = Mode.PERFORMANCE if is_timed else Mode.CORRECTNESS
                case = cases[number % len(cases)]
                file.write(
                    line_of(Job(id=number, token=1, case=case, mode=mode, measure_seconds=0.01))
                )

    feeder = threading.Thread(target=write)
    feeder.start()
    yield Inbox(reading)
    feeder.join()
    os.close(reading)


if __name__ == "__main__":
    sys.exit(main())
