"""Building from a tree: cached by content, whole or not at all, failing with a clear message."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from vkbench.errors import UsageError
from vkbench.settings import settings
from vkbench_shaders import build as building
from vkbench_shaders.build import TREE, build, sources_of, tree_sha, units_of
from vkbench_shaders.bundle import Bundle, load
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.compiler import CompileError, Compiler, Unit, find


@dataclass(frozen=True, kw_only=True)
class Counting(Compiler):
    """The real compiler, which remembers what it was asked for."""

    asked: list[str] = field(default_factory=list)

    def compile(self, unit: Unit, tree: Path) -> bytes:
        self.asked.append(unit.key)
        return super().compile(unit, tree)


@pytest.fixture
def slang() -> Counting:
    found = find()
    return Counting(path=found.path, version=found.version)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A shader tree to edit."""
    return Path(shutil.copytree(TREE, tmp_path / "tree"))


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cached."""
    monkeypatch.setenv("VKBENCH_CACHE", str(tmp_path / "cache"))
    settings.cache_clear()


@pytest.mark.usefixtures("cold")
def test_only_what_changed_is_compiled(tree: Path, tmp_path: Path, slang: Counting) -> None:
    units = sorted(unit.key for unit in units_of(KERNELS))
    first = build(tree, tmp_path / "out", slang=slang)
    assert sorted(slang.asked) == units
    again = build(tree, tmp_path / "out", slang=slang)
    assert sorted(slang.asked) == units
    assert again.sha == first.sha

    (tree / "copy.slang").write_text(
        (tree / "copy.slang").read_text().replace("FOURS = 4", "FOURS = 2")
    )
    slang.asked.clear()
    edited = build(tree, tmp_path / "out", slang=slang)
    assert slang.asked == ["copy/copy"]
    assert edited.sha != first.sha
    assert edited.code("copy/copy") != first.code("copy/copy")
    assert edited.code("add/add") == first.code("add/add")


def test_the_same_sources_give_the_same_bundle(tree: Path, tmp_path: Path, bundle: Bundle) -> None:
    assert build(tree, tmp_path / "out").sha == bundle.sha
    assert tree_sha(tree) == bundle.manifest.tree


def test_a_unit_depends_on_what_its_module_imports(tree: Path) -> None:
    names = [path.name for path in sources_of("mul_mat_vec", tree)]
    assert names == ["formats.slang", "mul_mat_vec.slang", "sums.slang", "words.slang"]
    assert [path.name for path in sources_of("add", tree)] == ["add.slang"]


def test_progress_counts_every_unit(tree: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    build(tree, tmp_path / "out", lambda done, total, key: seen.append((done, total)))
    total = len(units_of(KERNELS))
    assert seen == [(done, total) for done in range(1, total + 1)]


def test_an_error_names_file_and_line_and_leaves_the_old_bundle(tree: Path, tmp_path: Path) -> None:
    old = build(tree, tmp_path / "out")
    source = (tree / "copy.slang").read_text()
    line = source[: source.index("if (index == 0)")].count("\n") + 1
    (tree / "copy.slang").write_text(source.replace("copy_tail(thread);", "copy_tial(thread);"))
    with pytest.raises(CompileError) as error:
        build(tree, tmp_path / "out")
    said = str(error.value)
    assert said.startswith("copy/copy does not compile:")
    assert f"copy.slang:{line}" in said
    assert "copy_tial" in said
    assert load(tmp_path / "out").sha == old.sha


def test_blobs_of_an_older_build_go(tree: Path, tmp_path: Path) -> None:
    build(tree, tmp_path / "out")
    (tree / "copy.slang").write_text(
        (tree / "copy.slang").read_text().replace("FOURS = 4", "FOURS = 2")
    )
    bundle = build(tree, tmp_path / "out")
    assert {path.stem for path in (tmp_path / "out").glob("*.spv")} == set(bundle.blobs)


def test_a_folder_that_is_no_tree_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no shader tree: it lacks add\.slang"):
        build(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_cache_is_compiled_again(
    tree: Path, tmp_path: Path, slang: Counting, cold: None
) -> None:
    code = building._code(Unit(module="copy", entry="copy"), tree, slang, tmp_path)
    (kept,) = tmp_path.glob("*.spv")
    kept.write_bytes(b"")
    assert building._code(Unit(module="copy", entry="copy"), tree, slang, tmp_path) == code
    assert slang.asked == ["copy/copy"] * 2


def test_the_command_builds_the_packaged_kernels(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(building, "TREE", tree)
    monkeypatch.setattr(building, "PACKAGED", tmp_path / "packaged")
    assert building.main() == 0
    told = capsys.readouterr()
    assert told.out.strip() == load(tmp_path / "packaged").sha
    assert told.err.startswith("compiled")
    (tree / "words.slang").write_text("module words; nonsense")
    assert building.main() == 4
    assert "words.slang:1" in capsys.readouterr().err


def test_a_build_needs_no_package_that_a_wheel_s_build_lacks() -> None:
    program = (
        "import sys, vkbench_shaders.build; print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert {"rich", "typer", "sqlalchemy", "celery", "vulkan", "gguf"}.isdisjoint(
        done.stdout.split()
    )
