"""Slang's compiler as a library: it loads a module once, and specialises and links each unit.

Slang's objects are COM objects: pointers to tables of functions. The numbers below are indices into
these tables, in the order of slang.h of one version; another version may have another order. A
session is not thread-safe, and a bug of the compiler ends the process: workers.py starts a process
for each session.

    python -m vkbench_shaders.compile.session LIBRARY FLAG...
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from ctypes import POINTER, c_char_p, c_int, c_long, c_size_t, c_uint32, c_void_p
from pathlib import Path
from typing import Any, BinaryIO

from vkbench_shaders.compile import spirv

VERSION = "2026.14.1"  # the version that the indices below belong to
LIBRARY = f"libslang-compiler.so.0.{VERSION}"
_RELEASE = 2  # of every object
_BLOB_ADDRESS, _BLOB_BYTES = 3, 4
_CREATE_SESSION, _PARSE_ARGUMENTS = 3, 27  # IGlobalSession
_COMPOSE, _LOAD_SOURCE = 6, 20  # ISession
_GENERICS, _ENTRY_CODE, _SPECIALIZE, _LINK = 5, 6, 9, 10  # IComponentType
_FIND_ENTRY = 17  # IModule
_API_VERSION = 0
_EXPRESSION = 2  # kind of a generic argument that is given as text


class RefusedSource(Exception):
    """Slang refuses the source; the text is its message, with file and line."""


class _Description(ctypes.Structure):
    """SessionDesc: Slang fills it in from flags."""

    _fields_ = (("size", c_size_t), ("rest", c_size_t * 11))


class _Argument(ctypes.Structure):
    """Slang's struct SpecializationArg, of type or constant."""

    _fields_ = (("kind", c_int), ("text", c_char_p))


class _Object:
    """A COM object, or a null pointer."""

    def __init__(self) -> None:
        self.pointer = c_void_p()

    def call(self, place: int, result: type[Any], *arguments: Any) -> Any:
        """Calls the function at an index of its table."""
        table = ctypes.cast(self.pointer, POINTER(POINTER(c_void_p)))[0]
        kinds = [type(argument) for argument in arguments]
        return ctypes.CFUNCTYPE(result, c_void_p, *kinds)(table[place])(self.pointer, *arguments)

    def make_object(self, place: int, *arguments: Any) -> _Object:
        """The object that one of its functions makes; RefusedSource if it fails."""
        made, complaint = _Object(), _Object()
        status = self.call(place, c_int, *arguments, made.result, complaint.result)
        _check(status, complaint.text())
        return made

    @property
    def result(self) -> Any:
        """A pointer to its pointer, for functions that set it."""
        return ctypes.pointer(self.pointer)

    def text(self) -> str:
        """The text of a blob; empty for a null pointer."""
        return self.content().decode(errors="replace") if self.pointer else ""

    def content(self) -> bytes:
        """The bytes of a blob, which this releases."""
        address = self.call(_BLOB_ADDRESS, c_void_p)
        content = ctypes.string_at(address, self.call(_BLOB_BYTES, c_size_t))
        self.release()
        return content

    def release(self) -> None:
        """Release this reference to Slang's object."""
        self.call(_RELEASE, c_uint32)


class Session:
    """A compiler with its flags; it keeps the modules that it has loaded until the process ends."""

    def __init__(self, library: Path, flags: Sequence[str]) -> None:
        compiler, slang, self._session = ctypes.CDLL(str(library)), _Object(), _Object()
        _check(compiler.slang_createGlobalSession(c_long(_API_VERSION), slang.result))
        words = (c_char_p * len(flags))(*(flag.encode() for flag in flags))
        description = _Description(size=ctypes.sizeof(_Description))
        options = _Object()  # the description points into it
        place = ctypes.pointer(description)
        _check(slang.call(_PARSE_ARGUMENTS, c_int, c_int(len(words)), words, place, options.result))
        _check(slang.call(_CREATE_SESSION, c_int, place, self._session.result))
        self._modules: dict[Path, _Object] = {}

    def compile(self, source: Path, entry: str, arguments: Sequence[str]) -> bytes:
        """SPIR-V of an entry point of a source file with its generic arguments."""
        module = self._module(source)
        generic = _entry(module, entry)
        special = _specialise_generic(generic, entry, arguments)
        pair = (c_void_p * 2)(module.pointer, special.pointer)
        composed = self._session.make_object(_COMPOSE, pair, c_long(len(pair)))
        linked = composed.make_object(_LINK)
        code = linked.make_object(_ENTRY_CODE, c_long(0), c_long(0)).content()
        for used in {generic, special, composed, linked}:
            used.release()
        return code

    def _module(self, source: Path) -> _Object:
        """Loads a source file once; the session owns the module.

        It is not loaded by its name, for which Slang would search the current folder first.
        """
        if source not in self._modules:
            module, complaint = _Object(), _Object()
            words = (source.stem.encode(), str(source).encode(), source.read_bytes())
            texts = (c_char_p(word) for word in words)
            made = self._session.call(_LOAD_SOURCE, c_void_p, *texts, complaint.result)
            _check(0 if made else -1, complaint.text())
            module.pointer.value = made
            self._modules[source] = module
        return self._modules[source]


def _entry(module: _Object, name: str) -> _Object:
    entry_point = _Object()
    if module.call(_FIND_ENTRY, c_int, c_char_p(name.encode()), entry_point.result) < 0:
        raise RefusedSource(f"it has no entry point {name}")
    return entry_point


def _specialise_generic(generic: _Object, name: str, arguments: Sequence[str]) -> _Object:
    expected = generic.call(_GENERICS, c_long)
    if expected != len(arguments):
        raise RefusedSource(f"{name} has {expected} generic parameters, not {len(arguments)}")
    if not arguments:
        return generic
    values = (_Argument(_EXPRESSION, text.encode()) for text in arguments)
    array = (_Argument * len(arguments))(*values)
    return generic.make_object(_SPECIALIZE, array, c_long(len(array)))


def _check(status: int, complaint: str = "") -> None:
    if status < 0:
        raise RefusedSource(complaint.strip() or f"it ends with status {status & 0xFFFFFFFF:#x}")


def _serve(requests: BinaryIO, replies: BinaryIO, session: Session) -> None:
    """Compiles a unit for each line of JSON; replies with the size and the code, or the error."""
    for line in requests:
        reply: dict[str, object] = {}
        code = b""
        try:
            source, entry, arguments = json.loads(line)
            code = spirv.portable(session.compile(Path(source), entry, arguments))
            reply["bytes"] = len(code)
        except (RefusedSource, OSError) as error:
            reply["refused"] = str(error)
        replies.write(json.dumps(reply).encode() + b"\n" + code)
        replies.flush()


def main(library: str, *flags: str) -> None:
    """Serves stdin; what the compiler itself prints to stdout goes to stderr."""
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)
        _serve(sys.stdin.buffer, replies, Session(Path(library), flags))


if __name__ == "__main__":
    main(*sys.argv[1:])
