"""Kernels compiled when first needed: the same bundle, and no code that it does not name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from vkbench_shaders import bundle as bundles
from vkbench_shaders.bundle import PROBES, Bundle, load
from vkbench_shaders.catalogue import kernel_named
from vkbench_shaders.compile import build as building
from vkbench_shaders.compile.build import begin, build
from vkbench_shaders.compile.compiler import CompileError
from vkbench_shaders.compile.first_need import FirstNeed, read_expected, write_expected
from vkbench_shaders.compile.tree import TREE

pytestmark = pytest.mark.slow

FEW = (kernel_named("copy"), kernel_named("sgd"))
KEY = "copy/copy"


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalogue of two kernels: what is left to first need is the same for all."""
    monkeypatch.setattr(building, "KERNELS", FEW)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """The two kernels, compiled at once."""
    return build(TREE, tmp_path_factory.mktemp("whole") / "packaged", kernels=FEW)


@pytest.fixture
def folder(whole: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A packaged bundle that is begun."""
    begin(TREE, tmp_path / "packaged", text=whole.text)
    monkeypatch.setattr(bundles, "PACKAGED", tmp_path / "packaged")
    bundles.packaged.cache_clear()
    yield tmp_path / "packaged"
    bundles.packaged.cache_clear()


def files(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.spv")}


def test_a_begun_bundle_has_the_name_of_the_whole_one(whole: Bundle, folder: Path) -> None:
    begun = bundles.packaged()
    assert begun.sha == bundles.packaged_sha() == whole.sha
    assert files(folder) == {whole.entry(unit.key).sha256 for unit in PROBES}
    assert not begun.is_compiled


def test_code_is_compiled_when_it_is_asked_for(whole: Bundle, folder: Path) -> None:
    before = files(folder)
    assert bundles.packaged().code(KEY) == whole.code(KEY)
    assert files(folder) - before == {whole.entry(KEY).sha256}


def test_code_comes_where_the_folder_cannot_be_written(
    whole: Bundle, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So it is in a contained process; root alone would not notice a mode."""

    def refuse(path: Path, data: bytes, mode: int = 0o600) -> None:
        raise PermissionError(path)

    monkeypatch.setattr("vkbench_shaders.compile.first_need.replace_file", refuse)
    before = files(folder)
    assert bundles.packaged().code(KEY) == whole.code(KEY)
    assert files(folder) == before


def test_whoever_takes_all_blobs_gets_all(whole: Bundle, folder: Path) -> None:
    assert dict(bundles.packaged().blobs) == dict(whole.blobs)
    assert bundles.packaged().is_compiled
    assert load(folder).check().archive() == whole.archive()


def test_the_rest_is_compiled_in_one_go(whole: Bundle, folder: Path) -> None:
    bundles.compile_rest()
    assert files(folder) == {entry.sha256 for entry in whole.manifest.entries}


def test_beginning_again_keeps_what_is_compiled(whole: Bundle, folder: Path) -> None:
    bundles.compile_rest()
    begin(TREE, folder, text=whole.text)
    assert load(folder).check().sha == whole.sha


def _with_other_code(text: str, key: str) -> str:
    """A manifest that says another hash of the code of an entry."""
    manifest = json.loads(text)
    for entry in manifest["entries"]:
        if entry["key"] == key:
            entry["sha256"] = hashlib.sha256(b"other").hexdigest()
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"))


def test_other_code_than_the_manifest_says_is_refused(whole: Bundle, tmp_path: Path) -> None:
    begin(TREE, tmp_path, text=_with_other_code(whole.text, KEY))
    with pytest.raises(CompileError, match="copy/copy compiles to other code than the packaged"):
        load(tmp_path, is_packaged=True).code(KEY)
    blobs = load(tmp_path, is_packaged=True).blobs
    assert isinstance(blobs, FirstNeed)
    with pytest.raises(CompileError, match="copy/copy compiles to other code"):
        blobs.fill()
    assert hashlib.sha256(b"other").hexdigest() not in files(tmp_path)


@pytest.mark.parametrize("word", ["tree", "slang"])
def test_a_manifest_of_other_sources_or_compilers_is_not_taken(
    whole: Bundle, tmp_path: Path, word: str
) -> None:
    other = json.loads(whole.text) | {word: "other"}
    text = json.dumps(other, sort_keys=True, separators=(",", ":"))
    assert begin(TREE, tmp_path, text=text).sha == whole.sha
    assert load(tmp_path).check().is_compiled


def test_a_manifest_of_other_kernels_or_probes_is_not_taken(
    whole: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("", _with_other_code(whole.text, PROBES[0].key)):
        assert begin(TREE, tmp_path, text=text).sha == whole.sha
        assert load(tmp_path).check().is_compiled
    monkeypatch.setattr(building, "KERNELS", FEW[:1])
    assert begin(TREE, tmp_path, text=whole.text).sha != whole.sha


def test_the_kept_manifest_comes_back_and_junk_is_none(whole: Bundle, tmp_path: Path) -> None:
    path = tmp_path / "expected.json.xz"
    assert read_expected(path) == ""
    write_expected(whole.text, path)
    assert read_expected(path) == whole.text
    path.write_bytes(path.read_bytes()[:-20])
    assert read_expected(path) == ""
