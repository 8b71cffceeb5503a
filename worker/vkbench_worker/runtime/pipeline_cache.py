"""The driver's compiled pipelines, kept on disk between processes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vkbench_worker.runtime import vk

if TYPE_CHECKING:
    from vkbench_worker.runtime.device import Device

_MAGIC: Final = b"vkbench pipelines 1\n"
_DIGEST: Final = 32


class PipelineCache:
    """A VkPipelineCache that begins with what an earlier process stored."""

    def __init__(self, device: Device, folder: Path) -> None:
        self._device = device
        core = device.physical.core
        self.path = folder / f"{bytes(core.pipelineCacheUUID).hex()}-{core.driverVersion:08x}.bin"
        self.handle = self._made_from(load(self.path))
        self.unsaved = 0  # pipelines made since the last save

    def save(self) -> None:
        """Write what is new, together with what other processes wrote meanwhile."""
        if not self.unsaved:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self.path.with_suffix(".lock")):
            self._merge(load(self.path))
            store(self.path, self._data())
        self.unsaved = 0

    def close(self) -> None:
        self._device.destroy("PipelineCache", self.handle)

    def _made_from(self, data: bytes) -> Any:
        memory = vk.ffi.from_buffer(data)
        info = vk.struct("VkPipelineCacheCreateInfo", initialDataSize=len(data))
        info.pInitialData = vk.ffi.cast("void *", memory)
        return self._device.create("PipelineCache", info)

    def _merge(self, data: bytes) -> None:
        if data:
            other = self._made_from(data)
            source = vk.ffi.new("VkPipelineCache[]", [other])
            vk.lib.vkMergePipelineCaches(self._device.handle, self.handle, 1, source)
            self._device.destroy("PipelineCache", other)

    def _data(self) -> bytes:
        size = vk.ffi.new("size_t *")
        call = vk.lib.vkGetPipelineCacheData
        vk.check(
            call(self._device.handle, self.handle, size, vk.ffi.NULL), "vkGetPipelineCacheData"
        )
        data = vk.ffi.new("uint8_t[]", max(1, size[0]))
        vk.check(call(self._device.handle, self.handle, size, data), "vkGetPipelineCacheData")
        return bytes(vk.ffi.buffer(data, size[0]))


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


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
