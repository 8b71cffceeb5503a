"""Compiled kernels are valid for every Vulkan version."""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from vkbench_shaders.bundle import Bundle
from vkbench_shaders.compile import spirv
from vkbench_shaders.compile.validator import Validator, find

MATRICES = "CooperativeMatrixKHR"

Need = Callable[[str, str], NoReturn]


@pytest.fixture
def validator(need: Need, session_cache: Path) -> Validator:
    """The newest spirv-val that is here."""
    newest_first = (f"{sys.prefix}/new-lavapipe/bin", os.environ["PATH"])
    found = find(session_cache, os.pathsep.join(newest_first))
    if not found:
        need("validation", "spirv-val is not installed (apt install spirv-tools)")
    return found


@pytest.mark.slow
@pytest.mark.timeout(400)  # a process for each of 2,000 modules
def test_every_blob_is_valid(bundle: Bundle, validator: Validator) -> None:
    for key, entry in bundle.entries.items():
        if MATRICES not in entry.capabilities:
            assert not validator.complaint(bundle.code(key), "vulkan1.2"), key


@pytest.mark.slow
def test_a_blob_of_each_source_is_valid_in_newer_vulkan(
    bundle: Bundle, validator: Validator
) -> None:
    """Vulkan 1.3 takes what 1.2 takes: this tries whether the validator agrees."""
    entries = bundle.entries.values()
    keys = {entry.module: entry.key for entry in entries if MATRICES not in entry.capabilities}
    for key in keys.values():
        assert not validator.complaint(bundle.code(key), "vulkan1.3"), key


def test_every_blob_of_matrices_is_valid(bundle: Bundle, validator: Validator, need: Need) -> None:
    keys = [key for key, entry in bundle.entries.items() if MATRICES in entry.capabilities]
    assert keys
    found = {key: validator.complaint(bundle.code(key), "vulkan1.3") for key in keys}
    if all("Invalid capability operand" in said for said in found.values()):
        need("new-lavapipe", "this system's spirv-val is older than cooperative matrices")
    assert not any(found.values()), found


def test_the_validator_knows_a_broken_module(bundle: Bundle, validator: Validator) -> None:
    code = bundle.code("copy/copy")
    assert not validator.complaint(code, "vulkan1.2")
    for _ in range(2):  # what it complains of is not kept
        assert validator.complaint(code[:-4], "vulkan1.2")


def test_a_specialised_workgroup_size_is_a_decorated_constant(bundle: Bundle) -> None:
    words = struct.unpack("<" + "I" * (len(code := bundle.code("copy/copy")) // 4), code)
    local_size_id = (3 + 3 << 16 | 331, 38)
    assert not any(
        words[at] == local_size_id[0] and words[at + 2] == 38 for at in range(len(words) - 2)
    )
    decorated = [at for at in range(len(words) - 3) if words[at] == 4 << 16 | 71]
    assert any(words[at + 2 : at + 4] == (11, 25) for at in decorated)  # BuiltIn WorkgroupSize
    assert bundle.entry("copy/copy").local_size is not None


def test_making_portable_twice_changes_nothing(bundle: Bundle) -> None:
    for key in bundle.entries:
        assert spirv.portable(bundle.code(key)) == bundle.code(key)


@pytest.mark.parametrize(
    "code", [b"", b"not SPIR-V at all!!!", struct.pack("<7I", spirv.MAGIC, 0, 0, 1, 0, 9 << 16, 0)]
)
def test_what_is_no_module_is_refused(code: bytes) -> None:
    with pytest.raises(spirv.MalformedSpirv):
        spirv.read(code)
