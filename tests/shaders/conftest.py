"""The catalogue's kernels, compiled from the sources as they are."""

from __future__ import annotations

import pytest

from vkbench_shaders.bundle import PROBES, Bundle
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.compile.build import compiled, units_of
from vkbench_shaders.compile.tree import TREE


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    """All kernels; compiled once a session, from the developer's cache where it has them."""
    return compiled(TREE, sorted({*units_of(KERNELS), *PROBES}), "packaged")
