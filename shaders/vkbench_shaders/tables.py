"""Lookup tables of the formats whose weights are codes, as a Slang module made from gguf's.

gguf is imported when the module is made, once for each gguf: what is made is kept in the cache.
"""

from __future__ import annotations

import hashlib
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vkbench.errors import VkbenchError
from vkbench.settings import settings

FILE = "tables.slang"
_GRIDS = {  # gguf's class of each; iq1_m has iq1_s's
    "IQ2_XXS_GRID": "IQ2_XXS",
    "IQ2_XS_GRID": "IQ2_XS",
    "IQ2_S_GRID": "IQ2_S",
    "IQ3_XXS_GRID": "IQ3_XXS",
    "IQ3_S_GRID": "IQ3_S",
    "IQ1_GRID": "IQ1_S",
}
_ROW = 32  # entries of a grid side by side
_HEAD = """\
// Lookup tables, generated from gguf's. Grids are rows of 32 entries of 16 bits, two a word: eight
// codes of 2 bits or four of 4, each a value's number in the ascending list of the grid's values.
// IQ4_NL_VALUES are signed bytes. What comes first is in the lower bits.
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
    from gguf import quants

    values = np.array(quants.IQ4_NL.kvalues, np.int8).view("<u4")
    grids = (_grid(name, getattr(quants, kind)) for name, kind in _GRIDS.items())
    return "\n".join((_HEAD, *grids, _constant("IQ4_NL_VALUES[4]", _braced(values))))


def _grid(name: str, kind: type) -> str:
    rows = _entries(kind).view("<u4").reshape(-1, _ROW // 2)
    body = ",\n    ".join(_braced(row) for row in rows)
    return _constant(f"{name}[{len(rows)}][{_ROW // 2}]", f"{{\n    {body} }}")


def _entries(kind: type) -> NDArray[np.uint16]:
    """The grid of one of gguf's formats: 16 bits an entry, the codes of its 8 or 4 values."""
    kind.init_grid()  # type: ignore[attr-defined]
    grid: NDArray[np.float32] = kind.grid[0, 0]  # type: ignore[attr-defined]
    codes: NDArray[np.intp] = np.searchsorted(kind.grid_map, grid)  # type: ignore[attr-defined]
    bits = 16 // codes.shape[1]
    entries = (codes << (bits * np.arange(codes.shape[1]))).sum(axis=1)
    return np.asarray(entries.astype("<u2"))


def _constant(declared: str, value: str) -> str:
    return f"public static const uint {declared} = {value};\n"


def _braced(words: NDArray[np.uint32]) -> str:
    return "{ " + ", ".join(f"0x{word:08x}" for word in words) + " }"
