"""Blobs of a bundle: one is read without the others, from files and from a wheel's archive."""

from __future__ import annotations

import hashlib
import io
import lzma
import zipfile
from pathlib import Path

import pytest

from vkbench_shaders.blobs import Files, Packed, pack
from vkbench_shaders.manifest import Entry

CODES = {"copy": (b"one" * 50, b"two" * 50), "fill": (b"three" * 50, b"two" * 50)}
BLOBS = {hashlib.sha256(code).hexdigest(): code for codes in CODES.values() for code in codes}
ENTRIES = [
    Entry(
        key=f"{module}/{number}",
        module=module,
        entry=str(number),
        arguments=(),
        sha256=hashlib.sha256(code).hexdigest(),
        bytes=len(code),
        local_size=None,
        capabilities=(),
    )
    for module, codes in CODES.items()
    for number, code in enumerate(codes)
]
ONE, TWO, THREE = BLOBS


def test_files_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    for sha in (TWO, ONE):
        (tmp_path / f"{sha}.spv").write_bytes(b"not yet")
    (tmp_path / "manifest.json").touch()
    files = Files(tmp_path)
    assert list(files) == sorted((ONE, TWO))
    (tmp_path / f"{ONE}.spv").write_bytes(BLOBS[ONE])
    assert files[ONE] == BLOBS[ONE]
    (tmp_path / f"{TWO}.spv").unlink()
    assert files.get(TWO) is None


def test_no_other_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "secret.spv").touch()
    assert Files(tmp_path / "blobs").get("../secret") is None


def test_what_is_packed_is_unpacked() -> None:
    """The blob that two modules share lies in the first."""
    archive = pack(BLOBS, ENTRIES)
    assert archive == pack(BLOBS, ENTRIES)
    packed = Packed(archive, ENTRIES)
    assert packed == BLOBS
    assert packed.get("0" * 64) is None


def test_a_module_that_is_damaged_harms_no_other() -> None:
    for broken in (None, b"no xz", lzma.compress(b"too short")):
        buffer = io.BytesIO()
        whole = zipfile.ZipFile(io.BytesIO(pack(BLOBS, ENTRIES)))
        with whole, zipfile.ZipFile(buffer, "w") as changed:
            changed.writestr("fill", whole.read("fill"))
            if broken:
                changed.writestr("copy", broken)
        packed = Packed(buffer.getvalue(), ENTRIES)
        assert packed[THREE] == BLOBS[THREE]
        assert packed[TWO] != BLOBS[TWO]


def test_no_more_is_unpacked_than_the_entries_have() -> None:
    large = pack({**BLOBS, ONE: bytes(10_000_000)}, ENTRIES)
    assert len(Packed(large, ENTRIES)[ONE]) == len(BLOBS[ONE])


def test_what_is_no_archive_is_refused() -> None:
    with pytest.raises(zipfile.BadZipFile):
        Packed(b"no archive", ENTRIES)
