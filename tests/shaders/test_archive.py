"""Archives of bundles: what strangers may put into one is refused before it is believed."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from vkbench_shaders import archive as archives
from vkbench_shaders.archive import from_archive
from vkbench_shaders.bundle import (
    MANIFEST,
    MOST_CODE_BYTES,
    Bundle,
    CorruptBundle,
    manifest_text,
)

BLOB = b"any bytes"
NAME = f"{hashlib.sha256(BLOB).hexdigest()}.spv"


def packed(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def contents(bundle: Bundle) -> dict[str, bytes]:
    return {MANIFEST: bundle.text.encode()} | {f"{k}.spv": v for k, v in bundle.blobs.items()}


def naming(bundle: Bundle, blobs: Sequence[bytes]) -> Bundle:
    """A bundle with more blobs, each the code of an entry."""
    manifest, entry = bundle.manifest, bundle.manifest.entries[0]
    more = {hashlib.sha256(blob).hexdigest(): blob for blob in blobs}
    entries = [replace(entry, sha256=sha, arguments=(sha,)) for sha in more]
    text = manifest_text("1", "0" * 64, [*manifest.entries, *entries], manifest.interfaces)
    return Bundle(text=text, blobs={**bundle.blobs, **more})


def test_a_small_archive_comes_back(small: Bundle) -> None:
    assert from_archive(packed(contents(small))).sha == small.sha
    assert from_archive(small.archive()).sha == small.sha


@pytest.mark.parametrize(
    "name",
    [
        f"../{NAME}",
        f"../../../../root/.ssh/{NAME}",
        f"/{NAME}",
        f"/etc/{NAME}",
        NAME.upper(),
        NAME[1:],
        f"{NAME}\n",
        "readme.txt",
        "folder/",
    ],
)
def test_a_member_of_another_name_is_refused(small: Bundle, name: str) -> None:
    with pytest.raises(CorruptBundle, match="a member is named"):
        from_archive(packed(contents(small) | {name: BLOB}))


def test_a_member_that_is_not_what_its_name_says_is_refused(small: Bundle) -> None:
    name = f"{min(small.blobs)}.spv"
    with pytest.raises(CorruptBundle, match="is not what its name says"):
        from_archive(packed(contents(small) | {name: BLOB}))


def test_code_that_the_manifest_does_not_name_is_refused(small: Bundle) -> None:
    with pytest.raises(CorruptBundle, match="the manifest does not name"):
        from_archive(packed(contents(small) | {NAME: BLOB}))


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_compressions_are_refused(small: Bundle, method: int) -> None:
    with pytest.raises(CorruptBundle, match="is compressed by method"):
        from_archive(packed(contents(small), method))


def test_encrypted_members_are_refused(small: Bundle) -> None:
    data = bytearray(packed(contents(small), zipfile.ZIP_STORED))
    data[6] |= 1  # flags of the first member, there and in the directory
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(CorruptBundle, match="is encrypted"):
        from_archive(bytes(data))


def test_a_member_that_comes_twice_is_refused(small: Bundle) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(MANIFEST, small.text)
        with pytest.warns(UserWarning, match="Duplicate name"):
            archive.writestr(MANIFEST, small.text)
    with pytest.raises(CorruptBundle, match="comes twice"):
        from_archive(buffer.getvalue())


def test_what_unpacks_beyond_the_bounds_is_refused(
    small: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = bytes(MOST_CODE_BYTES + 1)
    data = bytearray(packed(contents(naming(small, [bomb]))))
    at = data.rindex(b"PK\x01\x02")
    for size in (len(bomb), 20):  # as its header says, and one that it denies
        data[at + 24 : at + 28] = size.to_bytes(4, "little")
        with pytest.raises(CorruptBundle, match=r"larger than|is not what|Bad CRC"):
            from_archive(bytes(data))
    whole = packed(contents(small))
    monkeypatch.setattr(archives, "MOST_BYTES", sum(map(len, small.blobs.values())))
    with pytest.raises(CorruptBundle, match="larger than"):  # with the manifest it is more
        from_archive(whole)
    monkeypatch.setattr(archives, "MOST_BLOBS", 1)
    with pytest.raises(CorruptBundle, match="4 members, and 2 are allowed"):
        from_archive(whole)


def test_what_a_small_archive_unpacks_to_is_bounded_by_its_size(small: Bundle) -> None:
    zeros = bytes(MOST_CODE_BYTES - 16)
    bombs = [zeros + number.to_bytes(16, "little") for number in range(17)]
    whole = naming(small, bombs)
    assert len(packed(contents(whole))) < 1 << 20
    with pytest.raises(CorruptBundle, match="larger than"):
        from_archive(packed(contents(whole)))


def test_the_code_of_another_bundle_is_not_unpacked(small: Bundle) -> None:
    archive = packed(contents(small) | {f"{min(small.blobs)}.spv": BLOB})
    with pytest.raises(CorruptBundle, match=f"it came as bundle {small.sha[:12]}"):
        from_archive(archive, "0" * 64)
