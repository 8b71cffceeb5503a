"""A git repository of a driver that wraps the real CPU driver: some commits have a fault."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from planted_drivers import LAVAPIPE, shim_of
from planted_git import commit, git
from planted_sources import start_repository

BROKEN: Final = "broken"  # a revision that does not compile
# Installs the driver as Mesa's build does: the manifest names where its library would lie.
DECLARED: Final = """\
name = "wrapped"

[build]
command = '''
mkdir -p install/lib install/share/icd.d
gcc -shared -fPIC -O1 -nostdlib -o install/lib/libvulkan_wrapped.so shim.c
sed s:LIBRARY:/usr/lib/libvulkan_wrapped.so: icd.json > install/share/icd.d/wrapped_icd.x86_64.json
'''
folder = "install"
icd = "wrapped_icd.*.json"
"""


def plant_driver_tree(folder: Path, faults: Sequence[str]) -> Path:
    """A repository with a commit for each fault, tagged r0, r1 ..., and a file that declares it."""
    repository = start_repository(folder / "driver-tree")
    known = json.loads(LAVAPIPE.read_text())
    (repository / "icd.json").write_text(
        json.dumps({**known, "ICD": {**known["ICD"], "library_path": "LIBRARY"}})
    )
    for place, fault in enumerate(faults):
        text = "no C" if fault == BROKEN else shim_of(fault)
        (repository / "shim.c").write_text(f"/* change {place} */ {text}")
        commit(repository, f"change {place}")
        git(repository, "tag", f"r{place}")
    (folder / "wrapped.toml").write_text(DECLARED)
    return repository
