"""What many people at once feel: how long a submission takes, and how two runs share devices.

    python benchmarks/load.py                 starts Redis and PostgreSQL of its own
    python benchmarks/load.py --submitters 20 --workers 8 --seconds 60

Twenty processes submit small runs, each at a moment of its own, while eight devices work on them.
Then a run of many jobs and a run of a quarter as many ask for the same devices: until the smaller
one ends, each should get half of the jobs. Devices are processes that sleep; no GPU is needed.
"""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
# This folder first would make its queue.py the standard library's queue.
sys.path[0] = str(HERE.parent / "tests" / "planted")

import argparse  # noqa: E402
import json  # noqa: E402
import random  # noqa: E402
import string  # noqa: E402
import subprocess  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from collections.abc import Iterator, Set  # noqa: E402

import planted_runner  # noqa: E402
from cluster import Lab  # noqa: E402
from own_servers import own_lab  # noqa: E402
from vkbench.job import Mode  # noqa: E402
from vkbench_db.database import Database  # noqa: E402
from vkbench_scheduler.planning.plan import count  # noqa: E402
from vkbench_scheduler.planning.selection import Selection  # noqa: E402
from vkbench_scheduler.planning.submit import submit  # noqa: E402

PAUSE_SECONDS = 20.0  # of a submitter between two runs, in the mean
LIMIT_SECONDS = 1.0  # of the 99th percentile
LARGE, SMALL = 2000, 500
APART = 0.1  # the shares may differ from a half by so much of it


def main() -> int:
    """Measure and print; 1 if a limit is not kept."""
    options = _arguments()
    if options.submit:
        print(json.dumps(submitted(options)))
        return 0
    names = string.ascii_lowercase[: options.workers]
    with tempfile.TemporaryDirectory() as folder, own_lab(Path(folder)) as lab:
        lab.start_scheduler()
        lab.start_fleet(*names)
        taken = sorted(_all_submitters(lab, options))
        p99 = taken[min(len(taken) - 1, int(len(taken) * 0.99))]
        print(
            f"{len(taken)} runs by {options.submitters} submitters, {options.workers} workers: "
            f"median {taken[len(taken) // 2]:.2f} s, p99 {p99:.2f} s, longest {taken[-1]:.2f} s"
        )
        got = shares(lab, names)
        print(
            f"of runs of {LARGE} and {SMALL} jobs, the smaller one got "
            f"{min(got):.1%} to {max(got):.1%} of a device while both had jobs"
        )
    return int(p99 > LIMIT_SECONDS or any(abs(share - 0.5) > APART / 2 for share in got))


def _all_submitters(lab: Lab, options: argparse.Namespace) -> Iterator[float]:
    words = [sys.executable, "-P", str(HERE / "load.py"), "--seconds", str(options.seconds)]
    started = [
        subprocess.Popen(
            [*words, "--workers", str(options.workers), "--submit", lab.database_url, str(number)],
            env=lab.environ(),
            stdout=subprocess.PIPE,
        )
        for number in range(options.submitters)
    ]
    for process in started:
        answer, _ = process.communicate()
        yield from json.loads(answer)


def submitted(options: argparse.Namespace) -> list[float]:
    """Submit for a while as one person does; seconds of each submission."""
    url, number = options.submit
    rest, taken = random.Random(int(number)), []
    devices = [planted_runner.facts(name) for name in string.ascii_lowercase[: options.workers]]
    with Database.open(url) as database:
        count(Selection(suite="quick", mode=Mode.CORRECTNESS, devices=()), devices)  # loads it all
        until = time.monotonic() + options.seconds
        time.sleep(rest.uniform(0, PAUSE_SECONDS))
        while time.monotonic() < until:
            device = rest.choice(devices)
            selection = Selection(suite="quick", mode=Mode.CORRECTNESS, devices=(device.key,))
            began = time.monotonic()
            submit(database, selection, [device])
            taken.append(time.monotonic() - began)
            time.sleep(rest.expovariate(1 / PAUSE_SECONDS))
    return taken


def shares(lab: Lab, names: str) -> list[float]:
    """The smaller run's part of the jobs of each device, from its first one to its last one.

    What a device had in its queue before the smaller run came is not shared.
    """
    runs = [
        [lab.submit(["sleep/f32/n40"] * (jobs // len(names)), name) for name in names]
        for jobs in (LARGE, SMALL)
    ]
    lab.await_end(*runs[0], *runs[1], seconds=300)
    lab.check(*runs[0], *runs[1])
    small = {row.id for run in runs[1] for row in lab.jobs(run)}
    large = {row.id for run in runs[0] for row in lab.jobs(run)}
    return [_share(lab, lab.key(name), small, large) for name in names]


def _share(lab: Lab, device: str, small: Set[int], large: Set[int]) -> float:
    began = [event.job for event in lab.events("start") if event.device == device]
    began = [job for job in began if job in small | large]
    places = [place for place, job in enumerate(began) if job in small]
    return len(places) / (places[-1] - places[0] + 1)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--submitters", type=int, default=20)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--submit", nargs=2, default=(), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
