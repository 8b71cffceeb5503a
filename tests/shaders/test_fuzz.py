"""Archives, manifests, modules and GGUF files of strangers: read, or refused in a sentence."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import damaged, fuzz, understood_or
from planted_own import built_own, write_own
from planted_steps import write_steps
from vkbench.errors import UsageError, VkbenchError
from vkbench_shaders.archive import from_archive
from vkbench_shaders.bundle import MANIFEST, Bundle, BundleStore, CorruptBundle, manifest_text
from vkbench_shaders.compile.examination import UnfitSpirv, examine
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.own.building import build
from vkbench_shaders.own.declaration import read
from vkbench_shaders.own.formulas import value_of
from vkbench_shaders.own.posing import pose_case
from vkbench_shaders.own.records import UnfitDeclaration
from vkbench_worker.runtime.null import NullDevice

KEY = "copy/copy"


@pytest.fixture(scope="module")
def small(bundle: Bundle) -> Bundle:
    """A bundle of one kernel."""
    entry = bundle.entry(KEY)
    text = manifest_text("1", "0" * 64, [entry], bundle.manifest.interfaces)
    return Bundle(text=text, blobs={entry.sha256: bundle.blobs[entry.sha256]})


def test_archives(small: Bundle, tmp_path: Path) -> None:
    whole = small.archive()
    store = BundleStore(tmp_path / "bundles")

    @fuzz
    @given(damaged(whole))
    def check(data: bytes) -> None:
        with understood_or(CorruptBundle):
            store.put(from_archive(data))
        assert {path.name for path in tmp_path.iterdir()} <= {"bundles"}
        assert set(store.list()) <= {small.sha}

    check()


def test_members(small: Bundle) -> None:
    known = [MANIFEST, *(f"{sha}.spv" for sha in small.blobs), "../x", "/x"]
    names = st.sampled_from(known) | st.text("ab./\\é\n", min_size=1, max_size=8)
    contents = st.sampled_from([small.text.encode(), *small.blobs.values(), b""]) | st.binary()

    @fuzz
    @given(st.dictionaries(names, contents, max_size=4), st.sampled_from((0, 8, 12, 14)))
    def check(files: dict[str, bytes], method: int) -> None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", method) as archive:
            for name, content in files.items():
                archive.writestr(zipfile.ZipInfo(name), content, method)
        with understood_or(CorruptBundle):
            assert from_archive(buffer.getvalue()).sha == small.sha

    check()


def test_declarations(tmp_path: Path) -> None:
    path = write_own(tmp_path)
    whole = path.read_bytes()

    @fuzz
    @given(damaged(whole) | st.binary() | st.sampled_from((b"a = " + b"[" * 10**5,)))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(UsageError, UnfitDeclaration):  # a name in it may have lines
            read(path, "somebody")

    check()


def test_formulas() -> None:
    words = st.sampled_from(["m", "k", "*", "//", "%", "-", "(", ")", "2", "1e99", "max", ",", " "])

    @fuzz
    @given(st.lists(words, max_size=20).map("".join) | st.text(max_size=30))
    def check(formula: str) -> None:
        with suppress(UnfitDeclaration):
            assert abs(value_of(formula, {"m": 3, "k": 0})) <= 2**63

    check()


def test_manifests_of_own_kernels(tmp_path: Path) -> None:
    whole = built_own(tmp_path).bundle

    @fuzz
    @given(damaged(whole.text.encode()))
    def check(data: bytes) -> None:
        changed = Bundle(text=data.decode(errors="replace"), blobs=whole.blobs)
        with suppress(VkbenchError):
            changed.check()
            for own in changed.manifest.kernels:
                for case in own.cases:
                    problem = pose_case(changed, case.name)
                    problem.kernel.check.reference(problem, problem.kernel.inputs(problem), None)

    check()


def test_manifests_of_kernels_in_steps(glslang: None, tmp_path: Path) -> None:
    whole = build(write_steps(tmp_path), "somebody").bundle
    facts = NullDevice().facts

    @fuzz
    @given(damaged(whole.text.encode()))
    def check(data: bytes) -> None:
        changed = Bundle(text=data.decode(errors="replace"), blobs=whole.blobs)
        with suppress(VkbenchError):
            changed.check()
            for own in changed.manifest.kernels:
                for case in own.cases:
                    problem = pose_case(changed, case.name)
                    for variant in problem.kernel.variants:
                        launches = variant.launches(problem, facts)
                        assert len(launches) == len(variant.stages)
                        assert all(size > 0 for size in variant.own.scratch(problem, facts))
                        assert variant.own.counters(problem, facts) >= 0

    check()


def test_manifests(small: Bundle) -> None:
    @fuzz
    @given(damaged(small.text.encode()) | st.binary() | st.sampled_from((b"[" * 10**6,)))
    def check(data: bytes) -> None:
        changed = Bundle(text=data.decode(errors="replace"), blobs=small.blobs)
        with suppress(VkbenchError):  # a name in it may have lines
            changed.check()
            for key, entry in changed.entries.items():
                examine(changed.code(key), entry, changed.interface(key))

    check()


def test_modules(bundle: Bundle) -> None:
    code, entry = bundle.code(KEY), bundle.entry(KEY)

    @fuzz
    @given(damaged(code) | st.binary(max_size=64), st.booleans())
    def check(data: bytes, padded: bool) -> None:
        data = data + bytes(-len(data) % 4 if padded else 0)
        with understood_or(UnfitSpirv):
            examine(data, replace(entry, bytes=len(data)), bundle.interface(KEY))

    check()


def test_gguf_files(gguf_file: Callable[..., Path], tmp_path: Path) -> None:
    values = np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32)
    whole = gguf_file({"blk.0.weight": ("q4_0", values)}).read_bytes()
    path = tmp_path / "damaged.gguf"

    @fuzz
    @given(damaged(whole) | st.binary(max_size=64))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with suppress(VkbenchError):  # a tensor's name may have lines
            file = open_gguf(path)
            for name in file.tensors:
                file.read(name)

    check()
