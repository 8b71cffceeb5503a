"""The driver's compiled pipelines, kept on disk between processes."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from vkbench.process import system
from vkbench_worker.protocol import NOTICE
from vkbench_worker.runtime import vk
from vkbench_worker.runtime.vulkan.logical import Logical

_MAGIC: Final = b"vkbench pipelines 1\n"
_DIGEST: Final = 32
# A file that is written has its name long before this; one that is older is of a killed process.
ABANDONED_SECONDS: Final = 3600.0


class PipelineCache:
    """A VkPipelineCache that begins with what an earlier process stored."""

    def __init__(self, logical: Logical, folder: Path) -> None:
        self._logical = logical
        core = logical.physical.core
        self.path = folder / f"{bytes(core.pipelineCacheUUID).hex()}-{core.driverVersion:08x}.bin"
        self._known = _look(self.path)  # the file when it held nothing that we have not
        self.handle = self._made_from(load(self.path))
        self.unsaved = False  # whether pipelines were made since the last save
        self._fails = False

    def save(self) -> None:
        """Write what is new, together with what other processes wrote meanwhile.

        A disk that takes no files costs a later process time and no job its result, so that is
        said once.
        """
        if not self.unsaved:
            return
        self.unsaved = False  # first: threads may be making more
        try:
            self._save()
            self._fails = False
        except OSError as error:
            self.unsaved = True
            if not self._fails:
                print(f"{NOTICE}the pipeline cache is not saved: {error}", file=sys.stderr)
            self._fails = True

    def _save(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(self.path.parent)
        with _lock_file(self.path.with_suffix(".lock")):
            if _look(self.path) == self._known:  # no other process has written: the usual case
                store(self.path, self._data(self.handle))
                self._known = _look(self.path)
            else:
                store(self.path, self._merge_caches(load(self.path)))

    def close(self) -> None:
        self._logical.destroy("PipelineCache", self.handle)

    def _made_from(self, data: bytes) -> Any:
        memory = vk.ffi.from_buffer(data)
        info = vk.struct("VkPipelineCacheCreateInfo", initialDataSize=len(data))
        info.pInitialData = vk.ffi.cast("void *", memory)
        return self._logical.create("PipelineCache", info)

    def _merge_caches(self, data: bytes) -> bytes:
        """Ours and another's, put together in a third: threads may be adding to ours."""
        both = self._made_from(data)
        source = vk.ffi.new("VkPipelineCache[]", [self.handle])
        vk.lib.vkMergePipelineCaches(self._logical.handle, both, 1, source)
        merged = self._data(both)
        self._logical.destroy("PipelineCache", both)
        return merged

    def _data(self, cache: Any) -> bytes:
        size = vk.ffi.new("size_t *")
        call = vk.lib.vkGetPipelineCacheData
        vk.check(call(self._logical.handle, cache, size, vk.ffi.NULL), "vkGetPipelineCacheData")
        data = vk.ffi.new("uint8_t[]", max(1, size[0]))
        vk.check(call(self._logical.handle, cache, size, data), "vkGetPipelineCacheData")
        return bytes(vk.ffi.buffer(data, size[0]))


class ScratchCache:
    """A VkPipelineCache that begins empty and is never saved."""

    def __init__(self, logical: Logical) -> None:
        self._logical = logical
        self.handle = logical.create("PipelineCache", vk.struct("VkPipelineCacheCreateInfo"))
        self.unsaved = False

    def count_bytes(self) -> int:
        """The size of what it holds."""
        size = vk.ffi.new("size_t *")
        result = vk.lib.vkGetPipelineCacheData(self._logical.handle, self.handle, size, vk.ffi.NULL)
        vk.check(result, "vkGetPipelineCacheData")
        return int(size[0])

    def close(self) -> None:
        """Destroy the cache with all that it holds."""
        self._logical.destroy("PipelineCache", self.handle)


def load(path: Path) -> bytes:
    """The data of a cache file; b"" for none or a broken one, which the next save replaces."""
    try:
        content = path.read_bytes()
    except OSError:
        return b""
    head = len(_MAGIC) + _DIGEST
    data = content[head:]
    whole = content[:head] == _MAGIC + hashlib.sha256(data).digest()
    return data if whole else b""


def store(path: Path, data: bytes) -> None:
    """Write a cache file at once or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(data).digest() + data)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def remove_abandoned(folder: Path) -> None:
    """Remove the files that processes were killed at before these had their names."""
    for path in folder.glob("*.bin?*"):
        with suppress(OSError):  # another process removes it too
            if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                path.unlink()


def _look(path: Path) -> tuple[int, ...]:
    """What changes whenever a file is replaced; () for none."""
    try:
        seen = path.stat()
    except OSError:
        return ()
    return seen.st_ino, seen.st_mtime_ns, seen.st_size


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        system.lock(file)
        yield
