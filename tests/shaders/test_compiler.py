"""Finding a Slang compiler, and the one clear line when there is none."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from vkbench.settings import Settings
from vkbench_shaders.compile import compiler
from vkbench_shaders.compile.compiler import Compiler, NoCompiler, Unit, find
from vkbench_shaders.compile.tree import TREE


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_compiler_says_its_version_and_compiles() -> None:
    slang = find()
    assert slang.version[:2] == "20"
    assert slang.version in str(slang)
    assert slang.compile(Unit(module="copy", entry="copy"), TREE)[:4] == b"\x03\x02\x23\x07"


def test_the_one_that_is_set_comes_first(tmp_path: Path) -> None:
    path = script(tmp_path / "slangc", "echo 1.2.3")
    assert find(Settings(slangc=str(path))) == Compiler(path=path, version="1.2.3")


def test_one_on_the_path_comes_before_the_installed_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script(tmp_path / "slangc", "echo 4.5.6 >&2")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find(Settings()) == Compiler(path=path, version="4.5.6")


@pytest.mark.parametrize(
    ("text", "said"), [("exit 3", "-v fails: 3"), ("echo broken; exit 1", "-v fails: broken")]
)
def test_one_that_does_not_answer_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = script(tmp_path / "slangc", text)
    with pytest.raises(NoCompiler, match=said) as error:
        find(Settings(slangc=str(path)))
    assert str(path) in str(error.value)


def test_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoCompiler, match="slangc cannot be run: No such file or directory"):
        find(Settings(slangc=str(tmp_path / "slangc")))


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes its wheels from, and no index."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
    return folder


def put_wheel(shop: Path) -> Path:
    """A wheel with the name of the real one, whose compiler says that it is 7.8.9."""
    wheel = shop / "slangtorch-1.3.22-py3-none-any.whl"
    info = "slangtorch-1.3.22.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("slangtorch/bin/slangc", "#!/bin/sh\necho 7.8.9\n")
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: slangtorch\nVersion: 1.3.22\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
    return wheel


def test_it_is_fetched_once(tmp_path: Path, shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = put_wheel(shop)
    monkeypatch.setattr(compiler, "HASHES", (hashlib.sha256(wheel.read_bytes()).hexdigest(),))
    path = compiler._fetch_compiler(tmp_path / "cache")
    assert find(Settings(slangc=str(path))).version == "7.8.9"
    wheel.unlink()
    assert compiler._fetch_compiler(tmp_path / "cache") == path


def test_another_file_of_its_name_is_refused(tmp_path: Path, shop: Path) -> None:
    put_wheel(shop)
    with pytest.raises(NoCompiler, match="pip cannot fetch slangtorch") as error:
        compiler._fetch_compiler(tmp_path / "cache")
    assert "Got" in str(error.value)
    assert not list((tmp_path / "cache").rglob("slangc"))


def test_a_failed_fetch_says_what_to_set(tmp_path: Path, shop: Path) -> None:
    with pytest.raises(NoCompiler, match="set VKBENCH_SLANGC") as error:
        compiler._fetch_compiler(tmp_path / "cache")
    assert "slangtorch==1.3.22" in str(error.value)
    assert "\n" not in str(error.value)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["slang.lock"]
