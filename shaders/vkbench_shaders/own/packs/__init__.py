"""Packs: declarations of other projects' shaders, to run against a user's checkout of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).parent

PACKS: Final[Mapping[str, Path]] = {
    "ggml-vulkan": _HERE / "ggml_vulkan",
    "kompute": _HERE / "kompute",
    "ncnn": _HERE / "ncnn",
    "uvkcompute": _HERE / "uvkcompute",
}
"""By project: `vkbench kernel new --pack NAME FOLDER` copies these."""
