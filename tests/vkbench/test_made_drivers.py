"""Drivers that are made of revisions: once each, by what a file declares, under own names."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from planted_git import git
from planted_sources import commit_text, start_repository
from vkbench.drivers.declaration import DeclaredDrivers, read_declared_driver
from vkbench.drivers.declared import DeclaredDriver, DriverRecipe
from vkbench.drivers.store import DriverProduct, DriverStore
from vkbench.errors import UsageError
from vkbench.process.git import find_revision
from vkbench.programs.build import Build
from vkbench.programs.making import Maker, NotBuilt

COMMAND = """
mkdir -p out/lib
gcc -shared -fPIC -nostdlib -o out/lib/libvulkan_x.so bench.c
echo '{"ICD": {"library_path": "/usr/lib/libvulkan_x.so"}}' > out/x_icd.$(uname -m).json
"""
TEXT = "int vk_icdGetInstanceProcAddr(void) {{ return {value}; }}\n"
DECLARED = DeclaredDriver(
    name="x", build=DriverRecipe(command=COMMAND, folder="out", icd="x_icd.*.json")
)

Make = Callable[..., Build]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return start_repository(tmp_path / "repository")


@pytest.fixture
def store(tmp_path: Path) -> DriverStore:
    return DriverStore(tmp_path / "drivers")


@pytest.fixture
def make(repository: Path, store: DriverStore, tmp_path: Path) -> Make:
    """Make the driver of a revision, by the command or another one."""

    def run(revision: str, name: str = "", command: str = COMMAND, icd: str = "x_icd.*") -> Build:
        build = DriverRecipe(command=command, folder="out", icd=icd)
        maker = Maker(
            product=DriverProduct(declared=replace(DECLARED, build=build), store=store),
            repository=repository,
            logs=tmp_path / "logs",
            tell=lambda _: None,
        )
        return maker.make(find_revision(repository, revision), name)

    return run


def commit_driver(repository: Path, subject: str, value: int) -> str:
    return commit_text(repository, subject, TEXT.format(value=value))


def test_a_revision_becomes_a_driver_once(
    make: Make, repository: Path, store: DriverStore, tmp_path: Path
) -> None:
    sha = commit_driver(repository, "one", 1)
    counted = f"{COMMAND} echo >> {tmp_path / 'count'}"
    made = make("HEAD", command=counted)
    assert made == make("HEAD", command=counted)
    assert (tmp_path / "count").read_text() == "\n"
    driver = store.find(f"x-{sha[:10]}")
    assert driver.build == made
    assert {file.path for file in made.files} == {"icd.json", "lib/libvulkan_x.so"}
    manifest = json.loads(store.prepare(driver).read_text())
    assert manifest["ICD"]["library_path"] == "./lib/libvulkan_x.so"
    assert make("HEAD", "mine", command=counted).name == "mine"
    assert [driver.name for driver in store.list_drivers()] == ["mine"]
    assert (tmp_path / "count").read_text() == "\n"


def test_equal_files_are_one_driver_and_names_are_told_apart(
    make: Make, repository: Path, store: DriverStore
) -> None:
    commit_driver(repository, "one", 1)
    git(repository, "tag", "v1")
    commit_driver(repository, "two", 1)
    git(repository, "tag", "v2")
    commit_driver(repository, "three", 3)
    git(repository, "tag", "a/long/name")
    one, two, three = map(make, ("v1", "v2", "a/long/name"))
    assert (one.sha, one.name, two.name) == (two.sha, "x-v1", "x-v1")
    assert [commit.name for commit in two.commits] == ["v1", "v2"]
    assert three.name == f"x-{three.commits[0].sha[:10]}"
    again = make("v1", command=COMMAND.replace("-o", "-Dother -g -o"))
    assert (again.name, again.sha == one.sha) == ("x-v1-2", False)
    assert [driver.name for driver in store.list_drivers()] == ["x-v1", three.name, "x-v1-2"]
    with pytest.raises(UsageError, match="there is a driver x-v1-2 already"):
        make("v1", "x-v1-2")
    with pytest.raises(UsageError, match="there is a driver x-v1 already"):
        make("v1", "x-v1", command="touch never-run")


def test_a_declaration_says_how_long_its_command_may_take(
    repository: Path, store: DriverStore, tmp_path: Path
) -> None:
    commit_driver(repository, "one", 1)
    patient = DriverRecipe(command="sleep 100", folder="out", minutes=600)
    hasty = replace(patient, minutes=0.02)
    maker = Maker(
        product=DriverProduct(declared=replace(DECLARED, build=hasty), store=store),
        repository=repository,
        logs=tmp_path / "logs",
        tell=lambda _: None,
    )
    with pytest.raises(NotBuilt, match="the command took over 1 second"):
        maker.make(find_revision(repository, "HEAD"))
    assert hasty.sha == patient.sha  # what was made by one is not made anew by the other


@pytest.mark.parametrize(
    ("command", "icd", "why"),
    [
        ("false", "", "the command ended with status 1"),
        ("true", "", "the command left no folder out"),
        ("mkdir out", "", r"there is no manifest \*icd\*.json in "),
        ("mkdir out", "x*", r"its icd x\* should be one manifest: there is none"),
        ("mkdir out; touch out/x1 out/x2", "x*", "should be one manifest: there is x1 and x2"),
        (f"{COMMAND} rm out/lib/*", "", "names the library /usr/lib/libvulkan_x.so, which is not"),
        (f"{COMMAND} echo > out/lib/libvulkan_x.so", "", "libvulkan_x.so is no shared library"),
    ],
)
def test_what_leaves_no_driver_is_told(
    make: Make, repository: Path, store: DriverStore, command: str, icd: str, why: str
) -> None:
    commit_driver(repository, "one", 1)
    with pytest.raises(NotBuilt, match=why):
        make("HEAD", command=command, icd=icd)
    assert store.list_drivers() == []


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('name = "x"', "{path}: the file lacks build"),
        ('name = "/"\n[build]\ncommand = "a"\nfolder = "b"', "{path}: name: '/' is no name: give "),
        ('name = "x"\n[build]\ncommand = ""\nfolder = "b"', "{path}: build: give a command"),
        ('name = "x"\n[build]\ncommand = "a"\nfolder = "/b"', "{path}: build: folder '/b' is none"),
        (
            'name = "x"\n[build]\ncommand = "a"\nfolder = "b"\nicd = "a/b"',
            "{path}: build: icd 'a/b' is no name of a manifest below the folder",
        ),
        (
            'name = "x"\n[build]\ncommand = "a"\nfolder = "b"\nminutes = 0',
            "{path}: build: minutes is 0: give more than 0 and at most 10000",
        ),
        (
            'name = "x"\n[build]\ncommand = "a"\nfolder = "b"\nicds = "a"',
            "{path}: unknown field of [build] 'icds'; did you mean 'icd'?",
        ),
    ],
)
def test_a_file_that_declares_no_driver_is_one_line(
    tmp_path: Path, text: str, complaint: str
) -> None:
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as raised:
        DeclaredDrivers(tmp_path / "declared").add(path)
    assert str(raised.value).startswith(complaint.format(path=path))


EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "drivers"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_the_examples_declare_drivers(path: Path) -> None:
    declared = read_declared_driver(path)
    assert declared.name == path.stem
    assert subprocess.run(["sh", "-n", "-c", declared.build.command], check=False).returncode == 0


def test_the_page_shows_an_example_as_it_is() -> None:
    page = (EXAMPLES.parents[1] / "howto" / "bisect-mesa.md").read_text()
    [example] = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    lines = (EXAMPLES / "lavapipe.toml").read_text().splitlines(keepends=True)
    assert example == "".join(line for line in lines if not line.startswith("#"))


def test_a_declaration_is_kept_as_it_was(tmp_path: Path) -> None:
    kept = DeclaredDrivers(tmp_path / "declared")
    with pytest.raises(UsageError, match="no driver's file is known as 'x': give the path"):
        kept.find("x")
    path = tmp_path / "x.toml"
    path.write_text('name = "x"\n[build]\ncommand = "a"\nfolder = "b"\n')
    added = kept.add(path)
    path.unlink()
    assert (
        kept.find("x")
        == added
        == DeclaredDriver(name="x", build=DriverRecipe(command="a", folder="b"))
    )
    with pytest.raises(UsageError, match="unknown driver's file 'y'"):
        kept.find("y")
