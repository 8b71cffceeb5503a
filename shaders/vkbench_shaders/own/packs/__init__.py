"""Packs: declarations of other projects' shaders, to run against a user's checkout of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

PACKS: Final[Mapping[str, Path]] = {"ggml-vulkan": Path(__file__).parent / "ggml_vulkan"}
