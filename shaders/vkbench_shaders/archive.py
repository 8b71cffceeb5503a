"""Reads bundle archives, which anyone may have made: nothing in them is believed unchecked.

An archive holds manifest.json and <sha256>.spv for the blobs that the manifest names, no other
member. What is read of a member is bounded, whatever its header says of its size.
"""

from __future__ import annotations

import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from vkbench_shaders.bundle import (
    MANIFEST,
    MOST_BYTES,
    MOST_CODE_BYTES,
    Bundle,
    CorruptBundle,
    Manifest,
)
from vkbench_shaders.members import FAULTS, RefusedMember, most_unpacked, open_member

MOST_BLOBS: Final = 16_384
MOST_MANIFEST_BYTES: Final = 8 << 20  # as records it takes thirty times that; packaged: 0.9 MB
_BLOB: Final = re.compile(r"([0-9a-f]{64})\.spv")


def from_archive(data: bytes, sha: str = "") -> Bundle:
    """The bundle of `Bundle.archive`, checked; CorruptBundle says what is wrong with it.

    With the hash of the one that is expected, another one's code is not unpacked.
    """
    if len(data) > MOST_BYTES:
        raise _refusal(f"it has {len(data)} bytes, and {MOST_BYTES} are allowed")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = _members(archive)
            manifest = members.pop(MANIFEST, None)
            text = _content(archive, manifest, MOST_MANIFEST_BYTES) if manifest else b""
            bundle = Bundle(text=text.decode(), blobs={})
            if sha and bundle.sha != sha:
                raise CorruptBundle(f"it came as bundle {bundle.sha[:12]}")
            left = min(MOST_BYTES, most_unpacked(len(data))) - len(text)
            blobs = dict(_blobs(archive, _find_blobs(members, bundle.manifest), left))
    except (*FAULTS, RefusedMember) as error:
        raise _refusal(error) from error
    return replace(bundle, blobs=blobs).check()


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The members by name, which each have once."""
    members = archive.infolist()
    if len(members) > MOST_BLOBS + 1:
        raise _refusal(f"it has {len(members)} members, and {MOST_BLOBS + 1} are allowed")
    by_name = {member.filename: member for member in members}
    if len(by_name) < len(members):
        raise _refusal("a member comes twice")
    return by_name


def _find_blobs(
    members: Mapping[str, zipfile.ZipInfo], manifest: Manifest
) -> dict[str, zipfile.ZipInfo]:
    """The members that hold blobs, by the blobs' hashes."""
    named, blobs = frozenset(manifest.blobs), {}
    for name, member in members.items():
        blob = _BLOB.fullmatch(name)
        if not blob:
            raise _refusal(f"a member is named {name[:80]!r}")
        if blob[1] not in named:
            raise _refusal(f"the manifest does not name {blob[1]}")
        blobs[blob[1]] = member
    return blobs


def _blobs(
    archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], left: int
) -> Iterator[tuple[str, bytes]]:
    """What the members hold, by its hash."""
    for sha, member in members.items():
        content = _content(archive, member, min(left, MOST_CODE_BYTES))
        left -= len(content)
        if hashlib.sha256(content).hexdigest() != sha:
            raise _refusal(f"{member.filename} is not what its name says")
        yield sha, content


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    with open_member(archive, member) as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise _refusal(f"{member.filename} is unpacked larger than {most} bytes")
    return content


def _refusal(why: object) -> CorruptBundle:
    return CorruptBundle(f"this is no bundle archive: {why}")
