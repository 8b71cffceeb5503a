"""Unpacks members of zip files, which anyone may have made: nothing in them is believed unchecked.

A megabyte of deflated zeros is a gigabyte. So what a file may unpack to is bounded by its own size.
"""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import Final

from vkbench.errors import VkbenchError

FREE_BYTES: Final = 128 << 20  # that any file may unpack to
MOST_RATIO: Final = 16  # beyond that; code and numbers that were measured compress to a quarter
FAULTS: Final = (  # that zipfile raises on what is no archive, or a damaged one
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
_ENCRYPTED: Final = 1  # a flag of a member


class RefusedMember(VkbenchError):
    """A member of a zip file is not unpacked."""


def most_unpacked(packed_bytes: int) -> int:
    """How many bytes all members of a file of this size may have."""
    return max(FREE_BYTES, MOST_RATIO * packed_bytes)


def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> zipfile.ZipExtFile:
    """A member to read from; RefusedMember where reading few bytes of it may take much memory."""
    name = member.filename[:80]
    if member.flag_bits & _ENCRYPTED:
        raise RefusedMember(f"{name} is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise RefusedMember(f"{name} is compressed by method {member.compress_type}")
    file = archive.open(member)
    assert isinstance(file, zipfile.ZipExtFile)
    return file
