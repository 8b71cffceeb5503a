"""The supervisor with a planted runner: every way a job can end, and that the next one runs."""

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from planted_runner import events_path
from vkbench.job import Job, Mode, Outcome
from vkbench.result import UNOPENED, Result
from vkbench.settings import Sandbox, Settings
from vkbench_worker.containment.support import Support
from vkbench_worker.errors import RunnerFailed
from vkbench_worker.owner.child import MOST_NOTICES, Child, Gone, Silence
from vkbench_worker.owner.supervisor import AHEAD_JOBS, Supervisor
from vkbench_worker.protocol import Stage


def job(number: int, act: str = "sleep/f32/n1", limit: float = 20) -> Job:
    return Job(id=number, token=1, case=act, mode=Mode.CORRECTNESS, limit_seconds=limit)


def jobs(*acts: str) -> list[Job]:
    return [job(number, act) for number, act in enumerate(acts, 1)]


def run(supervisor: Supervisor, work: list[Job]) -> list[Result]:
    results: list[Result] = []
    supervisor.run(work, results.append)
    return results


def outcomes(results: list[Result]) -> list[tuple[int, Outcome]]:
    return [(result.job, result.outcome) for result in results]


def events(kept: Settings, kind: str) -> list[int]:
    path = events_path(kept)
    lines = path.read_text().split("\n") if path.exists() else []
    return [int(line.split()[2]) for line in lines if line.startswith(kind)]


def until(done: Callable[[], object], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_results_come_in_order_and_signed(supervisor: Supervisor) -> None:
    ready = supervisor.start()
    results = run(supervisor, jobs(*["sleep/f32/n1"] * 5))
    assert outcomes(results) == [(n, Outcome.PASSED) for n in range(1, 6)]
    assert {result.device for result in results} == {ready.facts.key}
    assert {result.environment for result in results} == {ready.environment.hash}
    assert all(result.case and result.worker.startswith("here:") for result in results)


def test_more_jobs_than_a_pipe_holds_do_not_block(supervisor: Supervisor) -> None:
    work = [job(n, f"sleep/f32/n1/pad={'x' * 2000}") for n in range(1, 301)]
    assert len(run(supervisor, work)) == 300


def test_full_stderr_does_not_block(supervisor: Supervisor) -> None:
    results = run(supervisor, jobs("flood/f32/n1", "sleep/f32/n1"))
    assert outcomes(results) == [(1, Outcome.PASSED), (2, Outcome.PASSED)]


def test_a_deadline_holds_while_stderr_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Child, "_pass_on", lambda *_: time.sleep(0.001))  # it writes faster
    child = Child([sys.executable, "-c", "import os\nwhile True: os.write(2, b'x' * 9999)"], {})
    with closing(child):
        ended = threading.Timer(5, child.kill)
        ended.start()
        with pytest.raises(Silence):
            child.line(time.monotonic() + 0.5)
        ended.cancel()


@pytest.mark.parametrize(
    ("said", "is_line"),
    [
        ("", False),
        ("begun", False),
        ("stage {}\n", False),
        ("stage {}\nend\n", False),
        ("end\n", True),
        ("one\ntwo", True),
    ],
)
def test_whether_an_answer_is_there_is_known_without_a_wait(said: str, is_line: bool) -> None:
    command = [sys.executable, "-c", f"print({said!r}, end='', flush=True); input()"]
    with closing(Child(command, os.environ)) as child:
        end = time.monotonic() + (10 if is_line else 1)
        while not child.has_line() and time.monotonic() < end:
            time.sleep(0.01)
        assert child.has_line() == is_line
        if is_line:
            assert child.line(0.0) == said.splitlines()[0].encode()


def test_a_list_of_bundles_that_took_the_place_of_another_starts_a_runner(
    planted: Settings, tmp_path: Path
) -> None:
    listed = tmp_path / "list"
    listed.write_text("")
    with Supervisor("0", replace(planted, bundles=str(listed))) as supervisor:
        supervisor.start()
        pids = []
        for bundle in ("ab" * 32, "ab" * 32, "", "ab" * 32):
            run(supervisor, [replace(job(1), bundle=bundle)])
            pids.append(supervisor.runner_pid)
            if len(pids) == 2:
                (tmp_path / "new").write_text("")
                (tmp_path / "new").rename(listed)
    assert pids[0] == pids[1] == pids[2] != pids[3]


def test_a_runner_s_notices_are_logged_and_are_no_cause_of_death(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    said = "print('it broke'); print('notice: no cache\\n' * 99)"
    child = Child(
        [sys.executable, "-c", f"import sys; sys.stdout = sys.stderr; {said}"], os.environ
    )
    with pytest.raises(Gone):
        child.line(time.monotonic() + 10)
    assert child.wait() == 0
    assert child.last_words() == "it broke"
    child.close()
    assert [record.getMessage() for record in caplog.records] == ["runner_notice"] * MOST_NOTICES


def test_how_far_a_job_is_is_told_and_is_no_answer(planted: Settings) -> None:
    told: list[Stage] = []
    with Supervisor("0", planted, tell=told.append) as supervisor:
        results = run(supervisor, jobs("stages/f32/n3", "sleep/f32/n1"))
    assert outcomes(results) == [(1, Outcome.PASSED), (2, Outcome.PASSED)]
    assert told == [Stage(what="loading x", done=done, total=3) for done in range(3)]


def test_stages_without_end_are_ended_at_the_limit(planted: Settings) -> None:
    with Supervisor("0", planted) as supervisor:
        results = run(supervisor, [job(1, "stages/f32/n0", limit=0.5)])
    assert outcomes(results) == [(1, Outcome.TIMED_OUT)]


@pytest.mark.parametrize(
    ("act", "outcome", "reason"),
    [
        ("no_stage/f32/n1", Outcome.ERROR, "the runner sent an invalid line: a malformed stage"),
        ("segfault/f32/n1", Outcome.CRASHED, "SIGSEGV"),
        ("lose_device/f32/n1", Outcome.DEVICE_LOST, "exit 42: VK_ERROR_DEVICE_LOST"),
        ("babble/f32/n1", Outcome.ERROR, "the runner sent an invalid line"),
        ("overtell/f32/n256", Outcome.PASSED, ""),
        ("overtell/f32/n257", Outcome.ERROR, "telemetry has 257 entries, and 256 are allowed"),
        ("lie/f32/n1", Outcome.ERROR, "expected a result of job 2"),
    ],
)
def test_a_bad_job_gets_its_cause_and_the_rest_run(
    supervisor: Supervisor, planted: Settings, act: str, outcome: Outcome, reason: str
) -> None:
    results = run(supervisor, jobs("sleep/f32/n1", act, "sleep/f32/n1", "sleep/f32/n1"))
    passed = Outcome.PASSED
    assert outcomes(results) == [(1, passed), (2, outcome), (3, passed), (4, passed)]
    assert reason in results[1].reason
    ends = [events(planted, "end").count(n) for n in (1, 3, 4)]
    # A runner that lives on may run the next job before it is killed: that one runs again.
    repeated = [[1, 2, 1], [1, 2, 2]] if outcome is Outcome.ERROR else []
    assert ends in [[1, 1, 1], *repeated]


def test_a_crash_ahead_of_its_job_is_blamed_on_another_once(
    supervisor: Supervisor, planted: Settings
) -> None:
    good, bad = "sleep/f32/n1", "unmakeable/f32/n1"
    results = run(supervisor, jobs(good, good, bad, good, bad, good))
    passed, crashed = Outcome.PASSED, Outcome.CRASHED
    assert outcomes(results) == [
        (1, crashed),
        (2, passed),
        (3, crashed),
        (4, passed),
        (5, crashed),
        (6, passed),
    ]
    for work, outcome in ((job(1, good), passed), (job(3, bad), crashed)):  # tried again, alone
        assert outcomes(run(supervisor, [work])) == [(work.id, outcome)]
    assert [events(planted, "end").count(n) for n in (1, 2, 3, 4, 5, 6)] == [1, 1, 0, 1, 0, 1]


def test_what_a_runner_started_ends_with_it(
    kernel: Support, supervisor: Supervisor, planted: Settings
) -> None:
    (result,) = run(supervisor, [job(1, "swarm/f32/n8", limit=1)])
    assert result.outcome is Outcome.TIMED_OUT
    lines = events_path(planted).read_text().split("\n")
    children = [int(line.split()[1]) for line in lines if line.startswith("child")]
    assert len(children) == 8
    until(lambda: all(map(gone, children)))
    assert outcomes(run(supervisor, jobs("sleep/f32/n1"))) == [(1, Outcome.PASSED)]


def test_each_pair_has_a_runner_that_did_nothing_before(
    supervisor: Supervisor, planted: Settings
) -> None:
    plain, pair = "sleep/f32/n1", "sleep/f32/n2"
    acts = [pair, plain, plain, pair, pair, plain]
    modes = {plain: Mode.CORRECTNESS, pair: Mode.PAIRED}
    work = [replace(each, mode=modes[each.case]) for each in jobs(*acts)]
    supervisor.start()
    results = run(supervisor, work)
    assert outcomes(results) == [(n, Outcome.PASSED) for n in range(1, 7)]
    pids = [int(line.split()[-1]) for line in events_path(planted).read_text().split("\n")
            if line.startswith("start")]  # fmt: skip
    assert pids[0] == pids[1] == pids[2]
    assert pids[4] == pids[5]
    assert len(set(pids)) == 3
    first, again = results[0], results[3]
    assert again.seconds > first.seconds + 0.03  # what the process took is told


def test_a_pair_that_crashes_its_runner_leaves_the_next_one_a_fresh_one(
    supervisor: Supervisor,
) -> None:
    work = [replace(each, mode=Mode.PAIRED) for each in jobs("segfault/f32/n1", "sleep/f32/n1")]
    results = run(supervisor, work)
    assert outcomes(results) == [(1, Outcome.CRASHED), (2, Outcome.PASSED)]
    assert results[0].bundle  # the packaged one's hash


def test_a_bounded_number_of_jobs_is_sent_ahead(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    send = Child.send

    def noted(child: Child, data: bytes) -> None:
        sent.append(data.count(b"\n"))
        send(child, data)

    monkeypatch.setattr(Child, "send", noted)
    answered: list[int] = []

    def emit(result: Result) -> None:
        answered.append(result.job)
        assert sum(sent) - len(answered) <= AHEAD_JOBS

    supervisor.run([job(n) for n in range(1, 3 * AHEAD_JOBS)], emit)
    assert answered == list(range(1, 3 * AHEAD_JOBS))
    assert sent[0] == AHEAD_JOBS


def test_a_hang_that_holds_the_interpreter_ends_at_its_limit(supervisor: Supervisor) -> None:
    supervisor.start()
    began = time.monotonic()
    results = run(supervisor, [job(1, "hang/f32/n1", limit=0.5), job(2)])
    assert outcomes(results) == [(1, Outcome.TIMED_OUT), (2, Outcome.PASSED)]
    assert 1.0 <= results[0].seconds < 10
    assert time.monotonic() - began < 30


def test_a_limit_counts_from_the_jobs_own_turn(supervisor: Supervisor) -> None:
    work = [job(n, "sleep/f32/n400", limit=0.2) for n in range(1, 5)]
    assert {outcome for _, outcome in outcomes(run(supervisor, work))} == {Outcome.PASSED}


def test_a_killed_runner_costs_one_job(supervisor: Supervisor) -> None:
    supervisor.start()
    pid = supervisor.runner_pid
    assert pid
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    results = run(supervisor, jobs("sleep/f32/n1000", "sleep/f32/n1"))
    assert outcomes(results) == [(1, Outcome.CRASHED), (2, Outcome.PASSED)]
    assert results[0].reason == "SIGKILL"


def test_a_runner_killed_between_chunks_costs_nothing(supervisor: Supervisor) -> None:
    supervisor.start()
    pid = supervisor.runner_pid
    assert pid
    os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid))
    assert outcomes(run(supervisor, [job(1)])) == [(1, Outcome.PASSED)]


def test_a_runner_that_cannot_start_says_why(
    planted: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vkbench_worker.owner.supervisor.START_PAUSES", (0.0, 0.0))
    with Supervisor("none", planted) as supervisor:
        with pytest.raises(RunnerFailed, match="no Vulkan device: install a driver"):
            supervisor.start()
        results = run(supervisor, jobs("sleep/f32/n1", "sleep/f32/n1"))
    assert outcomes(results) == [(1, Outcome.DEVICE_LOST), (2, Outcome.DEVICE_LOST)]
    assert results[0].reason == "no Vulkan device: install a driver"
    assert all(each.telemetry == {UNOPENED: 1.0} for each in results)  # no case is to blame


def test_cancelled_jobs_are_left_out(supervisor: Supervisor, planted: Settings) -> None:
    results: list[Result] = []
    work = jobs(*["sleep/f32/n1"] * 4)
    supervisor.run(work, results.append, cancelled=lambda job: job.id in (1, 3))
    assert [result.job for result in results] == [2, 4]
    assert events(planted, "start").count(1) == 0


def test_cancelling_ends_the_running_job_too(supervisor: Supervisor) -> None:
    supervisor.start()
    off = threading.Event()
    threading.Timer(0.3, off.set).start()
    results: list[Result] = []
    began = time.monotonic()
    work = jobs("sleep/f32/n9000", "sleep/f32/n1")
    supervisor.run(work, results.append, cancelled=lambda job: job.id == 1 and off.is_set())
    assert [result.job for result in results] == [2]
    assert time.monotonic() - began < 8  # the job takes nine


def test_abort_ends_all_at_once(supervisor: Supervisor) -> None:
    supervisor.start()
    threading.Timer(0.3, supervisor.abort).start()
    began = time.monotonic()
    assert run(supervisor, jobs("sleep/f32/n9000", "sleep/f32/n1")) == []
    assert time.monotonic() - began < 8


def test_drain_finishes_the_running_job(supervisor: Supervisor) -> None:
    supervisor.start()
    threading.Timer(0.2, supervisor.drain).start()
    results = run(supervisor, jobs("sleep/f32/n600", "sleep/f32/n600", "sleep/f32/n600"))
    assert outcomes(results) == [(1, Outcome.PASSED)]


def test_the_runner_gets_no_credentials(planted: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VKBENCH_DATABASE", "postgresql://user:secret@db/x")
    told = replace(
        planted,
        database="postgresql://user:secret@db/x",
        redis="redis://:secret@r/0",
        alert_webhook="https://chat/secret",
        alert_secret="secret",
        alert_urls="mailto://user:secret@mail",
    )
    with Supervisor("0", told) as supervisor:
        supervisor.start()
        environ = Path(f"/proc/{supervisor.runner_pid}/environ").read_bytes()
    assert b"secret" not in environ
    assert f"VKBENCH_DATA={planted.data}".encode() in environ


PREDECESSOR = """
import sys
from vkbench.job import Job, Mode
from vkbench.settings import settings
from vkbench_worker.owner.supervisor import Supervisor
with Supervisor("0", settings()) as supervisor:
    supervisor.start()
    print(supervisor.runner_pid, flush=True)
    job = Job(id=41, token=7, case=sys.argv[1], mode=Mode.CORRECTNESS)
    supervisor.run([job], lambda result: None)
    input()
"""


def predecessor(kept: Settings, act: str) -> "subprocess.Popen[str]":
    environ = os.environ | {
        "VKBENCH_RUNNER": kept.runner,
        "VKBENCH_HOST": kept.host,
        "VKBENCH_SANDBOX": kept.sandbox,
    }
    command = [sys.executable, "-c", PREDECESSOR, act]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, text=True)


def test_a_dead_predecessors_job_is_reported_once(planted: Settings) -> None:
    with predecessor(planted, "sleep/f32/n30000") as dead:
        assert dead.stdout
        runner = int(dead.stdout.readline())
        until(lambda: events(planted, "start"))
        dead.kill()
        dead.wait()
        until(lambda: gone(runner), 2)
    with Supervisor("0", planted) as supervisor:
        supervisor.start()
        left = supervisor.recover()
        assert left
        assert (left.job, left.token, left.outcome) == (41, 7, Outcome.WORKER_DIED)
        assert supervisor.recover() is None
    with Supervisor("0", planted) as supervisor:
        supervisor.start()
        assert supervisor.recover() is None


def test_a_marker_of_another_database_is_not_ours(planted: Settings) -> None:
    free = replace(planted, sandbox=Sandbox.OFF)  # a contained runner can kill nobody
    with predecessor(free, "kill_worker/f32/n1") as dead:
        dead.wait()
    with Supervisor("0", replace(planted, database="sqlite:///other.db")) as supervisor:
        supervisor.start()
        assert supervisor.recover() is None


def test_a_second_supervisor_waits_for_the_device_even_over_a_crash(planted: Settings) -> None:
    ready = threading.Event()
    with Supervisor("0", planted) as first, Supervisor("0", planted) as second:
        first.start()

        def wait() -> None:
            second.start()
            ready.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        results = run(first, jobs("segfault/f32/n1", "sleep/f32/n300", "segfault/f32/n1"))
        assert [result.outcome for result in results] == [
            Outcome.CRASHED,
            Outcome.PASSED,
            Outcome.CRASHED,
        ]
        assert not ready.is_set()
        first.close()
        waiting.join(10)
        assert ready.is_set()
        assert outcomes(run(second, [job(9)])) == [(9, Outcome.PASSED)]
