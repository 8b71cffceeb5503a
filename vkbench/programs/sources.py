"""Where the files of a build come from: a folder, a tar file or a zip file, none of it trusted.

Only the files that a program names are read. Their folder is the deepest one that holds them all,
so that a build has the same hash wherever it lay.
"""

from __future__ import annotations

import lzma
import os
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from vkbench.errors import UsageError
from vkbench.programs.build import MOST_FILES, NoBuild, OpenFile, check_path
from vkbench.programs.program import Program

MOST_MEMBERS = 100_000  # of an archive or a folder that are looked at
MOST_ARCHIVE_BYTES = 16 << 30  # unpacked, that are looked through
_PIECE_BYTES = 1 << 20
MOST_LINKS = 8  # that lead from a name to a file
_UNREADABLE = (EOFError, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile, zlib.error)


class Source(Protocol):
    """Files by their paths, with / between the parts."""

    def list_paths(self) -> Iterator[str]:
        """The paths of all files."""
        ...

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        """One of them, to be read."""
        ...


class FolderSource:
    """The files below a folder; links that lead out of it are none of its files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def list_paths(self) -> Iterator[str]:
        for folder, _, names in os.walk(self._folder):
            yield from (Path(folder, name).relative_to(self._folder).as_posix() for name in names)

    @contextmanager
    def open_file(self, path: str) -> Iterator[BinaryIO]:
        place = (self._folder / path).resolve()
        if not place.is_relative_to(self._folder):
            raise NoBuild(f"{path} links to {place}, out of {self._folder}")
        if not stat.S_ISREG(place.stat().st_mode):
            raise NoBuild(f"{path} is no file with a size")
        with place.open("rb") as file:
            yield file


class TarSource:
    """The files of a tar archive, compressed or not."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive
        self._members: dict[str, tarfile.TarInfo] = {}
        for count, member in enumerate(archive):
            if count >= MOST_MEMBERS or member.offset_data > MOST_ARCHIVE_BYTES:
                raise NoBuild(
                    f"the archive has over {MOST_MEMBERS} members or "
                    f"{MOST_ARCHIVE_BYTES >> 30} GiB: name a folder with one build's files"
                )
            self._members[_normalise(member.name)] = member
        _read_to_the_end(archive)

    def list_paths(self) -> Iterator[str]:
        return (path for path, member in self._members.items() if not member.isdir())

    @contextmanager
    def open_file(self, path: str) -> Iterator[BinaryIO]:
        member = self._follow_links(path)
        file = self._archive.extractfile(member)
        if file is None:
            raise NoBuild(f"{path} of the archive is no file with a size")
        with file:
            yield file  # type: ignore[misc]  # a binary file that is read alone

    def _follow_links(self, path: str) -> tarfile.TarInfo:
        place = path
        for _ in range(MOST_LINKS):
            member = self._members.get(place)
            if member is None:
                break
            if not (member.issym() or member.islnk()):
                return member
            beside = PurePosixPath(place).parent if member.issym() else PurePosixPath()
            place = _normalise(str(beside / member.linkname))
        raise NoBuild(f"{path} links to {place}, which is no file of the archive")


class ZipSource:
    """The files of a zip archive."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        if len(archive.filelist) > MOST_MEMBERS:
            raise NoBuild(f"the archive has over {MOST_MEMBERS} members")
        self._archive = archive
        self._members = {
            _normalise(member.filename): member
            for member in archive.filelist
            if not member.is_dir()
        }

    def list_paths(self) -> Iterator[str]:
        return iter(self._members)

    def open_file(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self._archive.open(self._members[path])  # type: ignore[return-value]


@contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """The files of a folder or an archive; UsageError for anything else."""
    try:
        if path.is_dir():
            yield FolderSource(path)
        elif path.is_file() and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield ZipSource(archive)
        elif path.exists():
            with tarfile.open(path) as tar:
                yield TarSource(tar)
        else:
            raise UsageError(f"there is no folder or archive {path}")
    except (*_UNREADABLE, OSError) as error:
        reason = f"cannot read {path}, which should be a folder, tar or zip file"
        raise UsageError(f"{reason}: {str(error).splitlines()[0].rstrip(':')}") from error


@contextmanager
def open_build(path: Path, program: Program) -> Iterator[Mapping[str, OpenFile]]:
    """The files of a folder or an archive that a program names, by their paths in the build."""
    with open_source(path) as source:
        files = choose_files(source, program)
        yield {name: partial(source.open_file, place) for name, place in files.items()}


@contextmanager
def open_in_place(folder: Path, program: Program) -> Iterator[tuple[Path, Mapping[str, OpenFile]]]:
    """The deepest folder that holds a build's files, and these, where they are to stay."""
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder: only the files of one can stay in place")
    with open_source(folder) as source:
        files = choose_files(source, program)
        path, place = next(iter(files.items()))
        root = folder / place.removesuffix(path)
        yield root, {name: partial(source.open_file, place) for name, place in files.items()}


def choose_files(source: Source, program: Program) -> Mapping[str, str]:
    """The files that a program names: where each lies in the source, by its path in the build.

    NoBuild says which is missing, or that there are several builds.
    """
    chosen = [path for path in source.list_paths() if _is_named(path, program)]
    for pattern in program.needs:
        if not any(fnmatchcase(PurePosixPath(path).name, pattern) for path in chosen):
            raise NoBuild(f"there is no {pattern} in it, which every build of {program.name} has")
    if len(chosen) > MOST_FILES:
        raise NoBuild(f"it has {len(chosen)} files of {program.name}: name one build's folder")
    root = os.path.commonpath([os.path.dirname(path) for path in chosen])
    files = {check_path(os.path.relpath(path, root or ".")): path for path in sorted(chosen)}
    _check_is_one_build(files, program)
    return files


def _is_named(path: str, program: Program) -> bool:
    name = PurePosixPath(path).name
    return any(fnmatchcase(name, pattern) for pattern in (*program.needs, *program.takes))


def _check_is_one_build(files: Mapping[str, str], program: Program) -> None:
    """NoBuild where a file that every build has lies in several folders."""
    for pattern in program.needs:
        named = [path for path in files if fnmatchcase(PurePosixPath(path).name, pattern)]
        folders = sorted({os.path.dirname(files[path]) or "." for path in named})
        if len(folders) > 1:
            raise NoBuild(f"{pattern} lies in {' and in '.join(folders[:2])}: name one of them")


def _normalise(path: str) -> str:
    """The path of a member of an archive, below its root and without `.` and doubled slashes."""
    return os.path.normpath(path.lstrip("/"))


def _read_to_the_end(archive: tarfile.TarFile) -> None:
    """Have a compressed file check its sum, which stands behind all that the archive needs."""
    assert archive.fileobj
    for _ in range(MOST_ARCHIVE_BYTES // _PIECE_BYTES):
        if not archive.fileobj.read(_PIECE_BYTES):
            break
