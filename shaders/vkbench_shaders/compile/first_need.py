"""Kernels that are compiled when they are first needed, under the name that all have together.

A bundle's name is the hash of its manifest, which has the hash of every unit's code. So that a
checkout knows the name before it has compiled anything, shaders/expected.json.xz keeps the manifest
that its sources compile to. Whatever is compiled later has the hash that the manifest says, or is
refused.
"""

from __future__ import annotations

import hashlib
import lzma
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from pathlib import Path
from threading import Lock

from vkbench.process.plain_file import replace_file
from vkbench_shaders.blobs import SUFFIX, Files
from vkbench_shaders.compile import compiler, spirv, workers
from vkbench_shaders.compile.cached import Progress, compile_cached, report_nothing
from vkbench_shaders.compile.compiler import CompileError, Unit
from vkbench_shaders.compile.tree import TREE
from vkbench_shaders.manifest import Entry

EXPECTED = TREE.parents[1] / "expected.json.xz"


def read_expected(path: Path = EXPECTED) -> str:
    """The manifest that the packaged sources compile to; "" where none is kept or it is damaged."""
    try:
        return lzma.decompress(path.read_bytes()).decode()
    except (OSError, lzma.LZMAError, UnicodeDecodeError):
        return ""


def write_expected(text: str, path: Path = EXPECTED) -> None:
    """Keep the manifest that the packaged sources compile to."""
    path.write_bytes(lzma.compress(text.encode(), preset=9))


class FirstNeed(Files):
    """Blobs that are files of a folder; one that it lacks is compiled when it is asked for.

    Whoever goes through all of them has all of them compiled at once.
    """

    def __init__(self, folder: Path, entries: Iterable[Entry], tree: Path = TREE) -> None:
        super().__init__(folder)
        self._tree = tree
        self._units = {
            entry.sha256: Unit(module=entry.module, entry=entry.entry, arguments=entry.arguments)
            for entry in entries
        }
        self._paths = {sha: folder / f"{sha}{SUFFIX}" for sha in self._units}
        self._lock = Lock()

    def __getitem__(self, sha: str) -> bytes:
        with suppress(KeyError):
            return super().__getitem__(sha)
        unit = self._units[sha]
        with self._lock:
            code = spirv.strip_names(self._compile(unit))
        self._keep(sha, unit, code)
        return code

    def __iter__(self) -> Iterator[str]:
        self.fill()
        return super().__iter__()

    @property
    def is_whole(self) -> bool:
        """Whether all blobs are compiled."""
        return not self.lacking()

    def lacking(self, shas: Iterable[str] | None = None) -> list[str]:
        """Hashes of blobs that are not compiled yet, of some or of all."""
        needed = self._units if shas is None else shas
        return [sha for sha in needed if not self._paths[sha].exists()]

    def fill(self, shas: Iterable[str] | None = None, progress: Progress = report_nothing) -> None:
        """Compile those of some blobs, or of all, that are not compiled yet, on all cores."""
        missing = {self._units[sha]: sha for sha in self.lacking(shas)}
        if not missing:
            return
        codes = compile_cached(sorted(missing), self._tree, compiler.find(), progress)
        for unit, code in codes.items():
            self._keep(missing[unit], unit, spirv.strip_names(code))

    def _keep(self, sha: str, unit: Unit, code: bytes) -> None:
        """Write a blob; CompileError where it is not what the manifest says."""
        if hashlib.sha256(code).hexdigest() != sha:
            raise CompileError(
                f"{unit.key} compiles to other code than the packaged manifest says: run "
                "python -m vkbench_shaders.compile.build, which names the kernels anew"
            )
        with suppress(OSError):  # a contained process only reads the folder
            replace_file(self._paths[sha], code, 0o666)

    @cached_property
    def _compile(self) -> Callable[[Unit], bytes]:
        """A compiler that lasts as long as this: it has a module's sources read once."""
        slang = compiler.find()
        if not slang.library:
            return partial(slang.compile, tree=self._tree)
        stack = ExitStack()
        process = stack.enter_context(workers.worker(slang.library, self._tree.resolve()))
        weakref.finalize(self, stack.close)
        return process.compile
