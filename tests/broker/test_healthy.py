"""`vkbench healthy` tells a service that goes on from one that is stuck, stopped or not there."""

from __future__ import annotations

import signal
import subprocess
import sys

from cluster import Lab, until


def healthy(lab: Lab, service: str, *words: str) -> tuple[int, str]:
    code = "from vkbench_cli.main import main; raise SystemExit(main())"
    command = [sys.executable, "-c", code, "healthy", service, *words]
    done = subprocess.run(command, env=lab.environ(), capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.strip()


def test_a_wedged_thread_is_found_and_a_scheduler_that_waits_is_well(lab: Lab) -> None:
    assert healthy(lab, "scheduler") == (8, "scheduler: it does not run here")
    scheduler = lab.start_scheduler()
    alive = lab.settings.data / "alive" / "scheduler"
    until(lambda: alive.exists() and len(list(alive.iterdir())) == 4, "no signs", 30)
    lab.redis.kill()  # it waits
    first = (alive / "collect").stat().st_mtime
    until(lambda: (alive / "collect").stat().st_mtime > first + 8, "it does not go on", 30)
    assert healthy(lab, "scheduler", "--within", "8") == (0, "scheduler: well")
    scheduler.terminate()
    assert scheduler.wait(20) == 0
    assert healthy(lab, "scheduler")[0] == 8
    lab.redis.start()
    lab.start_scheduler(dies_at="wedge")
    until(lambda: healthy(lab, "scheduler", "--within", "6")[0] == 0, "it never began", 30)
    until(lambda: healthy(lab, "scheduler", "--within", "6")[0] == 8, "it seems well", 30)
    assert healthy(lab, "scheduler", "--within", "6")[1].startswith("scheduler: collect silent")


def test_a_worker_without_a_lease_is_not_well(lab: Lab) -> None:
    lab.start_scheduler()
    worker = lab.start_worker()
    until(lambda: healthy(lab, "worker") == (0, "worker: well"), "no sign", 20)
    worker.send_signal(signal.SIGSTOP)
    until(lambda: healthy(lab, "worker", "--within", "3")[0] == 8, "it seems well", 20)
    worker.send_signal(signal.SIGCONT)
    until(lambda: healthy(lab, "worker", "--within", "3")[0] == 0, "it seems stuck", 20)
