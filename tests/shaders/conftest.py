"""The catalogue's kernels, compiled from the sources as they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared_folder import shared_folder
from vkbench_shaders.bundle import MANIFEST, PROBES, Bundle, load, manifest_text
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.compile.build import compile_units, units_of
from vkbench_shaders.compile.tree import TREE


@pytest.fixture(scope="session")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """All kernels; compiled once a session, from the developer's cache where it has them."""
    with shared_folder(tmp_path_factory, "compiled") as folder:
        path = folder / "packaged"
        if not (path / MANIFEST).exists():
            compile_units(TREE, sorted({*units_of(KERNELS), *PROBES}), path.name).save(path)
    kept = load(path)
    return replace(kept, blobs=dict(kept.blobs))


@pytest.fixture(scope="session")
def small(bundle: Bundle) -> Bundle:
    """A bundle of three of its kernels, which is quickly written, packed and read."""
    manifest = bundle.manifest
    entries = [bundle.entry(key) for key in ("copy/copy", "copy2d/copy2d", "fill/fill")]
    return Bundle(
        text=manifest_text(manifest.slang, manifest.tree, entries, manifest.interfaces),
        blobs={entry.sha256: bundle.blobs[entry.sha256] for entry in entries},
    )
