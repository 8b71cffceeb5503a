"""The arrays of a case as files in a folder that vkbench and a program both see.

Numbers lie densely, little-endian, in the order of the array's shape; formats of blocks lie as in
GGUF. The program is not trusted with what it leaves there: a file is read if it is plain, and has
the size of the array.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from vkbench_shaders.kernel import Array, Problem
from vkbench_worker.judging.judge import Images
from vkbench_worker.judging.preparation import lay_out_array
from vkbench_worker.runtime.program import GUARD, POISON_A, Image


class BadOutput(Exception):
    """A file of the program is not the array that was asked for; the message says why."""


class Tensors:
    """The inputs and outputs of one problem."""

    def __init__(self, problem: Problem, folder: Path) -> None:
        self._problem, self._folder = problem, folder
        bindings = problem.kernel.bindings
        self._inputs = [b.name for b in bindings if b.is_input and problem.reads(b.name)]
        self._outputs = [b.name for b in bindings if b.is_output]

    def write_inputs(self, storages: Mapping[str, Array]) -> None:
        """Write the inputs to their files."""
        for name in self._inputs:
            array = self._problem.layout(name).view(storages[name])
            self._file(name, "in").write_bytes(np.ascontiguousarray(array).tobytes())

    def describe(self) -> dict[str, Any]:
        """What a program is told of the problem and of the files."""
        kernel = self._problem.kernel
        tuned = kernel.tuning.params if kernel.tuning else ()
        params = {name: self._problem.params[name] for name in kernel.params if name not in tuned}
        return {
            "kernel": kernel.name,
            "sizes": dict(self._problem.shape),
            "params": params,
            "inputs": [self._describe(name, "in") for name in self._inputs],
            "outputs": [self._describe(name, "out") for name in self._outputs],
        }

    def take_outputs(self) -> Images | None:
        """The outputs that the program wrote, whose files go; None if it wrote none at all.

        Guards and gaps are whole: no program writes there.
        """
        files = {name: self._file(name, "out") for name in self._outputs}
        if not any(file.is_symlink() or file.exists() for file in files.values()):
            return None
        return {name: self._image(name, file) for name, file in files.items()}

    def _image(self, name: str, file: Path) -> Image:
        fmt, layout = self._problem.format(name), self._problem.layout(name)
        data = _take_file(file, prod(layout.shape) * fmt.dtype.itemsize)
        array = np.frombuffer(data, fmt.dtype).reshape(layout.shape)
        return _image_of(lay_out_array(array, layout).view(np.uint8))

    def _describe(self, name: str, way: str) -> dict[str, Any]:
        fmt, shape = self._problem.format(name), self._problem.array_shape(name)
        return {
            "name": name,
            "format": fmt.name,
            "shape": [*shape[:-1], fmt.numbers(shape[-1])],
            "file": str(self._file(name, way)),
        }

    def _file(self, name: str, way: str) -> Path:
        return self._folder / f"{name}.{way}"


def clear(folder: Path) -> None:
    """Remove what a case left in a folder."""
    for place in folder.iterdir():
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)


_GUARD: Final = np.full(GUARD // 4, POISON_A, np.uint32).view(np.uint8)


def _image_of(data: np.ndarray) -> Image:
    return Image(_GUARD, data, _GUARD, poison=POISON_A)


def read_plainly(file: Path, most: int) -> bytes:
    """What a file of the program holds; BadOutput for links, pipes, and what is too long."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise BadOutput(f"{file.name} cannot be read: {error.strerror}") from error
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode):
        os.close(handle)
        raise BadOutput(f"{file.name} is no plain file")
    with open(handle, "rb") as opened:
        if about.st_size > most:
            raise BadOutput(f"{file.name} has {about.st_size} bytes, over {most}")
        return opened.read(most + 1)


def _take_file(file: Path, nbytes: int) -> bytes:
    data = read_plainly(file, nbytes)
    file.unlink()
    if len(data) != nbytes:
        raise BadOutput(f"{file.name} has {len(data)} bytes, and the array has {nbytes}")
    return data
