"""Programs that answer lines: judged by our reference where they can be, and never believed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from planted_lines import COPY, NAME, RIGHT, SUM, add_program
from vkbench.job import Arm, ArmKind, Job, Mode, Outcome, Pair
from vkbench.programs.build import Build
from vkbench.result import HOT, Result, Side, WrongArm, unpack_samples
from vkbench.settings import Settings, settings
from vkbench_worker.peers.processes import Peers
from vkbench_worker.protocol import Ready
from vkbench_worker.runtime.null import NullDevice

pytestmark = pytest.mark.slow

NULL = NullDevice()
READY = Ready(facts=NULL.facts, environment=NULL.environment)
WRONG = "values = add(request); values[100] += 1; write(request, values); say()"

Plant = Callable[[str], Build]
Do = Callable[[Job], Result]


@pytest.fixture
def host() -> Settings:
    return settings()


@pytest.fixture
def plant(host: Settings, tmp_path: Path) -> Plant:
    """A build of the program with a body of its own."""
    return lambda body: add_program(host, body, tmp_path / "program")


@pytest.fixture
def do(host: Settings) -> Iterator[Do]:
    with ThreadPoolExecutor(1) as parent:
        peers = Peers(host, parent)

        def do_job(job: Job) -> Result:
            result = peers.do_builds(job, READY, lambda: False)
            assert result
            return result

        yield do_job
        peers.close()


def job_of(build: Build, case: str = SUM, **changes: object) -> Job:
    job = Job(
        id=7,
        token=3,
        case=case,
        mode=Mode.PERFORMANCE,
        variant=NAME,
        bundle=build.sha,
        arm_kind=ArmKind.BUILD,
        measure_seconds=0.1,
    )
    return replace(job, **changes)  # type: ignore[arg-type]


def pair_of(new: Build, old: Build) -> Job:
    pair = Pair(old=Arm(name=old.sha, kind=ArmKind.BUILD), metric=HOT)
    return job_of(new, mode=Mode.PAIRED, pair=pair)


def test_a_right_output_is_judged_by_our_reference_and_its_timing_kept(
    plant: Plant, do: Do
) -> None:
    build = plant(RIGHT)
    result = do(job_of(build))
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    assert result.verdict
    assert (result.verdict.passed, result.verdict.compared) == (True, 512)
    assert (result.variant, result.bundle, result.device) == (NAME, build.sha, NULL.facts.key)
    [timing] = result.timings
    assert (timing.metric, timing.clock, timing.count) == (HOT, "host", 60)
    assert unpack_samples(timing.samples)[:2] == pytest.approx([2e-6, 3e-6])
    assert timing.bytes_moved == 3 * 2048
    assert timing.warnings == ("the program says that this includes one call",)
    checked = do(job_of(build, mode=Mode.CORRECTNESS))
    assert (checked.outcome, checked.timings) == (Outcome.PASSED, ())


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (WRONG, "1 of 512 elements of y are not exactly the reference"),
        (f"if is_timed:\n    {WRONG}\nelse:\n    {RIGHT}", "differ between two runs"),
        ("write(request, array.array('f', [float('nan')] * 512)); say()", "are NaN or Inf"),
        ("write(request, array.array('I', [0x7FC07FC0] * 512)); say()", "were never written"),
        ("write(request, add(request)); say(verdict='wrong', reason='I saw it')", "I saw it"),
    ],
)
def test_a_wrong_output_is_wrong_and_not_timed(
    plant: Plant, do: Do, body: str, reason: str
) -> None:
    result = do(job_of(plant(body)))
    assert result.outcome is Outcome.WRONG
    assert reason in result.reason
    assert result.timings == ()
    assert result.verdict
    assert not result.verdict.passed


def test_without_an_output_the_verdict_is_the_programs_own(plant: Plant, do: Do) -> None:
    build = plant("say()")
    for case in (SUM, COPY):
        result = do(job_of(build, case))
        assert (result.outcome, result.case) == (Outcome.PASSED, case)
        assert result.timings[0].warnings == ("judged by the program itself",)
        assert result.verdict
        assert (result.verdict.path, result.verdict.compared) == ("program", 0)
    assert result.timings[0].bytes_moved == 0
    result = do(job_of(plant("say(verdict='wrong', reason='it differs')"), COPY))
    assert result.outcome is Outcome.WRONG
    assert result.reason == "it differs (judged by the program itself)"
    result = do(job_of(plant("say(verdict='skipped', reason='no such case')"), COPY))
    assert (result.outcome, result.reason) == (Outcome.SKIPPED, "no such case")
    result = do(job_of(plant("say(verdict='failed')"), COPY))
    assert (result.outcome, result.reason) == (Outcome.ERROR, "the program gives no reason")


REFUSED = {
    "say(verdict='fine')": "its verdict is 'fine', none of passed, wrong, skipped, failed",
    "say(samples=[])": "it has no samples, and a timing was asked for",
    # both lines come in one write, so that the second is there when the first is read
    'os.write(1, b\'{"verdict": "passed"}\\n.\\n\')': "it printed a line before it was asked",
    "while True: sys.stdout.write('x' * 65536)": "it is a line of more than 16777216 bytes",
    "while True: sys.stdout.write('x' * 99 + chr(10))": "it is no JSON: 'xxx",
    "write(request, add(request)[1:]); say()": "y.out has 2044 bytes, and the array has 2048",
    "is_timed or write(request, add(request)); say()": "the outputs were written once",
}


@pytest.mark.parametrize("body", REFUSED)
def test_what_is_no_answer_is_refused(plant: Plant, do: Do, body: str) -> None:
    result = do(job_of(plant(body)))
    assert (result.outcome, result.timings) == (Outcome.ERROR, ())
    assert result.reason.startswith(f"the program's answer is refused: {REFUSED[body]}")
    assert "\n" not in result.reason
    assert len(result.reason) < 300


@pytest.mark.parametrize(
    ("body", "outcome", "reason"),
    [
        ("sys.exit(3)", Outcome.CRASHED, "the program ended without an answer: exit 3"),
        ("sys.exit('no device')", Outcome.CRASHED, "without an answer: exit 1: no device"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", Outcome.CRASHED, "without an answer: SIGSEGV"),
        ("os.close(1); time.sleep(60)", Outcome.CRASHED, "without an answer: SIGKILL"),
        ("time.sleep(60)", Outcome.TIMED_OUT, "no answer within 3 s"),
        ("while True: sys.stderr.write('x' * 65536)", Outcome.TIMED_OUT, "no answer within 3 s"),
    ],
)
def test_a_program_that_ends_or_is_silent_is_told(
    plant: Plant, do: Do, body: str, outcome: Outcome, reason: str
) -> None:
    seconds = 3.0 if outcome is Outcome.TIMED_OUT else 30.0
    result = do(job_of(plant(body), limit_seconds=seconds))
    assert result.outcome is outcome
    assert reason in result.reason


def test_a_program_stays_for_the_next_case(plant: Plant, do: Do) -> None:
    build = plant("say(verdict='skipped', reason=str(os.getpid()))")
    first, second = (do(job_of(build, COPY)).reason for _ in range(2))
    assert first == second


def test_what_fails_costs_its_case_alone(plant: Plant, do: Do) -> None:
    build = plant("say() if request['case'] == 'good' else sys.exit(1)")
    cases = [f"{NAME}:{name}" for name in ("good", "bad", "good")]
    outcomes = [do(job_of(build, case)).outcome for case in cases]
    assert outcomes == [Outcome.PASSED, Outcome.CRASHED, Outcome.PASSED]


def test_a_program_is_contained(plant: Plant, do: Do, host: Settings, tmp_path: Path) -> None:
    attempts = (
        "socket.create_connection(('127.0.0.1', 9))",
        f"open({str(tmp_path / 'new')!r}, 'w')",
        "open('new', 'w')",  # in the build's folder
        f"os.listdir({str(host.program_folder())!r})",
        "os.setsid()",
    )
    tried = "\n".join(
        f"try:\n    {attempt}; refused.append('no')\nexcept PermissionError: refused.append('yes')"
        for attempt in attempts
    )
    body = f"refused = []\n{tried}\nsay(verdict='skipped', reason=' '.join(refused))"
    assert do(job_of(plant(body), COPY)).reason == "yes yes yes yes yes"


@pytest.mark.parametrize("end", ["sys.exit(1)", "time.sleep(60)"])
def test_what_a_program_forked_ends_with_its_case(plant: Plant, do: Do, end: str) -> None:
    body = f"""\
child = os.fork()
if child == 0:
    sys.stdout.close(); os.close(1); os.close(2); time.sleep(600)
sys.stderr.write(f"forked {{child}}" + chr(10)); sys.stderr.flush()
if request['case'] == 'told':
    say(verdict='skipped', reason=str(child))
else:
    {end}"""
    build = plant(body)
    forked = int(do(job_of(build, f"{NAME}:told")).reason)
    assert is_there(forked)
    do(job_of(build, COPY, limit_seconds=1.0))
    until = time.monotonic() + 10
    while is_there(forked) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_there(forked)


def is_there(pid: int) -> bool:
    """Whether a process runs; one that waits to be reaped does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_pair_of_builds_takes_turns_and_names_the_wrong_one(
    plant: Plant, do: Do, host: Settings, tmp_path: Path
) -> None:
    old = plant(RIGHT)
    slow = add_program(
        host, f"# slower\n{RIGHT.replace('say(', 'say(samples=[4e-6] * 60, ')}", tmp_path / "slow"
    )
    result = do(pair_of(slow, old))
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    assert [timing.side for timing in result.timings] == [Side.OLD, Side.NEW]
    assert result.timings[1].seconds / result.timings[0].seconds == pytest.approx(2)
    wrong = add_program(host, WRONG, tmp_path / "wrong")
    result = do(pair_of(wrong, old))
    assert result.outcome is Outcome.WRONG
    assert result.verdict
    assert result.verdict.wrong_arm is WrongArm.NEW
    own = replace(
        pair_of(add_program(host, "say(verdict='wrong')", tmp_path / "own"), old), case=COPY
    )
    result = do(own)
    assert result.outcome is Outcome.CRASHED
    assert result.reason.startswith("old: the program ended without an answer")  # it adds alone
    result = do(
        replace(own, pair=Pair(old=Arm(name=plant("say()").sha, kind=ArmKind.BUILD), metric=HOT))
    )
    assert (result.outcome, result.reason) == (
        Outcome.WRONG,
        "new: the program gives no reason (judged by the program itself)",
    )


def test_a_whole_model_is_not_asked_of_it(plant: Plant, do: Do) -> None:
    result = do(job_of(plant(RIGHT), "model/llama-8b-q4_K_M-0123456789ab/pp512"))
    assert (result.outcome, result.reason) == (
        Outcome.SKIPPED,
        "whole models are asked of ggml alone",
    )


def test_a_declared_arithmetic_is_for_products(plant: Plant, host: Settings) -> None:
    from vkbench.programs.registry import ProgramStore
    from vkbench_shaders.catalogue import problem
    from vkbench_worker.peers.programs.lines import arithmetic_of

    plant(RIGHT)
    plain = ProgramStore(host.program_folder()).find(NAME)
    halves = replace(plain, arithmetic="f16_accumulation")
    product, addition = problem("mul_mat/f16/m17_n5_k64"), problem(SUM)
    assert arithmetic_of(product, plain) == "f32"
    assert arithmetic_of(product, halves) == "f16_accumulation"
    assert arithmetic_of(addition, halves) == arithmetic_of(addition, plain)


def test_nothing_of_a_case_stays(plant: Plant, do: Do, host: Settings) -> None:
    before = set((host.cache / "programs").glob("*"))  # of tests that kill what runs
    do(job_of(plant(f"open(os.environ['TMPDIR'] + '/more', 'w').write('x'); {RIGHT}")))
    folders = set((host.cache / "programs").iterdir()) - before
    assert folders
    assert [place for folder in folders for place in folder.iterdir()] == []
