"""Reads npz files, which anyone may have made: a bound is checked before memory is taken.

numpy's own reader believes the headers, and unpacks whatever the file holds.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.lib import format as npy

from vkbench.errors import VkbenchError
from vkbench.process.plain_file import open_plain
from vkbench_shaders.formats import Array
from vkbench_shaders.members import FAULTS, RefusedMember, most_unpacked, open_member

MOST_ARRAYS: Final = 1000
SUFFIX: Final = ".npy"
_MOST_HEADER_BYTES: Final = 10_000  # as many as numpy itself takes
_LENGTHS: Final[Mapping[tuple[int, ...], struct.Struct]] = {  # of a header, by version
    (1, 0): struct.Struct("<H"),
    (2, 0): struct.Struct("<I"),
}


class BadNpz(VkbenchError):
    """A file is no complete npz file of plain arrays."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What an npz file says of one of its arrays."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool  # its columns lie in one piece

    @property
    def bytes(self) -> int:
        """Bytes that the array takes."""
        return prod(self.shape) * self.dtype.itemsize


def read_npz(path: Path, check: Callable[[Header], object] = lambda _: None) -> dict[str, Array]:
    """Every array of a file, by name; BadNpz says in one line what is wrong with it.

    UsageError if it cannot be opened, or is a pipe.
    `check` sees each header before its array is read, and raises what it does not want.
    """
    try:
        with open_plain(path) as file, zipfile.ZipFile(file) as archive:
            size = os.fstat(file.fileno()).st_size
            return _read_arrays(archive, most_unpacked(size), check)
    except (*FAULTS, RefusedMember) as error:
        raise BadNpz(" ".join(str(error).split()) or type(error).__name__) from error


def _read_arrays(
    archive: zipfile.ZipFile, left: int, check: Callable[[Header], object]
) -> dict[str, Array]:
    members = archive.infolist()
    if len(members) > MOST_ARRAYS:
        raise BadNpz(f"it has {len(members)} members, and {MOST_ARRAYS} are allowed")
    arrays: dict[str, Array] = {}
    for member in members:
        name = member.filename.removesuffix(SUFFIX)
        if name in arrays:
            raise BadNpz(f"the array {name[:80]} comes twice")
        with open_member(archive, member) as file:
            header = _read_header(name, file)
            check(header)
            left -= header.bytes
            if left < 0:
                raise BadNpz(f"{name[:80]} has {header.bytes} bytes, too many for a file so small")
            arrays[name] = _read_content(header, file)
    return arrays


def _read_header(name: str, file: zipfile.ZipExtFile) -> Header:
    """The header of an array; BadNpz for one that numpy does not write."""
    shown = name[:80]
    start = file.read(npy.MAGIC_LEN)
    length = _LENGTHS.get(tuple(start[-2:]))
    if not start.startswith(npy.MAGIC_PREFIX) or not length:
        raise BadNpz(f"{shown} is no array")
    start += file.read(length.size)
    (size,) = length.unpack(start[npy.MAGIC_LEN :])
    if size > _MOST_HEADER_BYTES:
        raise BadNpz(f"the header of {shown} has {size} bytes")
    text = io.BytesIO(start[npy.MAGIC_LEN :] + file.read(size))
    wide = length.size == 4
    try:
        described = (npy.read_array_header_2_0 if wide else npy.read_array_header_1_0)(text)
    except Exception as error:  # numpy's parser has no list of what its parts raise
        raise BadNpz(f"the header of {shown} cannot be read") from error
    shape, is_fortran, dtype = described
    header = Header(name=name, shape=tuple(shape), dtype=dtype, is_fortran=is_fortran)
    if dtype.hasobject:
        raise BadNpz(f"{shown} holds Python objects")
    if min(shape, default=0) < 0:
        raise BadNpz(f"{shown} has the shape {list(shape)}")
    return header


def _read_content(header: Header, file: zipfile.ZipExtFile) -> Array:
    content = file.read(header.bytes + 1)  # one more, so that its check sum is looked at
    if len(content) != header.bytes:
        raise BadNpz(f"{header.name[:80]} is not as long as its header says")
    order: Literal["F", "C"] = "F" if header.is_fortran else "C"
    if not header.bytes:
        return np.empty(header.shape, header.dtype, order)
    return np.ndarray(header.shape, header.dtype, content, order=order)
