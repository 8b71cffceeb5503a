"""ggml's C API as far as a peer needs it, by ctypes, from the shared libraries of any build."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from ctypes import (
    POINTER,
    Structure,
    c_bool,
    c_char,
    c_char_p,
    c_float,
    c_int,
    c_int64,
    c_size_t,
)
from glob import glob
from pathlib import Path
from typing import Any, Final

from vkbench_worker.peers.library import CannotDo
from vkbench_worker.peers.llama_cpp.printed import setting

PEER: Final = "ggml"
BASE, VULKAN, CPU = "ggml-base", "ggml-vulkan", "ggml-cpu"  # libraries of a build

Pointer = ctypes.c_void_p
Address = int  # of what the library has made

_DEVICES: Final = "GGML_VK_VISIBLE_DEVICES"
_NO_BACKTRACE: Final = "GGML_NO_BACKTRACE"
_OURS: Final = (_DEVICES, _NO_BACKTRACE)  # variables that are set here

# Functions of the CPU backend: one makes it, one has it compute by its plainest code, and one says
# whether its instructions are this processor's.
_START: Final = "ggml_backend_cpu_init"
_USE_PLAINEST: Final = "ggml_backend_cpu_set_use_ref"
_SCORE: Final = "ggml_backend_score"

# Where the libraries lie, from the folder of llama.cpp's programs, and from their own.
_PLACES: Final = (".", "../lib", "../lib/*-linux-gnu")
_BACKENDS: Final = (".", "ggml/backends*")
_SHOWN_DIGITS: Final = 12  # of a library's SHA-256
_MOST_DESCRIPTION: Final = 256

# Arguments behind the context of the functions that make a node: tensor, float, int, long, bool,
# several ints.
_KINDS: Final[Mapping[str, Any]] = {
    "t": Pointer,
    "f": c_float,
    "i": c_int,
    "l": c_int64,
    "b": c_bool,
    "s": POINTER(c_int),
}


class Init(Structure):
    """The struct `ggml_init_params` of ggml."""

    _fields_ = (("size", c_size_t), ("memory", Pointer), ("no_alloc", c_bool))


class Tensor(Structure):
    """ggml_tensor, as ggml.h has had it since 2024."""

    _fields_ = (
        ("type", c_int),
        ("buffer", Pointer),
        ("ne", c_int64 * 4),
        ("nb", c_size_t * 4),
        ("op", c_int),
        ("op_params", ctypes.c_int32 * 16),
        ("flags", ctypes.c_int32),
        ("src", Pointer * 10),
        ("view_src", Pointer),
        ("view_offs", c_size_t),
        ("data", Pointer),
        ("name", c_char * 64),
        ("extra", Pointer),
        ("padding", c_char * 8),
    )


_OBJECT_BYTES: Final = 32  # that precede each tensor in a context

_OF_BASE: Final[Mapping[str, tuple[Any, tuple[Any, ...]]]] = {
    "ggml_init": (Pointer, (Init,)),
    "ggml_free": (None, (Pointer,)),
    "ggml_tensor_overhead": (c_size_t, ()),
    "ggml_graph_overhead_custom": (c_size_t, (c_size_t, c_bool)),
    "ggml_new_tensor": (Pointer, (Pointer, c_int, c_int, POINTER(c_int64))),
    "ggml_nbytes": (c_size_t, (Pointer,)),
    "ggml_new_graph_custom": (Pointer, (Pointer, c_size_t, c_bool)),
    "ggml_build_forward_expand": (None, (Pointer, Pointer)),
    "ggml_graph_add_node": (None, (Pointer, Pointer)),
    "ggml_backend_alloc_buffer": (Pointer, (Pointer, c_size_t)),
    "ggml_backend_buffer_free": (None, (Pointer,)),
    "ggml_backend_buffer_get_base": (Pointer, (Pointer,)),
    "ggml_backend_tensor_alloc": (None, (Pointer, Pointer, Pointer)),
    "ggml_backend_view_init": (c_int, (Pointer,)),
    "ggml_backend_tensor_set": (None, (Pointer, Pointer, c_size_t, c_size_t)),
    "ggml_backend_tensor_get": (None, (Pointer, Pointer, c_size_t, c_size_t)),
    "ggml_backend_tensor_copy": (None, (Pointer, Pointer)),
    "ggml_backend_supports_op": (c_bool, (Pointer, Pointer)),
    "ggml_backend_graph_compute": (c_int, (Pointer, Pointer)),
}
_OF_VULKAN: Final[Mapping[str, tuple[Any, tuple[Any, ...]]]] = {
    "ggml_backend_vk_init": (Pointer, (c_size_t,)),
    "ggml_backend_vk_get_device_count": (c_int, ()),
    "ggml_backend_vk_get_device_description": (None, (c_int, c_char_p, c_size_t)),
}


class Api:
    """The functions of one build; a process loads one."""

    def __init__(self, folder: str, index: int) -> None:
        """Load the build of a folder, or that of the PATH; it sees one of Vulkan's devices."""
        base, vulkan = find_libraries(folder)
        # Read once, when the library is loaded; naming a device lets it be a processor.
        os.environ[_DEVICES] = str(index)
        os.environ[_NO_BACKTRACE] = "1"  # of a build that aborts: its last words are told
        try:
            self._base = ctypes.CDLL(str(base), mode=ctypes.RTLD_GLOBAL)
            self._vulkan = ctypes.CDLL(str(vulkan))
        except OSError as error:
            raise CannotDo(f"cannot load {PEER}'s libraries: {error}") from error
        self._functions = {
            name: self._declare(library, name, *types)
            for library, table in ((self._base, _OF_BASE), (self._vulkan, _OF_VULKAN))
            for name, types in table.items()
        }
        if self("ggml_tensor_overhead") != _OBJECT_BYTES + ctypes.sizeof(Tensor):
            raise CannotDo(f"{vulkan.parent} is a build of {PEER} with tensors of another form")
        self.build = _identify_build(self._base, vulkan)
        self._folder = base.parent

    def __call__(self, function: str, *arguments: Any) -> Any:
        """Call one of the functions that every build has."""
        return self._functions[function](*arguments)

    def make_node(
        self, function: str, kinds: str, context: Address, arguments: Iterable[Any]
    ) -> Any:
        """The node that a function makes in a context; CannotDo if this build has none such."""
        types = (Pointer, *(_KINDS[kind] for kind in kinds))
        return self._find(function, Pointer, types)(context, *arguments)

    def set_of_node(self, function: str, kind: str, node: Address, value: int) -> None:
        """Have a function set something of a node; CannotDo if this build has none such."""
        self._find(function, None, (Pointer, _KINDS[kind]))(node, value)

    def has(self, function: str) -> bool:
        """Whether the build has a function, whatever its arguments."""
        return hasattr(self._base, function)

    def _find(self, function: str, result: Any, types: tuple[Any, ...]) -> Any:
        if function not in self._functions:
            self._functions[function] = self._declare(self._base, function, result, types)
        return self._functions[function]

    def describe_device(self) -> str:
        """What the build calls the device that it sees; "" if it sees none."""
        if not self("ggml_backend_vk_get_device_count"):
            return ""
        words = ctypes.create_string_buffer(_MOST_DESCRIPTION)
        self("ggml_backend_vk_get_device_description", 0, words, _MOST_DESCRIPTION)
        return words.value.decode(errors="replace")

    def make_context(self, tensors: int, more: int = 0) -> Address:
        """Room for the records of so many tensors, and for more bytes; their data lie elsewhere."""
        size = (tensors + 1) * self("ggml_tensor_overhead") + more
        return int(self("ggml_init", Init(size, None, True)))

    def start_processor(self) -> tuple[Address, str]:
        """The CPU backend of the build, by its plainest code, and what its library is called."""
        for path in sorted(self._folder.glob(f"*{CPU}*"), key=_rank_processor):
            try:
                library = ctypes.CDLL(str(path))
            except OSError:
                continue  # it needs what the host lacks
            if not hasattr(library, _START) or not _runs_here(library):
                continue
            backend = self._declare(library, _START, Pointer, ())()
            if hasattr(library, _USE_PLAINEST):
                self._declare(library, _USE_PLAINEST, None, (Pointer, c_bool))(backend, True)
            return int(backend), path.name
        raise CannotDo(f"this build has no {CPU} for this host, which judges operations of its own")

    @staticmethod
    def _declare(library: ctypes.CDLL, name: str, result: Any, types: tuple[Any, ...]) -> Any:
        try:
            function = getattr(library, name)
        except AttributeError:
            raise CannotDo(f"this build of {PEER} has no {name}") from None
        function.restype, function.argtypes = result, types
        return function


def find_libraries(folder: str) -> tuple[Path, Path]:
    """The two libraries of a build: in a folder or near it, or near the programs of the PATH."""
    for root in [folder] if folder else os.get_exec_path():
        for place in _PLACES:
            for near in sorted(glob(os.path.join(root, place))):
                base = _find_library(BASE, near)
                vulkan = [
                    _find_library(VULKAN, folder_near)
                    for b in _BACKENDS
                    for folder_near in glob(f"{near}/{b}")
                ]
                if base and any(vulkan):
                    return base, next(filter(None, vulkan))
    where = folder or "the folders of PATH or near them"
    raise CannotDo(f"{PEER}'s libraries are not in {where}: VKBENCH_GGML names their folder")


def _runs_here(library: ctypes.CDLL) -> bool:
    """Whether a library for processors is for this one; the only one of a build does not say."""
    return not hasattr(library, _SCORE) or library[_SCORE]() > 0


def _rank_processor(path: Path) -> tuple[bool, str]:
    """Libraries for any processor of a kind first, then those for some, by their names."""
    return not re.search(r"-(x64|cpu)\.", path.name), path.name


def _find_library(name: str, folder: str) -> Path | None:
    """The newest library of that name in a folder, with versions in its name or not."""
    pattern = re.compile(rf"(lib)?{name}(\.so(\.[0-9.]+)?|(\.[0-9.]+)?\.dylib|\.dll)")
    files = [file for file in Path(folder).glob(f"*{name}*") if pattern.fullmatch(file.name)]
    return max(files, default=None)


def _identify_build(base: ctypes.CDLL, vulkan: Path) -> Mapping[str, str]:
    """The build's version, commit and hash, and the variables that it reads."""
    build = {}
    for name in ("version", "commit"):
        function = getattr(base, f"ggml_{name}", None)
        if function is not None:
            function.restype = c_char_p
            build[name] = setting(function().decode(errors="replace"))
    with vulkan.open("rb") as file:
        build["vulkan_sha256"] = hashlib.file_digest(file, "sha256").hexdigest()[:_SHOWN_DIGITS]
    for name, value in sorted(os.environ.items()):
        if name.startswith("GGML_") and name not in _OURS:
            build[name] = setting(f"{name}_{value}")
    return build
