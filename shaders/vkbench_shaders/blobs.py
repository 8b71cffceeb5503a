"""The blobs of a bundle in a folder, each read when it is asked for: a process needs few of them.

Nothing here is checked: a bundle checks the hash of a blob whenever it hands out its code.
"""

from __future__ import annotations

import io
import lzma
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from vkbench_shaders.manifest import Entry

SUFFIX = ".spv"
_KEPT_MODULES = 4  # unpacked: the next blob that is asked for is often of the same module
_DATE = (1980, 1, 1, 0, 0, 0)  # the same blobs make the same bytes
# Words of four bytes, in modules of megabytes: a sixth smaller than by preset 1 alone, in thrice
# its time. Preset 4 takes five times as long, for no more.
_FILTER = {
    "id": lzma.FILTER_LZMA2,
    "preset": 1,
    "mode": lzma.MODE_NORMAL,
    "mf": lzma.MF_HC4,
    "nice_len": 128,
    "depth": 4,
    "dict_size": 1 << 22,
    "lc": 0,
    "lp": 2,
    "pb": 2,
}


class Files(Mapping[str, bytes]):
    """Blobs that are files of a folder, named by their hashes."""

    def __init__(self, folder: Path) -> None:
        names = sorted(name for name in os.listdir(folder) if name.endswith(SUFFIX))
        self._paths = {name.removesuffix(SUFFIX): folder / name for name in names}

    def __getitem__(self, sha: str) -> bytes:
        try:
            return self._paths[sha].read_bytes()
        except FileNotFoundError:
            raise KeyError(sha) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)


@dataclass(frozen=True)
class _Place:
    """Where the blob of an entry lies: in what its module's member unpacks to."""

    module: str
    begin: int
    end: int


class Packed(Mapping[str, bytes]):
    """Blobs in an archive of `pack`; zipfile.BadZipFile where it is none."""

    def __init__(self, archive: bytes, entries: Iterable[Entry]) -> None:
        self._archive = zipfile.ZipFile(io.BytesIO(archive))
        self._places = _places(entries)
        self._module = lru_cache(_KEPT_MODULES)(self._unpack_module)

    def __getitem__(self, sha: str) -> bytes:
        place = self._places[sha]
        return self._module(place.module)[place.begin : place.end]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def _unpack_module(self, module: str) -> bytes:
        """The blobs of a module, no more bytes than there should be; none if they are damaged."""
        most = max(place.end for place in self._places.values() if place.module == module)
        try:
            packed = self._archive.read(module)
            return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(packed, most)
        except (KeyError, zipfile.BadZipFile, lzma.LZMAError):
            return b""


def pack(blobs: Mapping[str, bytes], entries: Iterable[Entry]) -> bytes:
    """All blobs of entries in one archive; those of a module are alike, and compressed together."""
    modules: dict[str, list[bytes]] = {}
    for sha, place in _places(entries).items():
        modules.setdefault(place.module, []).append(blobs[sha])
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for module, parts in modules.items():
            packed = lzma.compress(b"".join(parts), filters=[_FILTER])
            archive.writestr(zipfile.ZipInfo(module, _DATE), packed)
    return buffer.getvalue()


def _places(entries: Iterable[Entry]) -> dict[str, _Place]:
    """Where each blob lies, by its hash: in the module of the first entry that has it."""
    places: dict[str, _Place] = {}
    ends: dict[str, int] = {}
    for entry in entries:
        if entry.sha256 not in places:
            begin = ends.get(entry.module, 0)
            ends[entry.module] = begin + entry.bytes
            places[entry.sha256] = _Place(entry.module, begin, ends[entry.module])
    return places
