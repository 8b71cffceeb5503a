"""Breaks every part of the service while it works, and counts what was lost, twice or stuck.

    python tests/planted/chaos.py                          10,000 jobs, 300 faults
    python tests/planted/chaos.py --jobs 300 --faults 12   as CI does
    python tests/planted/chaos.py --seed 7 --only flush_redis

Redis, PostgreSQL with a standby, a scheduler and a fleet of two devices run as real processes. The
seed decides which fault comes when.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from cluster import Lab, alive, until
from half_open import HalfOpenProxy
from host_keys import HostKeys
from own_servers import own_servers
from postgres_pair import PostgresPair
from processes import children
from vkbench.job import JobState, Outcome
from vkbench.messages import wire
from vkbench.messages.keys import read_keys
from vkbench.messages.wire import Unfit

Process = subprocess.Popen[bytes]
DEVICES = ("a", "b")
HOSTS = ("scheduler", "fleet")
FAULT_SECONDS = 2.0  # about what a fault and the pause before it take: jobs are as long as that
PAUSES = (0.2, 1.5)  # between two faults, in seconds
LASTS = (0.3, 3.0)  # seconds of a fault that has an end
STEPS = (-7200.0, -90.0, -5.0, 5.0, 90.0, 7200.0)  # of the scheduler's clock
STUCK_SECONDS = 90.0  # without an ended job, when nothing is broken any more


@dataclass(kw_only=True)
class Chaos:
    """A lab, and the ways to break it."""

    lab: Lab
    postgres: PostgresPair
    proxy: HalfOpenProxy
    keys: HostKeys
    random: random.Random
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.late = ""  # the host that has not got the new key yet
        self.clock = self.lab.folder / "clock"
        os.environ["PLANTED_CLOCK"] = str(self.clock)
        self.scheduler = self.start_scheduler()
        self.fleet = self.start_fleet()
        for name in DEVICES:
            self.lab.await_device(name)

    def strike(self, kind: str) -> None:
        """Break one thing, mend it, and start what has died, as the host's init does."""
        FAULTS[kind](self)
        self.done[kind] += 1
        self.revive()

    def revive(self) -> None:
        """Start scheduler and fleet again if they are gone."""
        if not alive(self.scheduler.pid):
            self.scheduler = self.start_scheduler()
        if not alive(self.fleet.pid):
            self.fleet = self.start_fleet()

    def start_scheduler(self, log: str = "scheduler") -> Process:
        """A scheduler with the keys of its host."""
        return self._start("scheduler", "planted_scheduler", "", log=log)

    def start_fleet(self) -> Process:
        """A parent of the workers of all devices, with the keys of their host."""
        return self._start("fleet", "planted_fleet", *DEVICES, log="fleet")

    def lasting(self) -> None:
        """Let the fault last."""
        time.sleep(self.random.uniform(*LASTS))

    def workers(self) -> list[int]:
        """The process of each device, as far as they run."""
        return children(self.fleet.pid)

    def kill_runner(self) -> None:
        """kill -9 of a process that runs jobs."""
        _kill_one(self, [pid for worker in self.workers() for pid in children(worker)])

    def kill_worker(self) -> None:
        """kill -9 of the process of a device."""
        _kill_one(self, self.workers())

    def kill_fleet(self) -> None:
        """kill -9 of the parent of all workers."""
        self.fleet.kill()
        self.fleet.wait()

    def stop_fleet(self) -> None:
        """SIGTERM to the fleet, as an upgrade does."""
        self.fleet.terminate()
        self.lasting()
        self.fleet.kill()
        self.fleet.wait()

    def kill_scheduler(self) -> None:
        """kill -9 of the scheduler."""
        self.scheduler.kill()
        self.scheduler.wait()

    def second_scheduler(self) -> None:
        """Two schedulers for a while."""
        other = self.start_scheduler("scheduler-2")
        self.lasting()
        other.kill()
        other.wait()

    def second_worker(self) -> None:
        """Two workers of one device for a while."""
        name = self.random.choice(DEVICES)
        other = self._start("fleet", "vkbench_worker.service.main", name, log="worker-2")
        self.lasting()
        other.kill()
        other.wait()

    def freeze_worker(self) -> None:
        """A worker stands still for longer than its lease lives, perhaps."""
        self._frozen(self.workers())

    def freeze_scheduler(self) -> None:
        """The scheduler stands still."""
        self._frozen([self.scheduler.pid])

    def kill_redis(self) -> None:
        """kill -9 of Redis, which comes back with what it had written."""
        self.lab.redis.kill()
        self.lasting()
        self.lab.redis.start()

    def flush_redis(self) -> None:
        """Redis forgets everything."""
        self.lab.redis.client.flushall()

    def freeze_redis(self) -> None:
        """Redis answers nobody."""
        self.lab.redis.freeze(self.random.uniform(*LASTS) * 3)

    def fill_redis(self) -> None:
        """Redis refuses to take more."""
        self.lab.redis.client.config_set("maxmemory", "1mb")
        self.lasting()
        self.lab.redis.client.config_set("maxmemory", "0")

    def half_open(self) -> None:
        """The network drops every packet to Redis, then the connections are reset."""
        self.proxy.silence()
        time.sleep(self.random.uniform(*LASTS) * 3)
        self.proxy.heal()

    def forget_connections(self) -> None:
        """The network drops every packet of the connections to Redis that are open now."""
        self.proxy.forget()

    def kill_postgres(self) -> None:
        """PostgreSQL crashes and comes back."""
        self.postgres.primary.stop()
        self.lasting()
        self.postgres.primary.start()

    def read_only_postgres(self) -> None:
        """PostgreSQL takes no writes, as a standby does."""
        self.postgres.primary.set("default_transaction_read_only = on")
        self.lasting()
        self.postgres.primary.set("default_transaction_read_only = off")

    def fail_over(self) -> None:
        """PostgreSQL's server dies, its standby takes its place; the dead one is made a standby."""
        self.postgres.fail_over()
        self.lasting()
        self.postgres.add_standby()

    def stop_standby(self) -> None:
        """PostgreSQL's standby is away: all commits wait for it."""
        self.postgres.standby.stop()
        self.lasting()
        self.postgres.standby.start()

    def change_keys(self) -> None:
        """One of three steps by which keys change; perhaps a host gets the new key too late."""
        step = self.keys.take_step()
        if step == 1:
            self.late = self.random.choice(["", *HOSTS])
        for host in sorted(HOSTS, key=self.late.__eq__):
            if host == self.late and step == 1:
                continue
            if host == self.late and step == 2:
                until(self._awaits_keys, "no reason is given why the devices wait", 60)
            self._give_keys(host)

    def fill_disk(self) -> None:
        """Workers cannot write files."""
        workers = [self.fleet.pid, *self.workers()]
        for pid in workers:
            _limit_files(pid, 0)
        self.lasting()
        for pid in filter(alive, workers):
            _limit_files(pid, resource.RLIM_INFINITY)

    def step_clock(self) -> None:
        """The scheduler's clock jumps, and back."""
        self.clock.write_text(str(self.random.choice(STEPS)))
        self.lasting()
        self.clock.write_text("0")

    def _start(self, host: str, module: str, *words: str, log: str) -> Process:
        keys = str(self.keys.of(host))
        return self.lab.start("-m", module, *words, log=log, VKBENCH_KEYS=keys)

    def _give_keys(self, host: str) -> None:
        """Bring a host the keys as they are now, and restart what it runs."""
        self.keys.copy_to(host)
        process: Process = getattr(self, host)
        process.terminate()
        process.wait()
        self.revive()

    def _awaits_keys(self) -> bool:
        """Whether the scheduler says of all devices that keys keep them waiting."""
        word = self.lab.redis.client.get(wire.UNFIT)
        if not isinstance(word, bytes):
            return False
        keys = read_keys(replace(self.lab.settings, keys=str(self.keys.of("scheduler"))))
        reasons = wire.unpack(word, Unfit, keys).devices
        return all("key" in reasons.get(self.lab.key(name), "") for name in DEVICES)

    def _frozen(self, pids: Sequence[int]) -> None:
        if not pids:
            return
        pid = self.random.choice(pids)
        os.kill(pid, signal.SIGSTOP)
        self.lasting()
        self.lasting()
        os.kill(pid, signal.SIGCONT)


_OF_THE_LAB = ("strike", "revive", "lasting", "workers", "start_scheduler", "start_fleet")
FAULTS: dict[str, Callable[[Chaos], None]] = {
    name: act
    for name, act in vars(Chaos).items()
    if not name.startswith("_") and name not in _OF_THE_LAB and callable(act)
}


def _kill_one(chaos: Chaos, pids: Sequence[int]) -> None:
    if pids:
        os.kill(chaos.random.choice(pids), signal.SIGKILL)


def _limit_files(pid: int, most: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


def run(
    folder: Path,
    *,
    jobs: int,
    faults: int,
    seed: int,
    only: Sequence[str] = (),
    surely: Sequence[str] = (),
) -> str:
    """Submit jobs, break things, mend all, and wait; AssertionError says what was lost.

    Faults are of any kind, or `only` of some; those that come `surely` are among them.
    """
    with _chaos(folder, seed) as chaos:
        lab = chaos.lab
        began = time.monotonic()
        rest = chaos.random.choices(list(only) or list(FAULTS), k=faults - len(surely))
        kinds = [*surely, *rest]
        chaos.random.shuffle(kinds)
        case = f"sleep/f32/n{1 + round(1000 * len(DEVICES) * FAULT_SECONDS * faults / jobs)}"
        runs: list[int] = []
        waves = max(1, min(20, faults))
        for wave in range(waves):
            runs += submit(lab, case, jobs // waves)
            for _ in range(faults * (wave + 1) // waves - faults * wave // waves):
                time.sleep(chaos.random.uniform(*PAUSES))
                chaos.strike(kinds.pop())
        await_all(lab, runs)
        lab.check(*runs)
        return summary(lab, runs, chaos.done, time.monotonic() - began)


def submit(lab: Lab, case: str, jobs: int) -> list[int]:
    """A run for each device, as soon as the database takes them."""
    shares = [len(range(number, jobs, len(DEVICES))) for number in range(len(DEVICES))]
    return [
        lab.submit([case] * share, device) for device, share in zip(DEVICES, shares, strict=True)
    ]


def await_all(lab: Lab, runs: Sequence[int]) -> None:
    """Wait for the end of all; a lab that does not move any more is stuck."""
    ended, since = -1, time.monotonic()
    while True:
        now = sum(lab.ended(run) for run in runs)
        if all(lab.ended(run) == sum(lab.counts(run).values()) for run in runs):
            return
        if now != ended:
            ended, since = now, time.monotonic()
        left = {run: dict(lab.counts(run)) for run in runs if lab.counts(run)}
        assert time.monotonic() - since < STUCK_SECONDS, f"stuck: {left}"
        time.sleep(0.5)


def summary(lab: Lab, runs: Sequence[int], done: Counter[str], seconds: float) -> str:
    """What came of the jobs, and what was done to them."""
    rows = [row for run in runs for row in lab.jobs(run)]
    states = Counter(row.state for row in rows)
    attempts = [attempt for run in runs for attempt in lab.attempts(run)]
    errors = {reason for _, _, outcome, reason in attempts if outcome == Outcome.ERROR}
    assert not errors, f"workers blame jobs: {errors}"
    for row in rows:
        assert row.state == JobState.PASSED or row.tries >= 3, f"job {row.id}: {row.state}"
    told = ", ".join(f"{name} {count}" for name, count in sorted(done.items()))
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    return (
        f"{len(rows)} jobs: {counts}; {len(attempts)} attempts; lost 0, twice 0, stuck 0\n"
        f"{sum(done.values())} faults in {seconds:.0f} s: {told}"
    )


@contextmanager
def _chaos(folder: Path, seed: int) -> Iterator[Chaos]:
    with own_servers(folder) as (server, redis), ExitStack() as stack:
        server.make_database("chaos")
        postgres = PostgresPair(server)
        stack.callback(postgres.close)
        proxy = HalfOpenProxy(redis.port)
        stack.callback(proxy.close)
        lab = Lab(
            folder=folder,
            database_url=postgres.url("chaos"),
            redis=redis,
            changes={"redis": f"redis://127.0.0.1:{proxy.port}/0"},
        )
        stack.callback(lab.close)
        keys = HostKeys(folder / "keys", HOSTS)
        yield Chaos(lab=lab, postgres=postgres, proxy=proxy, keys=keys, random=random.Random(seed))


def main() -> int:
    """Run it as the command line says; what the processes logged stays if something failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", action="append", default=[], choices=list(FAULTS))
    asked = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="vkbench-chaos-"))
    try:
        print(run(folder, **vars(asked)))
    except AssertionError as error:
        print(f"seed {asked.seed}: {error}\nlogs: {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
