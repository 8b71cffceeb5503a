"""Building from a tree: cached by content, whole or not at all, failing with a clear message."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Collection, Generator
from pathlib import Path
from types import SimpleNamespace

import pytest

from vkbench.errors import UsageError
from vkbench.settings import settings
from vkbench_shaders.bundle import PROBES, Bundle, load
from vkbench_shaders.catalogue import kernel_named
from vkbench_shaders.compile import build as building
from vkbench_shaders.compile import cached, spirv, workers
from vkbench_shaders.compile.build import build, units_of
from vkbench_shaders.compile.compiler import CompileError, Compiler, Unit
from vkbench_shaders.compile.tree import TREE, constants_of, source_of, tree_sha
from vkbench_shaders.launch import LaunchMismatch

pytestmark = pytest.mark.slow

FEW = (kernel_named("copy"), kernel_named("sgd"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the real compiler was asked for."""
    units: list[str] = []

    def compile_all(
        slang: Compiler, missing: Collection[Unit], tree: Path
    ) -> Generator[tuple[Unit, bytes], None, None]:
        units.extend(unit.key for unit in missing)
        return workers.compile_all(slang, missing, tree)

    monkeypatch.setattr(cached, "workers", SimpleNamespace(compile_all=compile_all))
    return units


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of two kernels: how units are built and kept is the same for all."""
    monkeypatch.setattr(building, "KERNELS", FEW)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A shader tree to edit."""
    return Path(shutil.copytree(TREE, tmp_path / "tree"))


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cached."""
    monkeypatch.setenv("VKBENCH_CACHE", str(tmp_path / "cache"))
    settings.cache_clear()


@pytest.mark.usefixtures("cold", "few")
def test_only_what_changed_is_compiled(tree: Path, tmp_path: Path, asked: list[str]) -> None:
    units = [unit.key for unit in sorted([*units_of(FEW), *PROBES])]
    first = build(tree, tmp_path / "out")
    assert asked == units
    again = build(tree, tmp_path / "out")
    assert asked == units
    assert again.sha == first.sha

    copy = source_of("copy", tree)
    copy.write_text(copy.read_text().replace("VEC4S = 4", "VEC4S = 2"))
    asked.clear()
    edited = build(tree, tmp_path / "out")
    assert asked == ["copy/copy"]
    assert edited.sha != first.sha
    assert edited.code("copy/copy") != first.code("copy/copy")
    sgd = "optimisers/sgd<f32,f32>"
    assert edited.code(sgd) == first.code(sgd)


@pytest.mark.usefixtures("cold", "few")
def test_the_same_sources_give_the_same_bundle(
    tree: Path, tmp_path: Path, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compiled twice, in two folders; tests/e2e/test_offline.py holds it of all kernels."""
    first = build(tree, tmp_path / "out")
    monkeypatch.setenv("VKBENCH_CACHE", str(tmp_path / "another"))
    settings.cache_clear()
    assert build(TREE, tmp_path / "again").sha == first.sha
    assert tree_sha(tree) == bundle.manifest.tree


@pytest.mark.usefixtures("few")
def test_progress_counts_every_unit(tree: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    build(tree, tmp_path / "out", lambda done, total, key: seen.append((done, total)))
    total = len([*units_of(FEW), *PROBES])
    assert seen == [(done, total) for done in range(1, total + 1)]


@pytest.mark.usefixtures("few")
def test_an_error_names_file_and_line_and_leaves_the_old_bundle(tree: Path, tmp_path: Path) -> None:
    old = build(tree, tmp_path / "out")
    copy = source_of("copy", tree)
    source = copy.read_text()
    line = source[: source.index("if (index == 0)")].count("\n") + 1
    copy.write_text(source.replace("copy_tail(thread);", "copy_tial(thread);"))
    with pytest.raises(CompileError) as error:
        build(tree, tmp_path / "out")
    said = str(error.value)
    assert said.startswith("copy/copy does not compile:")
    assert f"copy.slang:{line}" in said
    assert "copy_tial" in said
    assert load(tmp_path / "out").sha == old.sha


@pytest.mark.usefixtures("few")
def test_a_shader_that_takes_another_name_fails_the_build(tree: Path, tmp_path: Path) -> None:
    old = build(tree, tmp_path / "out")
    copy = source_of("copy", tree)
    copy.write_text(copy.read_text().replace("odd_half", "half_word"))
    with pytest.raises(LaunchMismatch) as error:
        build(tree, tmp_path / "out")
    said = str(error.value)
    assert said.startswith("copy/f32/n0, variant portable: copy/copy: push constants ")
    assert "does not give: half_word; that it gives and the unit does not have: odd_half" in said
    assert load(tmp_path / "out").sha == old.sha


@pytest.mark.usefixtures("few")
def test_two_constants_of_one_number_fail_the_build(tree: Path, tmp_path: Path) -> None:
    """A launch gives values by name, and Vulkan takes them by number."""
    copy = source_of("copy", tree)
    source = copy.read_text().replace(
        "struct Push", "[vk::constant_id(0)] const uint LIMIT = 9;\nstruct Push"
    )
    copy.write_text(source.replace("if (index == 0)", "if (index == 0 && THREADS < LIMIT)"))
    with pytest.raises(CompileError) as error:
        build(tree, tmp_path / "out")
    assert str(error.value) == (
        "copy/copy: the specialisation constants THREADS and LIMIT have one number, 0"
    )
    assert not (tmp_path / "out").exists()


def test_a_module_declares_the_constants_of_what_it_imports(tmp_path: Path) -> None:
    for name, text in {
        "upper": "import lower;\n[vk::constant_id(0)] const uint THREADS = 128; // [x] = 3",
        "lower": "module lower;\n[vk::constant_id(12)] public const uint WIDE= 1;",
        "other": "[[vk::constant_id(1)]]\nconst int OTHER = 1; const uint PLAIN = 2;",
    }.items():
        (tmp_path / f"{name}.slang").write_text(text)
    assert constants_of(tmp_path / "upper.slang", tmp_path) == {"THREADS", "WIDE"}
    assert constants_of(tmp_path / "other.slang", tmp_path) == {"OTHER"}


@pytest.mark.usefixtures("few")
def test_blobs_of_an_older_build_go(tree: Path, tmp_path: Path) -> None:
    build(tree, tmp_path / "out")
    copy = source_of("copy", tree)
    copy.write_text(copy.read_text().replace("VEC4S = 4", "VEC4S = 2"))
    bundle = build(tree, tmp_path / "out")
    assert {path.stem for path in (tmp_path / "out").glob("*.spv")} == set(bundle.blobs)


def test_a_folder_that_is_no_tree_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no shader tree: it lacks \w+\.slang, "):
        build(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("cold", "few")
def test_a_damaged_cache_is_compiled_again(tree: Path, tmp_path: Path, asked: list[str]) -> None:
    first = build(tree, tmp_path / "out")
    for kept in (settings().cache / "spirv").glob("*.spv"):
        if spirv.strip_names(kept.read_bytes()) == first.code("copy/copy"):
            kept.write_bytes(b"")
    asked.clear()
    assert build(tree, tmp_path / "out").sha == first.sha
    assert asked == ["copy/copy"]


@pytest.mark.usefixtures("few")
def test_the_command_builds_the_packaged_kernels(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(building, "TREE", tree)
    monkeypatch.setattr(building, "PACKAGED", tmp_path / "packaged")
    assert building.main() == 0
    told = capsys.readouterr()
    assert told.out.strip() == load(tmp_path / "packaged").sha
    assert told.err.startswith("compiled")
    source_of("optimisers", tree).write_text("module optimisers; nonsense")
    assert building.main() == 4
    assert "optimisers.slang:1" in capsys.readouterr().err


def test_a_build_needs_no_package_that_a_wheel_s_build_lacks() -> None:
    program = (
        "import sys, vkbench_shaders.compile.build; "
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert {"rich", "typer", "sqlalchemy", "celery", "vulkan", "gguf"}.isdisjoint(
        done.stdout.split()
    )


def test_a_renamed_function_makes_no_other_kernel(tree: Path) -> None:
    """A bundle's code has no names: those that launches give stand in the manifest."""
    source = tree / "moves/copy.slang"
    source.write_text(source.read_text().replace("copy_tail", "copy_the_rest"))
    unit = Unit(module="copy", entry="copy")
    before, after = (building.compile_units(each, [unit], "one") for each in (TREE, tree))
    assert before.sha != after.sha  # the manifest names the tree
    assert before.entry(unit.key).sha256 == after.entry(unit.key).sha256
    assert next(field.name for field in before.interface(unit.key).push) == "word_count"
