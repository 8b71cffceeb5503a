"""Keeps builds by the hashes of their files, and lays one out as a folder when it is to run.

    files/SHA256          what a file holds, once however many builds have it
    builds/SHA256.json    a build: its program, its name, and its files by path and hash
    folders/SHA256/       the files of a build under their own names, ready to run

A build is there once its JSON is: it is written last, and whole. What was killed half way leaves
files that no build names; removing builds removes these too. Of a build that stays in its user's
folder, only the hashes are kept, and links to the files.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp, mkstemp
from typing import BinaryIO, Final

import msgspec

from vkbench import decoding
from vkbench.errors import VkbenchError
from vkbench.process.plain_file import replace_file
from vkbench.programs.build import (
    MOST_BYTES,
    Build,
    BuildFile,
    Commit,
    NoBuild,
    OpenFile,
    check_build,
)
from vkbench.words.names import pick_sha

_PIECE_BYTES: Final = 1 << 20
_RUNNABLE: Final = 0o555  # kept files are read and run, never written
_FORGOTTEN_SECONDS: Final = 3600  # files without a build that are older were left by a killed add


class DamagedBuild(VkbenchError):
    """What is kept of a build is not what it was."""


class BuildStore:
    """The builds that are kept in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(
        self,
        program: str,
        opens: Mapping[str, OpenFile],
        name: str = "",
        *,
        folder: Path | None = None,
        commit: Commit | None = None,
    ) -> Build:
        """Keep a build of these files; the same files are the same build.

        Files that stay in a folder of their user are hashed and not copied, unless they are kept
        already. A commit is noted as what the build was made of, and names it if nothing else does.
        """
        with self._report_trouble():
            keep = _hash_file if folder else self._keep_file
            left, files = MOST_BYTES, []
            for path, open_file in opens.items():
                with open_file() as file:
                    files.append(keep(path, file, left))
                left -= files[-1].nbytes
            build = Build(
                program=program,
                files=tuple(sorted(files)),
                name=name,
                added_at=time.time(),
                commits=(commit,) if commit else (),
                folder=str(folder.resolve()) if folder else "",
            )
            manifest = self._manifest(build.sha)
            build = check_build(_merge_known(build, self._read_manifest(manifest)))
            manifest.parent.mkdir(parents=True, exist_ok=True)
            replace_file(manifest, msgspec.json.encode(build))
        return build

    def rename(self, build: Build, name: str) -> Build:
        """Call a build that is kept by another name."""
        return self._rewrite(replace(build, name=name))

    def renew(self, build: Build) -> Build:
        """Have a build that is kept be the newest one."""
        return self._rewrite(replace(build, added_at=time.time()))

    def list_builds(self) -> list[Build]:
        """All that are kept, the newest last."""
        builds = (self._read_manifest(path) for path in self._folder.glob("builds/*.json"))
        return sorted((build for build in builds if build), key=lambda build: build.added_at)

    def find(self, word: str, program: str = "") -> Build:
        """The one build of that name, or whose hash begins so, or that was made of that commit."""
        kept = {b.sha: b for b in self.list_builds() if program in ("", b.program)}

        def find_made(word: str) -> list[str]:
            return [sha for sha, build in kept.items() if _is_made_of(build, word)]

        names = {sha: build.name for sha, build in kept.items()}
        return kept[pick_sha(word, names, "build", find_made)]

    @property
    def folder(self) -> Path:
        """Where the builds are kept."""
        return self._folder

    def path_of(self, sha: str) -> Path:
        """Where a file of this hash is, or would be, kept."""
        return self._folder / "files" / sha

    def place_of(self, build: Build, file: BuildFile) -> Path:
        """Where a file of a build lies: in its user's folder, if the build stays there."""
        return Path(build.folder, file.path) if build.folder else self.path_of(file.sha)

    def has(self, sha: str) -> bool:
        """Whether the build of this hash is kept."""
        return self._manifest(sha).is_file()

    def is_in_place(self, sha: str) -> bool:
        """Whether the build of this hash stays in its user's folder."""
        known = self._read_manifest(self._manifest(sha))
        return bool(known and known.folder)

    def note(self, build: Build) -> None:
        """Note a build all of whose files came; a known one stays as it is."""
        manifest = self._manifest(build.sha)
        if not self._read_manifest(manifest):
            manifest.parent.mkdir(parents=True, exist_ok=True)
            build = check_build(replace(build, added_at=time.time()))
            replace_file(manifest, msgspec.json.encode(build))

    def lay_out(self, build: Build) -> Path:
        """A folder with the files of a build; DamagedBuild where one is not what it was."""
        folder = self._folder / "folders" / build.sha
        with self._report_trouble():
            kept = {file.path: self.check_file(build, file) for file in check_build(build).files}
            if _has_files(folder, kept):
                return folder
            folder.parent.mkdir(parents=True, exist_ok=True)
            made = Path(mkdtemp(prefix=".new-", dir=folder.parent))
            try:
                made.chmod(0o755)
                for path, place in kept.items():
                    (made / path).parent.mkdir(parents=True, exist_ok=True)
                    (made / path).symlink_to(place) if build.folder else os.link(place, made / path)
                shutil.rmtree(folder, ignore_errors=True)
                made.rename(folder)
            except OSError:
                if not _has_files(folder, kept):  # else another process was faster
                    raise
            finally:
                shutil.rmtree(made, ignore_errors=True)
        return folder

    def remove(self, builds: Collection[Build]) -> int:
        """Forget builds, and the files that no build has; returns the bytes that became free."""
        with self._report_trouble():
            for build in builds:
                self._manifest(build.sha).unlink(missing_ok=True)
                shutil.rmtree(self._folder / "folders" / build.sha, ignore_errors=True)
            return sum(_remove_file(path) for path in self._unneeded_files(builds))

    def measure(self, builds: Collection[Build]) -> int:
        """The bytes that removing builds would free: files that others have too stay."""
        with self._report_trouble():
            return sum(path.stat().st_size for path in self._unneeded_files(builds))

    def _unneeded_files(self, removed: Collection[Build]) -> list[Path]:
        """The kept files that no build has but those that are removed."""
        dropped = {build.sha for build in removed}
        others = [b for b in self.list_builds() if b.sha not in dropped and not b.folder]
        needed = {file.sha for build in others for file in build.files}
        theirs = {file.sha for build in removed for file in build.files}
        return [
            path
            for path in self._folder.glob("files/*")
            if path.name not in needed and (path.name in theirs or _is_forgotten(path))
        ]

    def _keep_file(self, path: str, file: BinaryIO, most: int) -> BuildFile:
        folder = self._folder / "files"
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = mkstemp(prefix=".new-", dir=folder)
        try:
            with os.fdopen(handle, "wb") as kept:
                build_file = _hash_file(path, file, most, kept.write)
            os.chmod(name, _RUNNABLE)
            os.replace(name, folder / build_file.sha)
        finally:
            Path(name).unlink(missing_ok=True)
        return build_file

    def check_file(self, build: Build, file: BuildFile) -> Path:
        """Where a file of a build lies, if it is what it was."""
        place = self.place_of(build, file)
        try:
            with place.open("rb") as content:
                sha = hashlib.file_digest(content, "sha256").hexdigest()
        except FileNotFoundError:
            gone = f"gone from {build.folder}" if build.folder else "not kept any more"
            raise DamagedBuild(f"{file.path} of the build is {gone}: add it again") from None
        except OSError as error:
            raise DamagedBuild(f"{file.path} of the build cannot be read: {error}") from error
        if sha != file.sha:
            raise DamagedBuild(f"{file.path} of the build was changed, in {place}: add it again")
        return place.resolve()

    def _rewrite(self, build: Build) -> Build:
        with self._report_trouble():
            replace_file(self._manifest(build.sha), msgspec.json.encode(build))
        return build

    def _manifest(self, sha: str) -> Path:
        return self._folder / "builds" / f"{sha}.json"

    def _read_manifest(self, path: Path) -> Build | None:
        """A build; None where its file is not there, or is none."""
        try:
            build = check_build(decoding.decode(path.read_bytes(), Build))
        except (OSError, msgspec.MsgspecError, NoBuild):
            return None
        return build if f"{build.sha}.json" == path.name else None

    @contextmanager
    def _report_trouble(self) -> Iterator[None]:
        """Say which folder cannot be used, in one line."""
        try:
            yield
        except OSError as error:
            if error.errno is None:  # of what is read, not of the folder
                raise
            raise VkbenchError(f"builds cannot be kept in {self._folder}: {error}") from error


def list_linked(folder: Path) -> list[Path]:
    """The files elsewhere that a build's folder links to, since its user keeps them there."""
    return [path.resolve() for path in sorted(folder.rglob("*")) if path.is_symlink()]


def _merge_known(build: Build, known: Build | None) -> Build:
    """A build that is added, with what is known of it since it was added before."""
    name = build.name or (known.name if known else "")
    name = name or next((commit.name for commit in build.commits), "")
    if known is None:
        return replace(build, name=name)
    return replace(
        build,
        name=name,
        added_at=known.added_at,
        commits=tuple(dict.fromkeys((*known.commits, *build.commits))),
        folder=build.folder if known.folder else "",
    )


def _is_made_of(build: Build, word: str) -> bool:
    """Whether a build was made of a commit of this name, or whose hash begins so."""
    return any(word == commit.name or commit.sha.startswith(word) for commit in build.commits)


def _hash_file(
    path: str, file: BinaryIO, most: int, write: Callable[[bytes], object] = len
) -> BuildFile:
    """A file of a build, whose pieces go to `write`; NoBuild past so many bytes."""
    digest, nbytes = hashlib.sha256(), 0
    while piece := file.read(_PIECE_BYTES):
        nbytes += len(piece)
        if nbytes > most:
            raise NoBuild(f"its files have over {MOST_BYTES >> 30} GiB")
        digest.update(piece)
        write(piece)
    return BuildFile(path=path, sha=digest.hexdigest(), nbytes=nbytes)


def _has_files(folder: Path, kept: Mapping[str, Path]) -> bool:
    """Whether a folder has each of these files, and not a copy that was changed since."""
    try:
        return all(os.path.samefile(folder / path, place) for path, place in kept.items())
    except OSError:
        return False


def _is_forgotten(path: Path) -> bool:
    return time.time() - path.stat().st_mtime > _FORGOTTEN_SECONDS


def _remove_file(path: Path) -> int:
    nbytes = path.stat().st_size
    path.unlink()
    return nbytes
