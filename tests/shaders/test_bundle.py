"""Bundles: whole or refused, the same for the same sources, found by how a hash begins."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from vkbench.errors import UnknownName, UsageError
from vkbench.process.plain_file import replace_file
from vkbench_shaders import bundle as bundles
from vkbench_shaders.archive import from_archive
from vkbench_shaders.bundle import (
    CODE,
    AmbiguousBundle,
    Bundle,
    BundleStore,
    CorruptBundle,
    MissingBundle,
    UnknownBundle,
    load,
    manifest_text,
    packed_code,
)
from vkbench_shaders.compile import compiler
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.compile.tree import TREE

pytestmark = pytest.mark.slow

KEY, OTHER = "copy/copy", "fill/fill"


@pytest.fixture
def folder(small: Bundle, tmp_path: Path) -> Path:
    """A bundle of the test's own, to break."""
    small.save(tmp_path / "bundle")
    return tmp_path / "bundle"


def test_a_bundle_is_named_by_its_manifest(bundle: Bundle) -> None:
    assert bundle.sha == hashlib.sha256(bundle.text.encode()).hexdigest()
    assert bundle.text == json.dumps(json.loads(bundle.text), sort_keys=True, separators=(",", ":"))
    assert bundle.manifest.slang
    assert len(bundle.manifest.tree) == 64


def test_it_comes_back_from_its_folder(small: Bundle, folder: Path) -> None:
    again = load(folder)
    assert (again.sha, dict(again.blobs)) == (small.sha, dict(small.blobs))
    assert again.code(KEY) == small.code(KEY)


def test_a_bundle_of_version_1_takes_what_its_code_says(bundle: Bundle) -> None:
    """Its manifest has no interfaces, and its SPIR-V still has the names."""
    units = (
        Unit(module="copy", entry="copy"),
        Unit(module="unary", entry="unary", arguments=("Sin", "f32", "f32")),
        Unit(module="flash_combine", entry="flash_combine", arguments=("numbers",)),
        Unit(module="rope", entry="rope", arguments=("f16",)),
    )
    codes = {unit.key: compiler.find().compile(unit, TREE) for unit in units}
    blobs = {hashlib.sha256(code).hexdigest(): code for code in codes.values()}
    entries = [
        replace(bundle.entry(key), sha256=sha, bytes=len(code), interface="")
        for key, (sha, code) in zip(codes, blobs.items(), strict=True)
    ]
    text = manifest_text(bundle.manifest.slang, bundle.manifest.tree, entries, {})
    text = text.replace('"version":2', '"version":1').replace(',"interfaces":{}', "")
    text = text.replace(',"interface":""', "")
    assert "interface" not in text
    old = Bundle(text=text, blobs=blobs).check()
    for key in codes:
        assert old.interface(key) == replace(bundle.interface(key), dropped=None)


def test_an_interface_that_is_missing_is_refused(bundle: Bundle) -> None:
    name = bundle.entry(KEY).interface
    text = bundle.text.replace(f'"{name}":{{', f'"{name[::-1]}":{{')
    assert text != bundle.text
    with pytest.raises(CorruptBundle, match=f"the interface of {KEY} is missing"):
        Bundle(text=text, blobs=bundle.blobs).check()


def test_an_unknown_kernel_brings_near_ones(bundle: Bundle) -> None:
    with pytest.raises(UnknownName, match="did you mean 'get_rows/get_rows<f16,f16>'"):
        bundle.code("get_rows/get_row<f16,f16>")


def test_a_changed_blob_is_refused(small: Bundle, folder: Path) -> None:
    path = folder / f"{small.entry(KEY).sha256}.spv"
    path.write_bytes(path.read_bytes()[:-1] + b"\x00\x01")
    broken = load(folder)
    for refuse in (broken.check, lambda: broken.code(KEY)):
        with pytest.raises(CorruptBundle, match=f"the code of {KEY} is not what its hash says"):
            refuse()
    assert broken.code(OTHER) == small.code(OTHER)


def test_a_missing_blob_is_refused(small: Bundle, folder: Path) -> None:
    (folder / f"{small.entry(KEY).sha256}.spv").unlink()
    with pytest.raises(CorruptBundle, match=f"the code of {KEY} is missing"):
        load(folder).check()


def test_a_blob_that_goes_after_loading_is_refused(small: Bundle, folder: Path) -> None:
    loaded = load(folder)
    path = folder / f"{small.entry(KEY).sha256}.spv"
    path.unlink()
    with pytest.raises(CorruptBundle, match=f"the code of {KEY} is missing"):
        loaded.code(KEY)
    path.mkdir()
    with pytest.raises(CorruptBundle, match=f"the code of {KEY} cannot be read: Is a directory"):
        loaded.code(KEY)


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b'{"version":1}', b"\xff\xfe", b'{"entries":[{"key":1}]}']
)
def test_a_malformed_manifest_is_refused(folder: Path, text: bytes) -> None:
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(CorruptBundle):
        load(folder)


def test_a_folder_without_a_manifest_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(CorruptBundle, match="holds no bundle"):
        load(tmp_path)


def test_an_archive_brings_everything_and_is_the_same_every_time(small: Bundle) -> None:
    again = from_archive(small.archive())
    assert (again.sha, dict(again.blobs)) == (small.sha, dict(small.blobs))
    assert small.archive() == again.archive()


def test_broken_archives_are_refused(small: Bundle) -> None:
    whole = small.archive()
    middle = len(whole) // 2
    changed = whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :]
    for data in (b"", b"PK", whole[:-30], changed, whole[:middle]):
        with pytest.raises(CorruptBundle):
            from_archive(data)


def test_a_store_keeps_bundles_by_hash(small: Bundle, tmp_path: Path) -> None:
    store = BundleStore(tmp_path / "bundles")
    assert store.list() == []
    other = Bundle(text=small.text.replace('"slang":"', '"slang":"other '), blobs=small.blobs)
    for _ in range(2):
        store.put(other)
    assert store.list() == [other.sha]
    assert store.get(other.sha).code(KEY) == small.code(KEY)
    assert store.get(other.sha[:8].upper()).sha == other.sha
    assert [path.name for path in store.folder.iterdir()] == [other.sha]


def test_a_store_names_what_it_lacks(tmp_path: Path) -> None:
    with pytest.raises(UnknownBundle, match="unknown bundle 'abcd'"):
        BundleStore(tmp_path / "bundles").get("abcd")
    with pytest.raises(UsageError, match="'abc' is short for a bundle: give 4 digits or more"):
        BundleStore(tmp_path / "bundles").get("abc")


def test_a_beginning_of_several_bundles_is_refused(
    small: Bundle, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "PACKAGED", folder)  # counts as well
    bundles.packaged.cache_clear()
    store = BundleStore(tmp_path / "bundles")
    twin = small.sha[:8] + ("1" if small.sha[8] == "0" else "0") * 56
    (store.folder / twin).mkdir(parents=True)
    (store.folder / twin / "manifest.json").touch()
    with pytest.raises(AmbiguousBundle, match="begins several bundles: give more of it"):
        store.get(small.sha[:8])
    assert store.get(small.sha[:9]).sha == small.sha
    bundles.packaged.cache_clear()


def test_a_store_does_not_keep_what_is_broken(small: Bundle, tmp_path: Path) -> None:
    store = BundleStore(tmp_path / "bundles")
    with pytest.raises(CorruptBundle):
        store.put(Bundle(text=small.text, blobs={}))
    assert store.list() == []
    assert list(store.folder.iterdir()) == []


def test_a_manifest_changed_in_the_store_is_noticed(small: Bundle, tmp_path: Path) -> None:
    store = BundleStore(tmp_path / "bundles")
    other = Bundle(text=small.text.replace('"slang":"', '"slang":"other '), blobs=small.blobs)
    store.put(other)
    (store.folder / other.sha / "manifest.json").write_text(small.text)
    with pytest.raises(CorruptBundle, match="its manifest was changed"):
        store.get(other.sha)


def test_the_packaged_bundle_is_the_empty_name(
    small: Bundle, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "PACKAGED", folder)
    bundles.packaged.cache_clear()
    store = BundleStore(tmp_path / "bundles")
    assert store.get("").sha == store.get(small.sha[:10]).sha == small.sha
    assert store.get("").name == "packaged"
    bundles.packaged.cache_clear()


def test_the_packaged_hash_is_that_of_the_manifest_as_it_is_now(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "PACKAGED", folder)
    manifest = folder / "manifest.json"
    for text in ("one", "two"):
        replace_file(manifest, text.encode())
        assert bundles.packaged_sha() == hashlib.sha256(text.encode()).hexdigest()
    manifest.unlink()
    assert bundles.packaged_sha() == ""


def test_a_package_without_kernels_says_how_to_build_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundles, "PACKAGED", tmp_path / "nothing")
    bundles.packaged.cache_clear()
    with pytest.raises(MissingBundle, match=r"python -m vkbench_shaders\.compile\.build"):
        BundleStore(tmp_path).get("")


def test_a_wheel_s_folder_has_all_blobs_in_one_file(small: Bundle, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(small.text)
    (tmp_path / CODE).write_bytes(packed_code(small))
    loaded = load(tmp_path)
    assert loaded.code(KEY) == small.code(KEY)
    assert loaded.check().blobs == small.blobs
    (tmp_path / CODE).write_bytes(b"no archive")
    with pytest.raises(CorruptBundle, match="holds no bundle: File is not a zip file"):
        load(tmp_path)
