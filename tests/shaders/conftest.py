"""The catalogue's kernels, compiled from the sources as they are."""

from __future__ import annotations

import pytest

from vkbench_shaders.bundle import PROBES, Bundle, manifest_text
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.compile.build import compiled, units_of
from vkbench_shaders.compile.tree import TREE


@pytest.fixture(scope="session")
def bundle() -> Bundle:
    """All kernels; compiled once a session, from the developer's cache where it has them."""
    return compiled(TREE, sorted({*units_of(KERNELS), *PROBES}), "packaged")


@pytest.fixture(scope="session")
def small(bundle: Bundle) -> Bundle:
    """A bundle of three of its kernels, which is quickly written, packed and read."""
    manifest = bundle.manifest
    entries = [bundle.entry(key) for key in ("copy/copy", "copy2d/copy2d", "fill/fill")]
    return Bundle(
        text=manifest_text(manifest.slang, manifest.tree, entries, manifest.interfaces),
        blobs={entry.sha256: bundle.blobs[entry.sha256] for entry in entries},
    )
