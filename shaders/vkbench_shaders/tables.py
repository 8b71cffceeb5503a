"""Lookup tables of the formats whose weights are codes, as a Slang module made from gguf's.

gguf is imported when the module is made, once for each gguf: what is made is kept in the cache.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vkbench.errors import VkbenchError
from vkbench.settings import settings

FILE = "tables.slang"
_GRIDS = ("IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")  # entries of 8 or 4 unsigned bytes
_VALUES = ("IQ4_NL", "MXFP4")  # 16 signed bytes; NVFP4's are MXFP4's
_HEAD = """\
// Lookup tables, generated from gguf's: bytes in words, the first in the lowest byte.
// IQ1_GRID has eight values of -1..1 a word, each plus 1 in four bits: value i in the lower half of
// byte i, value 4 + i in its upper half.
module tables;
"""


class MissingTables(VkbenchError):
    """The kernels' lookup tables come from gguf, which is not installed: pip install gguf."""


def folder() -> Path:
    """The folder that holds tables.slang and nothing else, for the compiler's include path."""
    try:
        made_from = (metadata.version("gguf"), Path(__file__).read_text())
    except metadata.PackageNotFoundError as error:
        raise MissingTables() from error
    sha = hashlib.sha256(repr(made_from).encode()).hexdigest()
    path = settings().cache / "tables" / sha[:16] / FILE
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent.parent) as scratch:
            whole = Path(scratch, FILE)
            whole.write_text(text())
            whole.replace(path)
    return path.parent


def text() -> str:
    """The source of the module."""
    return "\n".join((_HEAD, *(_array(name, words) for name, words in _tables())))


def _tables() -> Iterator[tuple[str, NDArray[np.uint32]]]:
    from gguf import quants

    for name in _GRIDS:
        yield f"{name}_GRID", _packed(_grid(getattr(quants, name)))
    codes = _grid(quants.IQ1_S) + 1
    yield "IQ1_GRID", _packed(codes[:, :4] + 16 * codes[:, 4:])
    for name in _VALUES:
        yield f"{name}_VALUES", _packed(getattr(quants, name).kvalues)


def _grid(kind: type) -> NDArray[np.float32]:
    """The grid of one of gguf's formats: a row an entry."""
    kind.init_grid()  # type: ignore[attr-defined]
    grid: NDArray[np.float32] = kind.grid[0, 0]  # type: ignore[attr-defined]
    return grid


def _packed(numbers: Iterable[float] | NDArray[np.float32]) -> NDArray[np.uint32]:
    return np.asarray(numbers).astype(np.int16).astype(np.uint8).view("<u4").ravel()


def _array(name: str, words: NDArray[np.uint32]) -> str:
    rows = [", ".join(f"0x{word:08x}" for word in row) for row in words.reshape(-1, 4)]
    body = ",\n    ".join(rows)
    return f"public static const uint {name}[{len(words)}] = {{\n    {body} }};\n"
