"""A kernel of one's own: the packaged example in a folder, with changes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from vkbench_shaders.own.building import EXAMPLE, Built, build

NAME = "lab.rms_quant"
CASE = f"{NAME}/f32/m3_k96_b3"
TIMED = f"{NAME}/f32/m16_k1024_b32"
SHADOWED = "rms_norm/f32/b1_c1_h64_w1024"
_VARIANT = re.compile(r'\[\[variants\]\]\nname = "glsl".*?\n\n', re.DOTALL)


def write_own(
    folder: Path, changes: Mapping[str, str] | None = None, *, glsl: bool = False
) -> Path:
    """The declaration in a folder, with texts of it replaced; Slang alone unless GLSL is wanted."""
    _copied(folder)
    path = folder / "rms_quant.toml"
    if not glsl:
        path.write_text(_VARIANT.sub("", path.read_text()))
    return _changed(path, changes or {})


def slower(declaration: Path) -> None:
    """Have a kernel add its squares up a hundred times."""
    path = declaration.parent / "rms_quant.slang"
    text = path.read_text()
    once = "float sum = 0;\n"
    assert once in text
    again = f"{once}    for (uint turn = 0; turn < 100; turn++) {{ sum = 0;\n"
    text = text.replace(once, again).replace(
        "sum += x[row + i] * x[row + i];", "sum += x[row + i] * x[row + i]; }"
    )
    path.write_text(text)


def built_own(folder: Path, changes: Mapping[str, str] | None = None) -> Built:
    """The kernel of `write_own`, built."""
    return build(write_own(folder, changes), "somebody")


def write_shadow(folder: Path, changes: Mapping[str, str] | None = None) -> Path:
    """The packaged example that shadows the catalogue's rms_norm, with texts replaced."""
    _copied(folder)
    return _changed(folder / "one_pass.toml", changes or {})


def _copied(folder: Path) -> None:
    """The example's files, without those that make its folder a Python package."""
    package = shutil.ignore_patterns("__init__.py", "__pycache__")
    shutil.copytree(EXAMPLE, folder, dirs_exist_ok=True, ignore=package)


def _changed(path: Path, changes: Mapping[str, str]) -> Path:
    text = path.read_text()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)
    return path
