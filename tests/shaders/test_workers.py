"""Workers of the compiler: all units once, module by module; what fails is named, nothing hangs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from vkbench_shaders.compile.compiler import CompileError, Compiler, Unit, find
from vkbench_shaders.compile.tree import TREE
from vkbench_shaders.compile.workers import Backlog, compile_all, worker

pytestmark = pytest.mark.slow

COPY = Unit(module="copy", entry="copy")
SGD = Unit(module="optimisers", entry="sgd", arguments=("f32", "f32"))
MISSING = Unit(module="copy", entry="nothing")


@pytest.fixture(params=["library", "slangc"])
def slang(request: pytest.FixtureRequest) -> Compiler:
    """The compiler as it is used: by its library, and by a process a unit."""
    found = find()
    assert found.library
    return found if request.param == "library" else replace(found, library=None)


def test_all_units_are_compiled(slang: Compiler) -> None:
    codes = dict(compile_all(slang, (COPY, SGD), TREE))
    assert codes == {unit: slang.compile(unit, TREE) for unit in (COPY, SGD)}
    assert not list(compile_all(slang, (), TREE))


def test_the_first_error_ends_it(slang: Compiler) -> None:
    before = threading.active_count()
    with pytest.raises(CompileError, match=r"(?s)^copy/nothing does not compile:\n.*entry point"):
        list(compile_all(slang, [MISSING, *[COPY] * 200], TREE))
    assert threading.active_count() == before


def test_who_stops_listening_stops_it(slang: Compiler) -> None:
    before = threading.active_count()
    compiling = compile_all(slang, [COPY] * 200, TREE)
    next(compiling)
    compiling.close()
    assert threading.active_count() == before


def test_a_library_that_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "libslang.so"
    broken.write_text("nothing")
    with pytest.raises(CompileError, match=r"copy/copy.*ended with 1: OSError.*libslang\.so"):
        list(compile_all(replace(find(), library=broken), (COPY,), TREE))


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGKILL"])
def test_a_crash_names_the_unit(name: str) -> None:
    library = find().library
    assert library
    with worker(library, TREE) as begun:
        assert begun.compile(COPY)
        os.kill(begun.process.pid, signal.Signals[name])
        with pytest.raises(
            CompileError, match=f"^optimisers/sgd<f32,f32> .*: the compiler died of {name}"
        ):
            begun.compile(SGD)


def test_a_source_that_crashes_the_compiler_is_named(tmp_path: Path, slang: Compiler) -> None:
    deep = 20_000  # parentheses: its parser calls itself for each
    (tmp_path / "deep.slang").write_text(
        "[[vk::binding(0)]] RWStructuredBuffer<uint> y;\n"
        '[shader("compute")] [numthreads(1, 1, 1)]\n'
        f"void deep() {{ y[0] = {'(' * deep}1{')' * deep}; }}"
    )
    died = "the compiler died of SIGSEGV" if slang.library else "exit status -11"
    with pytest.raises(CompileError, match=f"deep/deep does not compile:\\s{died}"):
        list(compile_all(slang, [Unit(module="deep", entry="deep")], tmp_path))


def test_it_runs_where_the_sources_are_on_the_path_alone(tmp_path: Path) -> None:
    """As in a wheel's build: the program has put the sources on its own path."""
    roots = [str(TREE.parents[2]), str(TREE.parents[1])]
    program = (
        f"import sys; sys.path[:0] = {roots}\n"
        "from pathlib import Path\n"
        "from vkbench_shaders.compile.compiler import Unit, find\n"
        "from vkbench_shaders.compile.workers import compile_all\n"
        "unit = Unit(module='copy', entry='copy')\n"
        f"print(*(len(code) for _, code in compile_all(find(), [unit], Path({str(TREE)!r}))))\n"
    )
    decoy = tmp_path / "json.py"
    decoy.write_text("raise SystemExit('the wrong json')")
    done = subprocess.run(
        [sys.executable, "-P", "-"], input=program, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stderr == ""
    assert int(done.stdout) == len(find().compile(COPY, TREE))


def test_a_worker_stays_with_its_module_then_takes_one_not_begun() -> None:
    backlog = Backlog(
        [
            Unit(module=name, entry=str(at))
            for name, count in (("a", 3), ("b", 2))
            for at in range(count)
        ]
    )
    first = backlog.take("")
    assert first
    assert first.module == "a"
    second = backlog.take("")
    assert second
    assert second.module == "b"
    rest = [backlog.take("b") for _ in range(4)]
    assert [unit and unit.module for unit in rest] == ["b", "a", "a", None]


def test_an_empty_backlog_gives_nothing() -> None:
    backlog = Backlog([COPY, SGD])
    backlog.clear()
    assert backlog.take("copy") is None


def test_sources_are_found_where_pip_builds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There Python starts without what an editable installation has on its path."""
    drops = (
        f"import sys\nsys.path = [each for each in sys.path if each != {str(TREE.parents[1])!r}]\n"
    )
    (tmp_path / "sitecustomize.py").write_text(drops)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    assert dict(compile_all(find(), (COPY,), TREE)) == {COPY: find().compile(COPY, TREE)}
