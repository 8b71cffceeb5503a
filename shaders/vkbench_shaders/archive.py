"""Reads bundle archives, which anyone may have made: nothing in them is believed unchecked.

An archive holds manifest.json and <sha256>.spv for the blobs that the manifest names, no other
member. What is read of a member is bounded, whatever its header says of its size.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import Final

from vkbench_shaders.bundle import MANIFEST, MOST_BYTES, MOST_CODE_BYTES, Bundle, CorruptBundle

MOST_BLOBS: Final = 16_384
MOST_MANIFEST_BYTES: Final = 32 << 20
_BLOB: Final = re.compile(r"([0-9a-f]{64})\.spv")
_ENCRYPTED: Final = 1  # a flag of a member
_FAULTS: Final = (  # that zipfile raises on what is no archive, or a damaged one
    EOFError,
    NotImplementedError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)


def from_archive(data: bytes) -> Bundle:
    """The bundle of `Bundle.archive`, checked; CorruptBundle says what is wrong with it."""
    if len(data) > MOST_BYTES:
        raise _refusal(f"it has {len(data)} bytes, and {MOST_BYTES} are allowed")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = dict(_files(archive))
        text = files.pop(MANIFEST, b"").decode()
    except _FAULTS as error:
        raise _refusal(error) from error
    blobs = {name.removesuffix(".spv"): blob for name, blob in files.items()}
    bundle = Bundle(text=text, blobs=blobs).check()
    if unnamed := blobs.keys() - set(bundle.manifest.blobs):
        raise _refusal(f"the manifest does not name {min(unnamed)}")
    return bundle


def _files(archive: zipfile.ZipFile) -> Iterator[tuple[str, bytes]]:
    """What the members hold."""
    members = archive.infolist()
    if len(members) > MOST_BLOBS + 1:
        raise _refusal(f"it has {len(members)} members, and {MOST_BLOBS + 1} are allowed")
    if len({member.filename for member in members}) < len(members):
        raise _refusal("a member comes twice")
    left = MOST_BYTES
    for member in members:
        content = _content(archive, member, left)
        left -= len(content)
        yield member.filename, content


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, left: int) -> bytes:
    blob = _BLOB.fullmatch(member.filename)
    if not blob and member.filename != MANIFEST:
        raise _refusal(f"a member is named {member.filename[:80]!r}")
    if member.flag_bits & _ENCRYPTED:
        raise _refusal(f"{member.filename} is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _refusal(f"{member.filename} is compressed by method {member.compress_type}")
    most = min(left, MOST_CODE_BYTES if blob else MOST_MANIFEST_BYTES)
    with archive.open(member) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise _refusal(f"{member.filename} is unpacked larger than {most} bytes")
    if blob and hashlib.sha256(content).hexdigest() != blob[1]:
        raise _refusal(f"{member.filename} is not what its name says")
    return content


def _refusal(why: object) -> CorruptBundle:
    return CorruptBundle(f"this is no bundle archive: {why}")
