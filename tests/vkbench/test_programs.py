"""Programs that users declare: read from a file, kept, found, and refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkbench.errors import UnknownName, UsageError, VkbenchError
from vkbench.programs.program import GGML_VULKAN, OwnCases, Program, Recipe
from vkbench.programs.registry import ProgramStore, read_program

WHOLE = """\
name = "my-bench"
description = "copies bytes"
adapter = "lines"
needs = ["my-bench"]
takes = ["*.so*"]
run = ["./my-bench", "--serve"]
[build]
command = "cmake -B out && cmake --build out -j"
folder = "out/bin"
[cases]
names = ["copy/64m", "copy<float, 4>/1"]
"""
PROGRAM = Program(
    name="my-bench",
    description="copies bytes",
    adapter="lines",
    needs=("my-bench",),
    takes=("*.so*",),
    run=("./my-bench", "--serve"),
    build=Recipe(command="cmake -B out && cmake --build out -j", folder="out/bin"),
    cases=OwnCases(names=("copy/64m", "copy<float, 4>/1")),
)


@pytest.fixture
def store(tmp_path: Path) -> ProgramStore:
    return ProgramStore(tmp_path / "programs")


def write(folder: Path, text: str) -> Path:
    path = folder / "program.toml"
    path.write_text(text)
    return path


def fail(complaint: str) -> None:
    pytest.fail(complaint)


def test_a_declared_program_is_found_beside_the_built_in_ones(
    store: ProgramStore, tmp_path: Path
) -> None:
    assert store.list_programs(fail) == [GGML_VULKAN]
    assert store.add(write(tmp_path, WHOLE)) == PROGRAM
    assert store.find("my-bench") == PROGRAM
    assert store.find("ggml-vulkan") == GGML_VULKAN
    assert store.list_programs(fail) == [GGML_VULKAN, PROGRAM]
    store.add(write(tmp_path, WHOLE.replace("copies bytes", "copies words")))
    assert store.find("my-bench").description == "copies words"
    store.remove("my-bench")
    assert store.list_programs(fail) == [GGML_VULKAN]


def test_few_words_declare_a_program(tmp_path: Path) -> None:
    least = 'name = "b"\ndescription = "b"\nadapter = "lines"\nneeds = ["b"]\nrun = ["./b"]'
    program = read_program(write(tmp_path, least))
    assert (program.takes, program.build, program.cases) == ((), None, None)


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('name = "my-bench"', "", r"the file lacks name"),
        ("takes", "take", r"unknown field of the file 'take'; did you mean 'takes'"),
        ("takes", "Takes", "'Takes' is written 'takes'"),
        ("folder", "folders", r"unknown field of \[build\] 'folders'; did you mean 'folder'"),
        ('["./my-bench", "--serve"]', '"./my-bench"', r"run: give a list, not a text"),
        ('"out/bin"', "7", r"folder of build: give a text, not a whole number"),
        ('"my-bench"\nd', '"My Bench"\nd', "'My Bench' is no program's name: give up to 40"),
        ('"my-bench"\nd', f'"{"a" * 41}"\nd', "is no program's name"),
        ('"my-bench"\nd', '"../my-bench"\nd', "is no program's name"),
        ('"my-bench"\nd', '"ggml-vulkan"\nd', "vkbench has a program ggml-vulkan by itself"),
        ('"my-bench"\nd', '"torch"\nd', "torch is what results of vkbench are called"),
        ('"lines"', '"line"', "unknown adapter 'line'; did you mean 'lines'"),
        ('"lines"', '"Lines"', "unknown adapter 'Lines'; there is 'ggml', 'lines'"),
        ('adapter = "lines"\n', "", "the file lacks adapter"),
        ('"lines"', '"ggml"', "run: adapter ggml loads libraries and starts nothing"),
        ('"copies bytes"', '""', "description: give one line"),
        ('"copies bytes"', r'"a\nb"', "description: give one line"),
        ('needs = ["my-bench"]', "needs = []", "needs: name a file that every build has"),
        ('["my-bench"]', '["bin/my-bench"]', "needs: 'bin/my-bench' is no file's name"),
        ('["*.so*"]', '["*"]', r"takes: '\*' is no file's name"),
        ('run = ["./my-bench", "--serve"]', "", "run: say what starts it, such as run ="),
        ("./my-bench", "/bin/sh", "run: '/bin/sh' lies elsewhere: give ./NAME of the build"),
        ("./my-bench", "./../my-bench", "run: a build's file cannot be called '../my-bench'"),
        ('"--serve"', r'"\u0000"', r"run: '\\x00' is no word"),
        ('"cmake -B out && cmake --build out -j"', '" "', "build: give a command"),
        ("out/bin", "/usr/bin", "build: folder '/usr/bin' is none below the checkout"),
        ("out/bin", "../bin", "build: folder '../bin' is none below the checkout"),
        ("names =", 'list = ["./my-bench", "--list"]\nnames =', "cases: give either names, or"),
        ('["copy/64m", "copy<float, 4>/1"]', "[]", "cases: give either names, or list"),
        ("copy/64m", "copy *", r"'copy \*' cannot be a case's name"),
        ("copy/64m", "-copy", "'-copy' cannot be a case's name"),
        ("copy/64m", "copy<float, 4>/1", "cases: 'copy<float, 4>/1' is named 2 times"),
        ("[build]", "[build", "is no TOML"),
        ("[build]", "[[build]]", r"build: give a table, not a list"),
    ],
)
def test_a_mistake_is_one_line(
    store: ProgramStore, tmp_path: Path, old: str, new: str, complaint: str
) -> None:
    assert old in WHOLE
    with pytest.raises(UsageError, match=complaint) as raised:
        store.add(write(tmp_path, WHOLE.replace(old, new, 1)))
    message = str(raised.value)
    assert message.startswith(str(tmp_path / "program.toml"))
    assert "\n" not in message
    assert store.list_programs(fail) == [GGML_VULKAN]


def test_what_lists_cases_is_a_command_too(tmp_path: Path) -> None:
    listed = WHOLE.replace('names = ["copy/64m", "copy<float, 4>/1"]', 'list = ["/bin/ls"]')
    with pytest.raises(UsageError, match="list: '/bin/ls' lies elsewhere"):
        read_program(write(tmp_path, listed))
    assert read_program(write(tmp_path, listed.replace("/bin/", "./"))).cases == OwnCases(
        list=("./ls",)
    )


def test_what_is_not_there_is_named(store: ProgramStore, tmp_path: Path) -> None:
    store.add(write(tmp_path, WHOLE))
    with pytest.raises(UnknownName, match="unknown program 'ggml'; did you mean 'ggml-vulkan'"):
        store.find("ggml")
    for name in ("My-bench", "../programs/my-bench"):
        with pytest.raises(UnknownName):
            store.find(name)
        with pytest.raises(UnknownName):
            store.remove(name)
    with pytest.raises(UsageError, match="ggml-vulkan is a program that vkbench has by itself"):
        store.remove("ggml-vulkan")
    with pytest.raises(UsageError, match="cannot read"):
        store.add(tmp_path / "nothing.toml")


def test_a_file_that_was_damaged_costs_its_program_alone(
    store: ProgramStore, tmp_path: Path
) -> None:
    store.add(write(tmp_path, WHOLE))
    (tmp_path / "programs" / "bad.toml").write_text("name = 1")
    (tmp_path / "programs" / "other.toml").write_text(WHOLE)
    complaints: list[str] = []
    assert store.list_programs(complaints.append) == [GGML_VULKAN, PROGRAM]
    assert len(complaints) == 2
    assert "name: give a text, not a whole number" in complaints[0]
    assert complaints[1].endswith("other.toml declares my-bench: add it again")


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "programs").write_text("")
    with pytest.raises(VkbenchError, match="programs cannot be kept in"):
        ProgramStore(tmp_path / "programs").add(write(tmp_path, WHOLE))
