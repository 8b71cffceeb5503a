"""The catalogue's kernels, compiled from the sources as they are."""

from __future__ import annotations

import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.compile.build import build
from vkbench_shaders.compile.tree import TREE


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """All kernels; compiled once a session, from the developer's cache where it has them."""
    return build(TREE, tmp_path_factory.mktemp("bundle"))
