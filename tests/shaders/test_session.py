"""The compiler as a library: the same SPIR-V as slangc's to the byte, and the same complaints."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.compile import compiler, spirv
from vkbench_shaders.compile.build import units_of
from vkbench_shaders.compile.compiler import FLAGS, Compiler, Unit, find
from vkbench_shaders.compile.session import RefusedSource, Session
from vkbench_shaders.compile.tree import TREE, source_of

pytestmark = pytest.mark.slow

SAMPLE = units_of(KERNELS)[:: max(1, len(units_of(KERNELS)) // 5)]


@pytest.fixture(scope="module")
def slang() -> Compiler:
    return find()


def session_for(slang: Compiler, tree: Path) -> Session:
    assert slang.library, "the fetched compiler's library is not beside it"
    return Session(slang.library, [*FLAGS, "-I", str(tree)])


@pytest.fixture(scope="module")
def session(slang: Compiler) -> Session:
    return session_for(slang, TREE)


@pytest.mark.parametrize("unit", SAMPLE, ids=lambda unit: unit.key)
def test_it_compiles_as_slangc_does(unit: Unit, session: Session, slang: Compiler) -> None:
    code = session.compile(source_of(unit.module, TREE), unit.entry, unit.arguments)
    assert spirv.portable(code) == slang.compile(unit, TREE)


def test_what_was_compiled_before_changes_nothing(slang: Compiler, session: Session) -> None:
    sources = [source_of(unit.module, TREE) for unit in SAMPLE]
    asked = list(zip(sources, SAMPLE, strict=True))
    once = [session.compile(source, unit.entry, unit.arguments) for source, unit in asked]
    other = session_for(slang, TREE)
    again = [other.compile(source, unit.entry, unit.arguments) for source, unit in asked[::-1]]
    assert once == again[::-1]


def module(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def kernel(name: str, does: str, imports: str = "") -> str:
    return (
        f"module {name};\n{imports}\n[[vk::binding(0)]] RWStructuredBuffer<uint> y;\n"
        f'[shader("compute")] [numthreads(1, 1, 1)]\nvoid {name}_entry() {{ {does} }}\n'
    )


@pytest.mark.parametrize("order", [("upper", "lower"), ("lower", "upper")])
def test_a_module_may_be_imported_and_have_units(
    order: tuple[str, str], tmp_path: Path, slang: Compiler
) -> None:
    module(
        tmp_path / "lower.slang",
        kernel("lower", "y[0] = seven();") + "\npublic uint seven() { return 7; }",
    )
    module(
        tmp_path / "upper.slang", kernel("upper", "y[0] = seven() + 1;", imports="import lower;")
    )
    session = session_for(slang, tmp_path)
    for name in order:
        code = session.compile(tmp_path / f"{name}.slang", f"{name}_entry", ())
        unit = Unit(module=name, entry=f"{name}_entry")
        assert spirv.portable(code) == slang.compile(unit, tmp_path)


def test_a_file_where_it_happens_to_run_is_not_the_tree_s(
    tmp_path: Path, slang: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    module(tmp_path / "copy.slang", "nonsense")
    monkeypatch.chdir(tmp_path)
    assert session_for(slang, TREE).compile(source_of("copy", TREE), "copy", ())


def test_an_error_has_file_and_line(tmp_path: Path, slang: Compiler) -> None:
    path = module(tmp_path / "wrong.slang", kernel("wrong", "y[0] = nothing_here;"))
    with pytest.raises(RefusedSource) as error:
        session_for(slang, tmp_path).compile(path, "wrong_entry", ())
    assert f"{path}:5:" in str(error.value)
    assert "nothing_here" in str(error.value)


def test_an_error_in_what_is_imported_has_file_and_line(tmp_path: Path, slang: Compiler) -> None:
    module(tmp_path / "lower.slang", "module lower;\npublic uint seven() { return seevn; }")
    text = kernel("upper", "y[0] = seven();", imports="import lower;")
    path = module(tmp_path / "upper.slang", text)
    with pytest.raises(RefusedSource) as error:
        session_for(slang, tmp_path).compile(path, "upper_entry", ())
    assert "lower.slang:2:" in str(error.value)
    assert "seevn" in str(error.value)


GENERIC = """
interface INumber { static const uint VALUE; }
struct one : INumber { static const uint VALUE = 1; }
[[vk::binding(0)]] RWStructuredBuffer<uint> y;
[shader("compute")] [numthreads(1, 1, 1)]
void number<N : INumber>() { y[0] = N.VALUE; }
"""


@pytest.mark.parametrize(
    ("entry", "arguments", "said"),
    [
        ("nothing", (), "no entry point nothing"),
        ("number", (), "number has 1 generic parameters, not 0"),
        ("number", ("one", "one"), "number has 1 generic parameters, not 2"),
        ("number", ("two",), "undefined identifier"),
        ("number", ("uint",), "doesn't conform to interface"),
    ],
)
def test_a_unit_that_is_not_there_is_refused(
    entry: str, arguments: tuple[str, ...], said: str, tmp_path: Path, slang: Compiler
) -> None:
    path = module(tmp_path / "number.slang", GENERIC)
    session = session_for(slang, tmp_path)
    with pytest.raises(RefusedSource, match=said):
        session.compile(path, entry, arguments)
    assert session.compile(path, "number", ("one",))


def test_a_version_whose_places_are_not_known_has_no_library(
    tmp_path: Path, slang: Compiler
) -> None:
    assert slang.library
    shutil.copy(slang.library, tmp_path)
    binary = tmp_path / "slangc"
    binary.write_text("#!/bin/sh\necho 2027.1\n")
    binary.chmod(0o755)
    assert compiler._with_library(compiler._compiler(binary, "found")).library is None
    known = compiler._with_library(Compiler(path=binary, version=slang.version))
    assert known.library == tmp_path / slang.library.name


def test_the_process_needs_little() -> None:
    program = "import sys, vkbench_shaders.compile.session; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert {"numpy", "msgspec", "gguf"}.isdisjoint(done.stdout.split())
