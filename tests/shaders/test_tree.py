"""A shader tree: modules are found by name in any folder, and imports by their paths."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkbench.errors import UsageError
from vkbench_shaders.compile.tree import TREE, source_of, sources_by_module, sources_of


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Modules that import each other: by paths from the tree and from their own folder."""
    for name, text in {
        "upper": "// with parts\nimport middle;",
        "middle": "module middle;\n__exported import parts.lower; import other;",
        "parts/lower": "module lower;\n  import upper; import beside;",
        "parts/beside": "module beside;",
        "beside": "module beside;",
        "other": "// import middle;",
    }.items():
        path = tmp_path / f"{name}.slang"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_a_module_is_found_in_any_folder(tree: Path) -> None:
    assert source_of("lower", tree) == tree / "parts/lower.slang"
    assert source_of("upper", tree) == tree / "upper.slang"


def test_two_files_of_one_name_are_refused(tree: Path) -> None:
    assert source_of("other", tree)
    with pytest.raises(UsageError, match=r"beside: beside\.slang and parts/beside\.slang; keep"):
        source_of("beside", tree)


def test_all_modules_without_a_file_are_named(tree: Path) -> None:
    with pytest.raises(UsageError, match=r"no shader tree: it lacks absent\.slang, none\.slang$"):
        sources_by_module(["none", "upper", "absent"], tree)


def test_a_module_is_made_of_what_it_imports(tree: Path) -> None:
    found = [path.relative_to(tree).as_posix() for path in sources_of(tree / "upper.slang", tree)]
    names = ["middle", "other", "parts/beside", "parts/lower", "upper"]
    assert found == [f"{name}.slang" for name in names]
    assert sources_of(tree / "other.slang", tree) == [tree / "other.slang"]


def test_names_of_packaged_modules_are_unique() -> None:
    names = [path.stem for path in TREE.rglob("*.slang")]
    assert len(names) == len(set(names)) > 100
