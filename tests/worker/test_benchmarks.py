"""Programs of Google Benchmark and nvbench: run a case at a time, listed, and told right.

The library of Google Benchmark is Debian's. Of nvbench there is a script that prints what its
documentation and its sources say, for no machine of these tests has a GPU of NVIDIA.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from planted_programs import NAME, add_script
from vkbench.device import NVIDIA
from vkbench.errors import VkbenchError
from vkbench.job import ArmKind, Job, Mode, Outcome
from vkbench.programs.build import Build
from vkbench.programs.registry import ProgramStore
from vkbench.programs.store import BuildStore
from vkbench.result import Result
from vkbench.settings import settings
from vkbench_worker.peers.processes import Peers
from vkbench_worker.peers.programs.benchmarks import UNJUDGED, spell_axis
from vkbench_worker.peers.programs.listing import Listed, list_cases, read_nvbench_list
from vkbench_worker.protocol import Ready
from vkbench_worker.runtime.null import NullDevice

pytestmark = pytest.mark.slow

NULL = NullDevice()
READY = Ready(facts=NULL.facts, environment=NULL.environment)
SUM = "sum/f32/b1_c1_h8_w1024"
GOOGLE = """
#include <benchmark/benchmark.h>
#include <cstring>
#include <vector>
static void BM_Copy(benchmark::State &state) {
  std::vector<char> from(state.range(0)), to(state.range(0));
  for (auto _ : state) { memcpy(to.data(), from.data(), from.size()); benchmark::ClobberMemory(); }
}
BENCHMARK(BM_Copy)->Arg(64)->Arg(4096)->Unit(benchmark::kMillisecond);
static void fails(benchmark::State &state) { state.SkipWithError("no such device"); }
BENCHMARK(fails);
static void sum(benchmark::State &state) {
  float total = 0;
  for (auto _ : state) { state.SetIterationTime(0.25); benchmark::DoNotOptimize(total += 1); }
}
BENCHMARK(sum)->Name("BM_CASE")->UseManualTime()->Iterations(3);
static void BM_vector(benchmark::State &state) { for (auto _ : state) {} }
BENCHMARK(BM_vector)->Name("odd*name");
BENCHMARK_MAIN();
""".replace("CASE", SUM)
NVBENCH_LIST = """\
# Devices

## [0] `NVIDIA H100 80GB HBM3`
* SM Version: 900 (PTX Version: 900)

# Benchmarks

## [0] `copy` (4 configurations)

### Axes

* `T` : type
  * `I32` (int32_t)
  * `F64` (double)
* `N` : int64 [pow2]
  * `20` (2^20 = 1048576)
  * `24` (2^24 = 16777216)

## [1] `plain` (1 configurations)

### Axes

"""
NVBENCH = """\
#!{python} -S
import json, sys
words = sys.argv[1:]
options = dict(zip(words[::2], words[1::2]))
axes = [words[i + 1] for i, word in enumerate(words) if word == "--axis"]
if words == ["--list"]:
    print('''{listed}''')
    sys.exit()
assert options["--devices"] == "0" and float(options["--min-time"]) > 0, words
state = {{"name": "Device=0", "device": 0, "axis_values": [], "is_skipped": False, "summaries": [
    {{"tag": "nv/cold/time/gpu/mean", "data": [{{"name": "value", "value": "2e-3"}}]}},
    {{"tag": "nv/batch/time/gpu/mean", "data": [{{"name": "value", "value": "1.5e-3"}}]}}]}}
if options["--benchmark"] == "plain":
    state |= {{"is_skipped": True, "skip_reason": "too small", "summaries": []}}
elif axes != ["T=F64", "N[pow2]=20"]:
    sys.exit("no such axis: " + " ".join(axes))
document = {{"devices": [{{"id": 0, "name": "NVIDIA H100 80GB HBM3"}}],
            "benchmarks": [{{"name": options["--benchmark"], "states": [state]}}]}}
with open(options["--json"], "w") as file:
    json.dump(document, file)
"""

Do = Callable[..., Result]


@pytest.fixture
def do() -> Iterator[Do]:
    with ThreadPoolExecutor(1) as parent:
        peers = Peers(settings(), parent)

        def do_case(
            build: Build, case: str, ready: Ready = READY, mode: Mode = Mode.PERFORMANCE
        ) -> Result:
            job = Job(
                id=7,
                token=3,
                case=case,
                mode=mode,
                variant=NAME,
                bundle=build.sha,
                arm_kind=ArmKind.BUILD,
                measure_seconds=0.05,
            )
            result = peers.do_builds(job, ready, lambda: False)
            assert result
            return result

        yield do_case
        peers.close()


@pytest.fixture(scope="module")
def google(tmp_path_factory: pytest.TempPathFactory, need: Callable[[str, str], NoReturn]) -> Path:
    """A program of Google Benchmark's library, compiled."""
    if not shutil.which("g++") or not Path("/usr/include/benchmark/benchmark.h").exists():
        need("programs", "g++ or libbenchmark-dev is not installed")
    folder = tmp_path_factory.mktemp("google")
    (folder / "bench.cpp").write_text(GOOGLE)
    command = ["g++", "-O1", "-o", "bench", "bench.cpp", "-lbenchmark", "-lpthread"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


@pytest.fixture
def google_build(google: Path, tmp_path: Path) -> Build:
    binary = (google / "bench").read_bytes()
    return add_script(settings(), binary, tmp_path / "made", adapter="google-benchmark")


def list_of(build: Build) -> Listed:
    program = ProgramStore(settings().program_folder()).find(build.program)
    return list_cases(program, BuildStore(settings().build_folder()).lay_out(build))


def test_benchmarks_of_google_are_listed_and_run_by_name(google_build: Build, do: Do) -> None:
    listed = list_of(google_build)
    assert listed.cases == (
        f"{NAME}:BM_Copy/64",
        f"{NAME}:BM_Copy/4096",
        f"{NAME}:fails",
        f"{NAME}:BM_{SUM}/iterations:3/manual_time",
    )
    assert listed.unnamed == ("odd*name",)
    result = do(google_build, f"{NAME}:BM_Copy/4096")
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    [timing] = result.timings
    assert (timing.count, timing.clock, timing.bytes_moved) == (10, "host", 0)
    assert 1e-9 < timing.seconds < 1e-3  # its unit is milliseconds
    assert timing.warnings == (UNJUDGED,)
    assert result.verdict is None


def test_what_a_benchmark_of_google_says_is_told(google_build: Build, do: Do) -> None:
    result = do(google_build, SUM)
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    [timing] = result.timings
    assert timing.seconds == pytest.approx(0.25)
    assert timing.bytes_moved == 8 * 1024 * 4 + 8 * 4
    result = do(google_build, f"{NAME}:fails")
    assert (result.outcome, result.reason) == (
        Outcome.ERROR,
        "the benchmark says: no such device",
    )
    result = do(google_build, f"{NAME}:BM_Copy")
    assert (result.outcome, result.reason) == (
        Outcome.SKIPPED,
        f"the program has no benchmark {NAME}:BM_Copy",
    )
    result = do(google_build, SUM, mode=Mode.CORRECTNESS)
    assert result.outcome is Outcome.SKIPPED
    assert "shows no outputs to be checked" in result.reason


def test_states_of_nvbench_are_listed_and_run_by_their_axes(do: Do, tmp_path: Path) -> None:
    text = NVBENCH.format(python=sys.executable, listed=NVBENCH_LIST)
    build = add_script(settings(), text, tmp_path / "nv", adapter="nvbench")
    states = [f"{NAME}:copy/T={t}/N=pow2:{n}" for t in ("I32", "F64") for n in (20, 24)]
    assert list_of(build).cases == (*states, f"{NAME}:plain")
    facts = replace(NULL.facts, vendor_id=NVIDIA, uuid="0" * 32)
    result = do(build, states[2], Ready(facts=facts, environment=NULL.environment))
    assert (result.outcome, result.reason) == (Outcome.PASSED, "")
    [timing] = result.timings
    assert (timing.seconds, timing.clock, timing.metric) == (1.5e-3, "gpu", "hot")
    result = do(build, f"{NAME}:plain", Ready(facts=facts, environment=NULL.environment))
    assert (result.outcome, result.reason) == (Outcome.SKIPPED, "the benchmark says: too small")
    result = do(build, states[0], Ready(facts=facts, environment=NULL.environment))
    assert result.outcome is Outcome.CRASHED
    assert result.reason == "exit 1: no such axis: T=I32 N[pow2]=20"
    assert do(build, states[2]).reason.startswith("nvbench times on GPUs of NVIDIA, and ")


def test_axes_are_spelt_as_nvbench_takes_them() -> None:
    assert [spell_axis(axis) for axis in ("N=pow2:6", "T=I32")] == ["N[pow2]=6", "T=I32"]
    assert list(read_nvbench_list(["nothing", "  * `a`", "* `N` : int64"])) == []


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("import sys; sys.exit('no device')", "cannot list its cases: exit 1: no device"),
        ("while True: print('x' * 99)", "cannot list its cases: the program printed over 64 MiB"),
        ("for i in range(20000): print(i)", "the build lists over 10000 cases"),
    ],
)
def test_a_list_is_bounded(tmp_path: Path, body: str, complaint: str) -> None:
    script = f"#!{sys.executable} -S\n{body}\n"
    build = add_script(
        settings(), script, tmp_path / "list", declared=["[cases]", 'list = ["./bench", "--list"]']
    )
    with pytest.raises(VkbenchError, match=complaint):
        list_of(build)


def test_a_command_lists_cases(tmp_path: Path) -> None:
    script = f"#!{sys.executable} -S\nprint('a/1', '', ' b ', 'no*', 'a/1', sep=chr(10))\n"
    build = add_script(
        settings(), script, tmp_path / "list", declared=["[cases]", 'list = ["./bench", "--list"]']
    )
    assert list_of(build) == Listed(cases=(f"{NAME}:a/1", f"{NAME}:b"), unnamed=("no*",))
