"""Files of at most three megabytes that say they are, or unpack to, gigabytes."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import cache

HUGE = 2_100_000_000  # bytes


def header(
    shape: str = f"({HUGE // 4},)", dtype: str = "<f4", *, size: int | None = None, text: str = ""
) -> bytes:
    """The beginning of an array in an npz file; of version 2, whose header may have any size."""
    said = text or f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}, }}"
    length = len(said) if size is None else size
    return b"\x93NUMPY\x02\0" + struct.pack("<I", length) + said.encode()


def npz(begin: bytes, zeros: int = 0) -> bytes:
    """An npz file with one array `x`: how it begins, and so many zeros.

    One deflated megabyte of zeros is repeated: to deflate them all would take long.
    """
    block, (count, rest) = bytes(1 << 20), divmod(zeros, 1 << 20)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = deflate.compress(begin) + deflate.flush(zlib.Z_FULL_FLUSH)
    packed += (deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)) * count
    packed += deflate.compress(bytes(rest)) + deflate.flush()
    check = zlib.crc32(begin)
    for _ in range(count):
        check = zlib.crc32(block, check)
    sizes = (zlib.crc32(bytes(rest), check), len(packed), len(begin) + zeros)
    data = bytearray(zipped({"x.npy": packed}))
    for at in (0, data.rindex(b"PK\x01\x02") + 2):  # the directory has a field more before these
        data[at + 8 : at + 10] = struct.pack("<H", zipfile.ZIP_DEFLATED)
        data[at + 14 : at + 26] = struct.pack("<3I", *sizes)
    return bytes(data)


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """A zip file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@cache
def zeros() -> bytes:
    """An npz file of two megabytes with an array of 2.1 gigabytes of zeros."""
    return npz(header(), HUGE)


def overlapping() -> bytes:
    """An npz file whose directory names one member 900 times."""
    data = npz(header("(262144,)"), 1 << 20)
    at, end = data.index(b"PK\x01\x02"), data.rindex(b"PK\x05\x06")
    entry, tail = data[at:end], bytearray(data[end:])
    entries = b"".join(entry.replace(b"x.npy", b"%05d" % number) for number in range(900))
    tail[8:12] = struct.pack("<HH", 900, 900)
    tail[12:16] = struct.pack("<I", len(entries))
    return data[:at] + entries + bytes(tail)


NPZ: Mapping[str, Callable[[], bytes]] = {
    "zeros": zeros,
    "zeros by bzip2": lambda: zipped({"x.npy": header() + bytes(1 << 25)}, zipfile.ZIP_BZIP2),
    "zeros by LZMA": lambda: zipped({"x.npy": header() + bytes(1 << 25)}, zipfile.ZIP_LZMA),
    "a header of zeros": lambda: npz(header(text=" ", size=HUGE), HUGE),
    "a shape that is forged": lambda: npz(header(), 100),
    "a shape of 2^70": lambda: npz(header(f"({2**70},)"), 100),
    "a shape below zero": lambda: npz(header("(-1,)"), 100),
    "an element of two gigabytes": lambda: npz(header("(1,)", "|V2147483647"), 100),
    "an array that is cut off": lambda: npz(header("(100,)"), 399),
    "an array that goes on": lambda: npz(header("(100,)"), 401),
    "a header that nests": lambda: npz(header(text="(" * 9000)),
    "a header that is not text": lambda: npz(header(text="\xe9\0")),
    "a header without a shape": lambda: npz(header(text="{}")),
    "a dtype that nests": lambda: npz(header(text="{'descr': " + "[" * 4000)),
    "an npz within": lambda: zipped({"x.npy": zeros()}),
    "many arrays": lambda: zipped({f"x{number}.npy": header("(1,)") for number in range(4000)}),
    "one array by many names": overlapping,
    "half a file": lambda: zeros()[:1_000_000],
    "a damaged file": lambda: zeros()[:5000] + b"\xff" * 100 + zeros()[5100:],
    "no bytes": bytes,
    "a text": lambda: b"weights",
}


def manifest(text: str, item: str) -> bytes:
    """The manifest of a bundle with 31 megabytes of kernels."""
    found = json.loads(text) | {"kernels": "@"}
    return (
        json.dumps(found)
        .replace('"@"', f"[{','.join([item] * (31 * 2**20 // len(item)))}]")
        .encode()
    )
