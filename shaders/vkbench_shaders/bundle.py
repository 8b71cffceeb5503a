"""Bundles: compiled kernels as a manifest and blobs, both named by their SHA-256.

folder/manifest.json   canonical JSON; its SHA-256 names the bundle everywhere
folder/<sha256>.spv    one blob an entry (entries may share one), or a part of an array that a
                       user's kernel brings
folder/code.zip        in a wheel, in place of the blobs: all of them, a tenth as large
"""

from __future__ import annotations

import builtins
import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path

import msgspec

from vkbench import decoding
from vkbench.errors import UsageError, VkbenchError
from vkbench.process.plain_file import replace_file
from vkbench.settings import Settings
from vkbench.words import names
from vkbench_shaders.blobs import SUFFIX, Files, Packed, pack
from vkbench_shaders.compile import reflection
from vkbench_shaders.compile.cached import progress_bar
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.compile.first_need import FirstNeed
from vkbench_shaders.kernel import Stage, Variant
from vkbench_shaders.launch import Interface
from vkbench_shaders.manifest import Entry as Entry
from vkbench_shaders.manifest import Manifest as Manifest
from vkbench_shaders.manifest import interface_name as interface_name
from vkbench_shaders.manifest import manifest_text as manifest_text
from vkbench_shaders.own import records
from vkbench_shaders.own.records import OwnKernel

MANIFEST = "manifest.json"
CODE = "code.zip"
ORIGINS = "made-of.txt"  # in the folder of a kept bundle: the revisions that gave its code
MOST_ORIGINS = 8  # the newest
PREFIX_DIGITS = 4  # of a hash that are enough to name a bundle
MOST_BYTES = 512 << 20  # of all code of a bundle; the packaged one has 52 MB
MOST_CODE_BYTES = 8 << 20  # of one module; the packaged ones have 0.3 MB at most
PACKAGED = Path(__file__).parent / "spirv"
PACKING = Unit(module="packing", entry="packing")
FRAGMENTS = {  # by the side of a cooperative matrix
    side: Unit(module="fragments", entry="fragments", arguments=(str(side),)) for side in (16, 8)
}
GAUGE = Unit(module="gauge", entry="gauge")
PROBES = (PACKING, GAUGE, *FRAGMENTS.values())  # what a runtime tries out
_PACKING = (zipfile.ZIP_DEFLATED, 1)  # a tenth larger than by level 6, in a quarter of the time
_SYNCING_THREADS = 16
_DATE = (1980, 1, 1, 0, 0, 0)  # archives of one bundle are the same bytes


class CorruptBundle(VkbenchError):
    """A bundle's content is not what its hashes say."""


class AmbiguousBundle(UsageError):
    """Several bundles are meant."""

    def __init__(self, start: str) -> None:
        super().__init__(f"'{start}' begins several bundles: give more of it")


class UnknownBundle(UsageError):
    """No such bundle here."""


class MissingBundle(VkbenchError):
    """The packaged kernels are not built: run python -m vkbench_shaders.compile.build."""


@dataclass(frozen=True, kw_only=True)
class Bundle:
    """A set of compiled kernels."""

    text: str  # the manifest, canonical JSON
    blobs: Mapping[str, bytes]  # SHA-256 -> SPIR-V
    name: str = ""  # what people call it: packaged, or its folder
    is_packaged: bool = False  # came with this package, and its code is as trusted as that
    made_of: tuple[str, ...] = ()  # git revisions of its sources, as far as they are known here

    @cached_property
    def sha(self) -> str:
        """SHA-256 of the manifest: the bundle's identity."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest, read; CorruptBundle when it is none."""
        try:
            return decoding.decode(self.text, Manifest)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise CorruptBundle(
                f"bundle {self.name or self.sha[:12]}: the manifest is malformed: {error}"
            ) from error

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The manifest's entries by their keys."""
        return {entry.key: entry for entry in self.manifest.entries}

    def entry(self, key: str) -> Entry:
        """An entry by key; UnknownName with the nearest keys."""
        if entry := self.entries.get(key):
            return entry
        return self.entries[names.pick(key, self.entries, f"kernel of bundle {self.sha[:12]}")]

    def code(self, key: str) -> bytes:
        """SPIR-V of an entry, its hash checked."""
        return self._blob(self.entry(key))

    def interface(self, key: str) -> Interface:
        """What an entry takes from a launch: by the manifest, or by its SPIR-V before version 2."""
        entry = self.entry(key)
        if entry.interface:
            return self.manifest.interfaces[entry.interface]
        return _interface_in(self.code(key))

    @property
    def is_compiled(self) -> bool:
        """Whether all its code is here, and none is left to its first need."""
        return not isinstance(self.blobs, FirstNeed) or self.blobs.is_whole

    def check(self) -> Bundle:
        """Itself, when the manifest reads well and every blob is whole; CorruptBundle otherwise."""
        for entry in self.manifest.entries:
            self._blob(entry)
            if entry.interface and entry.interface not in self.manifest.interfaces:
                raise self._refusal(f"the interface of {entry.key} is missing")
        for kernel in self.manifest.kernels:
            self._check_kernel(kernel)
        return self

    def array(self, parts: Iterable[str]) -> bytes:
        """The bytes of an array that a user's kernel brings, its parts' hashes checked."""
        return b"".join(self._check_blob(sha, "an array") for sha in parts)

    def archive(self) -> bytes:
        """The whole bundle as one zip file, the same bytes every time."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo(MANIFEST, _DATE), self.text, *_PACKING)
            for sha in sorted(self.blobs):
                name = zipfile.ZipInfo(f"{sha}{SUFFIX}", _DATE)
                archive.writestr(name, self.blobs[sha], *_PACKING)
        return buffer.getvalue()

    def save(self, folder: Path, *, is_public: bool = False) -> None:
        """Writes the bundle into a folder; the manifest comes last, and blobs that it lacks go.

        Others than its user read it only if it is public: it tells of somebody's kernels.
        """
        folder.mkdir(0o777 if is_public else 0o700, parents=True, exist_ok=True)
        mode = 0o666 if is_public else 0o600
        for sha, blob in self.blobs.items():
            replace_file(folder / f"{sha}{SUFFIX}", blob, mode)
        replace_file(folder / MANIFEST, self.text.encode(), mode)
        shas = frozenset(self.manifest.blobs)
        for path in folder.glob(f"*{SUFFIX}"):
            if path.stem not in shas:
                path.unlink()

    def _blob(self, entry: Entry) -> bytes:
        return self._check_blob(entry.sha256, f"the code of {entry.key}")

    def _check_blob(self, sha: str, what: str) -> bytes:
        try:
            blob = self.blobs.get(sha)
        except OSError as error:
            raise self._refusal(f"{what} cannot be read: {error.strerror}") from error
        if blob is None or hashlib.sha256(blob).hexdigest() != sha:
            state = "missing" if blob is None else "not what its hash says"
            raise self._refusal(f"{what} is {state}")
        return blob

    def _check_kernel(self, kernel: OwnKernel) -> None:
        try:
            records.check(kernel)
        except VkbenchError as error:
            raise self._refusal(f"kernel {kernel.name[:80]}: {error}") from error
        for sha in kernel.stored:
            self._check_blob(sha, f"an array of {kernel.name}")
        coded = {(entry.module, entry.entry) for entry in self.manifest.entries}
        for variant in kernel.variants:
            for entry in records.entries_of(variant.name, variant.steps):
                if (kernel.name, entry) not in coded:
                    raise self._refusal(f"the code of {kernel.name}/{entry} is missing")

    def _refusal(self, why: str) -> CorruptBundle:
        return CorruptBundle(f"bundle {self.name or self.sha[:12]}: {why}")


def entry_key(stage: Stage | Variant, types: Mapping[str, str]) -> str:
    """The key of a stage's code for given binding formats; of a variant's own stage, for one."""
    return unit_of(stage, types).key


def unit_of(stage: Stage | Variant, types: Mapping[str, str]) -> Unit:
    """What a stage compiles for given binding formats; a variant's own stage, for one."""
    return Unit(module=stage.module, entry=stage.entry, arguments=stage.arguments(types))


@lru_cache(maxsize=256)
def _interface_in(code: bytes) -> Interface:
    return reflection.needs(code).interface


def load(path: Path, *, is_packaged: bool = False) -> Bundle:
    """The bundle in a folder; CorruptBundle if its manifest is malformed.

    A blob is read, and its hash checked, when its code is asked for; `check` looks at all blobs.
    """
    name = "packaged" if is_packaged else path.name
    try:
        text = (path / MANIFEST).read_bytes().decode()
        bundle = Bundle(text=text, blobs=Files(path), name=name, is_packaged=is_packaged)
        entries = bundle.manifest.entries
        if (code := path / CODE).exists():
            bundle = replace(bundle, blobs=Packed(code.read_bytes(), entries))
        elif is_packaged:
            bundle = replace(bundle, blobs=FirstNeed(path, entries))
    except (OSError, UnicodeDecodeError, zipfile.BadZipFile) as error:
        raise CorruptBundle(f"{path} holds no bundle: {error}") from error
    return bundle


def packed_code(bundle: Bundle) -> bytes:
    """What a wheel has in place of a bundle's blobs."""
    return pack(bundle.blobs, bundle.manifest.entries)


@cache
def packaged() -> Bundle:
    """The kernels that were compiled with this package; MissingBundle when they were not."""
    if not (PACKAGED / MANIFEST).exists():
        raise MissingBundle()
    return load(PACKAGED, is_packaged=True)


def packaged_sha() -> str:
    """The packaged bundle's hash, without a look at its blobs; "" where it was never built."""
    manifest = PACKAGED / MANIFEST
    try:
        status = manifest.stat()
        return _sha_of(manifest, (status.st_ino, status.st_size, status.st_mtime_ns))
    except FileNotFoundError:
        return ""


def compile_rest() -> None:
    """Compile what the packaged bundle has left to its first need; nothing where there is none."""
    if packaged_sha() and isinstance(blobs := packaged().blobs, FirstNeed):
        blobs.fill(progress=progress_bar())


@lru_cache(maxsize=4)
def _sha_of(path: Path, version: tuple[int, ...]) -> str:
    """The hash of a large file that is asked for several times a job; `version` tells its state."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


class BundleStore:
    """Bundles kept in a folder by hash, and the packaged one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, sha: str) -> Bundle:
        """A bundle by its hash or the beginning of it; "" is the packaged one."""
        if not sha:
            return packaged()
        begun = self.beginning(sha)
        if len(begun) > 1:
            raise AmbiguousBundle(sha)
        if not begun:
            raise UnknownBundle(f"unknown bundle '{sha}': none here begins so")
        if begun == [packaged_sha()] and packaged().sha == begun[0]:
            return packaged()
        bundle = load(self.folder / begun[0])
        if bundle.sha != begun[0]:
            raise CorruptBundle(f"bundle {begun[0][:12]}: its manifest was changed")
        return bundle

    def is_whole(self, sha: str) -> bool:
        """Whether a bundle is here, by its whole hash; one that is damaged is thrown away.

        The packaged one is not looked at: no other is to be had.
        """
        if sha in ("", packaged_sha()):
            return True
        try:
            self.get(sha).check()
        except UnknownBundle:
            return False
        except CorruptBundle:
            self._discard(sha)
            return False
        return True

    def beginning(self, start: str) -> list[str]:
        """Hashes of bundles that are here, the packaged one too, and that begin so."""
        if len(start) < PREFIX_DIGITS:
            raise UsageError(
                f"'{start}' is short for a bundle: give {PREFIX_DIGITS} digits or more"
            )
        known = dict.fromkeys([*self.list(), packaged_sha()])
        return [sha for sha in known if sha and sha.startswith(start.lower())]

    def put(self, bundle: Bundle) -> None:
        """Keeps a bundle; one that is there already stays."""
        target = self.folder / bundle.sha
        if (target / MANIFEST).exists():
            return
        self.folder.mkdir(0o700, parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=self.folder, prefix=".new-"))
        try:
            bundle.check().save(scratch)
            _sync(scratch)
            scratch.rename(target)
            _sync(self.folder)
        except OSError:
            if not (target / MANIFEST).exists():  # else another process was first
                raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def note_origin(self, sha: str, origin: str) -> None:
        """Note what a bundle was made of that is here; the same code may be of several revisions.

        The bundle does not say so itself: it is named by its code alone.
        """
        file, known = self.folder / sha / ORIGINS, self.list_origins(sha)
        if origin and origin not in known and file.parent.is_dir():
            text = "\n".join([*known, origin][-MOST_ORIGINS:])
            replace_file(file, text.encode(), 0o600)

    def list_origins(self, sha: str) -> builtins.list[str]:
        """What a bundle was made of on this machine, as far as that is known."""
        try:
            return (self.folder / sha / ORIGINS).read_text().splitlines()
        except (OSError, UnicodeDecodeError):
            return []

    def _discard(self, sha: str) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".old-") as scratch:
            (self.folder / sha).rename(Path(scratch, sha))  # at once: others see it whole or not

    def list(self) -> list[str]:
        """Hashes of the kept bundles."""
        if not self.folder.is_dir():
            return []
        return sorted(
            path.parent.name
            for path in self.folder.glob(f"*/{MANIFEST}")
            if path.parent.name[0] != "."
        )


def kept_bundles(settings: Settings) -> BundleStore:
    """The bundles that this machine keeps."""
    return BundleStore(settings.cache / "bundles")


def _sync(folder: Path) -> None:
    """Have the disk hold a folder and its files: a power cut then leaves no torn ones."""
    with ThreadPoolExecutor(_SYNCING_THREADS) as pool:  # file systems put those of many in one
        list(pool.map(_sync_one, (path for path in folder.iterdir() if path.is_file())))
    _sync_one(folder)


def _sync_one(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
