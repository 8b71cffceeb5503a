"""Build hook: compiles the catalogue's kernels to SPIR-V, so that no GPU host needs a compiler."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompileShaders(BuildHookInterface):  # type: ignore[type-arg]
    """Puts shaders/vkbench_shaders/spirv/ in place before a wheel, editable or not, is written."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile what is not compiled already; a source distribution carries sources alone.

        A wheel to install carries the blobs in one compressed file. A checkout that is installed
        compiles most kernels when they are first needed.
        """
        if self.target_name != "wheel":
            return
        root = Path(self.root)
        sys.path[:0] = [str(root), str(root / "shaders")]
        from vkbench_shaders.compile.build import PACKAGED, begin, build, progress_bar
        from vkbench_shaders.compile.tree import TREE

        if version == "editable":
            begin(TREE, PACKAGED, progress_bar())
            return
        bundle = build(TREE, PACKAGED, progress_bar(), is_public=True)
        from vkbench_shaders.bundle import CODE, packed_code

        self._code = TemporaryDirectory()
        packed = Path(self._code.name, CODE)
        packed.write_bytes(packed_code(bundle))
        build_data["force_include"][str(packed)] = f"vkbench_shaders/spirv/{CODE}"
