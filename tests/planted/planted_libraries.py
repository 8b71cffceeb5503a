"""Files that look like a driver's to whoever loads none: a library's header, and a manifest."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

from databases import ENVIRONMENT
from vkbench.device import ICD, ICD_LIBRARY, Environment

ENTRY = b"\0vk_icdGetInstanceProcAddr\0"


def write_library(path: Path, more: bytes = ENTRY, *, bits: int = 64, machine: int = 0) -> Path:
    """A file with the header of this machine's own programs, or another one's."""
    header = bytearray(Path("/proc/self/exe").read_bytes()[:64])
    header[4] = {32: 1, 64: 2}[bits]
    header[18] ^= machine
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(header) + more)
    return path


def write_manifest(path: Path, library: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    icd = {"library_path": library, "api_version": "1.3.0"}
    path.write_text(json.dumps({"file_format_version": "1.0.0", "ICD": icd}))
    return path


def update(folder: Path, version: str, name: str = "x") -> Environment:
    """The environment of a host whose driver was updated to this version."""
    library = write_library(folder / "lib" / f"lib{name}.so", version.encode() + ENTRY)
    manifest = write_manifest(folder / "etc" / f"{name}_icd.json", str(library))
    digits = hashlib.sha256(library.read_bytes()).hexdigest()[:12]
    extra = {ICD: str(manifest), ICD_LIBRARY: digits}
    return replace(ENVIRONMENT, driver_version=version, extra=extra)
