"""The seeded models of this host: made in the cache when a job needs one; those used last stay.

Not by a runner, which writes nothing that another job reads. Two workers of a host make a file
once: one holds the model's lock and writes it, and the other waits. While jobs use a file their
worker shares that lock. Before another file is made, files that no worker locks are removed until
there is room, the longest unused first.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Final

from vkbench.errors import VkbenchError
from vkbench.job import Job, Outcome, Source
from vkbench.process import log, system
from vkbench.settings import Settings
from vkbench_shaders.models.making.seeded import Seeded, seeded_of
from vkbench_worker.errors import NoRoom
from vkbench_worker.progress import Tell
from vkbench_worker.protocol import Stage, lock_folder

LOOK_SECONDS: Final = 0.25  # between looks whether another process has made the file
_SPARE: Final = 20  # a model leaves one such part of its size free on the disk

_log = logging.getLogger(__name__)

Ask = Callable[[], bool]
Refuse = Callable[[Job, Outcome, str], None]  # with a reason


class _GaveUp(Exception):
    """Whoever wanted the file does not want it any more."""


class Stock:
    """Files of seeded models."""

    def __init__(self, settings: Settings, tell: Tell) -> None:
        self.folder = settings.cache / "models"
        self._locks = lock_folder(settings)
        self._most_bytes = settings.model_megabytes * 10**6
        self._tell = tell

    def path(self, model: Seeded) -> Path:
        """Where the file of a model is, or would be."""
        return self.folder / model.hash / f"{model.stem}.gguf"

    def parts(
        self,
        jobs: Iterable[Job],
        memory: int | None,
        is_over: Callable[[Job], bool],
        refuse: Refuse,
    ) -> Iterator[list[Job]]:
        """The jobs in order, cut where one needs another model's file, which is there by then.

        Jobs whose model does not fit into so many bytes of memory, or on the disk, are refused.
        While a file is made, `is_over` is asked whether its jobs are still wanted.
        """
        for model, group in groupby(jobs, key=_seeded_model_of):
            part = list(group)
            if model:
                yield from self._with_file(model, part, memory, is_over, refuse)
            else:
                yield part

    def _with_file(
        self,
        model: Seeded,
        jobs: list[Job],
        memory: int | None,
        is_over: Callable[[Job], bool],
        refuse: Refuse,
    ) -> Iterator[list[Job]]:
        """The jobs with the file, which stays until the caller asks for the next part."""
        with ExitStack() as kept:
            provided = self._provide_file(model, memory, lambda: all(map(is_over, jobs)))
            try:
                source = kept.enter_context(provided)
            except _GaveUp:
                yield []
            except VkbenchError as error:
                outcome = Outcome.SKIPPED if isinstance(error, NoRoom) else Outcome.ERROR
                for job in jobs:
                    refuse(job, outcome, str(error))
                yield []
            else:
                yield [replace(job, source=source) for job in jobs]

    @contextmanager
    def _provide_file(self, model: Seeded, memory: int | None, is_over: Ask) -> Iterator[Source]:
        size, path = model.plan.size, self.path(model)
        if memory is not None and size > memory:
            raise NoRoom(
                f"the weights of {model.stem} need {size:,} bytes of device memory; "
                f"the device has {memory:,}"
            )
        with ExitStack() as kept:
            try:
                self._keep(model, path, is_over, kept)
            except OSError as error:
                raise VkbenchError(f"cannot make {path}: {error.strerror}") from error
            yield Source(path=str(path), tensor="")

    def _keep(self, model: Seeded, path: Path, is_over: Ask, kept: ExitStack) -> None:
        """Make the file if it is missing, and hold a lock so that it stays."""
        lock = self._lock(path)
        while True:
            if not path.exists():
                with _hold_lock(lock, is_over):
                    self._make(model, path, is_over)
            kept.enter_context(_hold_lock(lock, is_over, shared=True))
            if path.exists():
                break
            kept.close()  # another process removed it in between
        os.utime(lock)  # its date is that of the file's last use

    def _lock(self, path: Path) -> Path:
        return self._locks / f"{path.parent.name}.model"

    def _evict(self, most: int) -> None:
        """Remove files that no job uses, the longest unused first, until `most` bytes are left."""
        files = []
        for path in self.folder.glob("*/[!.]*.gguf"):
            with suppress(OSError):  # another process removed it
                known = self._lock(path) if self._lock(path).exists() else path
                files.append((known.stat().st_mtime, path, path.stat().st_size))
        total = sum(size for _, _, size in files)
        for _, path, size in sorted(files):
            if total > most and self._is_removed(path):
                total -= size
                log.event(_log, "model_removed", path=path, bytes=size)

    def _is_removed(self, path: Path) -> bool:
        """Whether a file is gone now; one that a job uses stays."""
        with self._lock(path).open("a") as lock:
            if not system.lock(lock, waits=False):
                return False
            path.unlink(missing_ok=True)
            return True

    def _make(self, model: Seeded, path: Path, is_over: Ask) -> None:
        from vkbench_shaders.models.making.making import make  # loads what few workers need

        if path.exists():  # another process had the lock
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        size = model.plan.size
        self._evict(self._most_bytes - size)
        needed, free = size + size // _SPARE, shutil.disk_usage(path.parent).free
        if needed > free:
            raise NoRoom(
                f"{model.stem} needs {needed:,} bytes of disk in {self.folder}; {free:,} are free"
            )
        began = time.monotonic()

        def tell_written(written: int) -> None:
            if is_over():
                raise _GaveUp
            self._tell(Stage(what=f"making {path.name}", done=written, total=size))

        unfinished = path.with_name(f".{path.name}")
        try:
            with unfinished.open("wb") as file:
                make(model.plan, file, tell_written)
                file.flush()
                os.fsync(file.fileno())
            unfinished.rename(path)
        finally:
            unfinished.unlink(missing_ok=True)
        seconds = round(time.monotonic() - began, 1)
        log.event(_log, "model_made", path=path, bytes=size, seconds=seconds)


def _seeded_model_of(job: Job) -> Seeded | None:
    """The seeded model of a job that names no file."""
    return None if job.source else seeded_of(job.case)


@contextmanager
def _hold_lock(lock: Path, is_over: Ask, *, shared: bool = False) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a") as file:
        while not system.lock(file, shared=shared, waits=False):
            if is_over():
                raise _GaveUp
            time.sleep(LOOK_SECONDS)
        yield
