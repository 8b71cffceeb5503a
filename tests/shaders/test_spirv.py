"""Compiled kernels are valid for every Vulkan version, and say truly what they need."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from vkbench_shaders import spirv
from vkbench_shaders.bundle import Bundle, entry_key
from vkbench_shaders.catalogue import KERNELS

BASE = {"Shader"}  # every device
FEATURES = {  # what asks for each device feature
    "subgroup_arithmetic": {"GroupNonUniform", "GroupNonUniformArithmetic"},
    "subgroup_shuffle": {"GroupNonUniform", "GroupNonUniformShuffle"},
    "int_dot": {"DotProduct", "DotProductInput4x8BitPacked"},
    "fp16": {"Float16"},
    "int8": {"Int8"},
    "bf16": {"BFloat16TypeKHR", "BFloat16CooperativeMatrixKHR"},
    "storage16": {"UniformAndStorageBuffer16BitAccess"},
    "storage8": {"UniformAndStorageBuffer8BitAccess"},
    "coopmat": {"CooperativeMatrixKHR", "VulkanMemoryModel"},
    **{f"matrix_{kind}": set() for kind in ("f16_f16", "f16_f32", "bf16_f32", "i8_i32")},
    **{f"matrix_{kind}_8x8x8": set() for kind in ("f16_f16", "f16_f32", "i8_i32")},
}
UNSAID = {"bf16_f32": {"UniformAndStorageBuffer16BitAccess"}}  # which Slang leaves out for bf16
MATRICES = "CooperativeMatrixKHR"

Need = Callable[[str, str], NoReturn]


@pytest.fixture
def validator(need: Need) -> str:
    """The newest spirv-val that is here."""
    newest_first = (f"{sys.prefix}/new-lavapipe/bin", os.environ["PATH"])
    found = shutil.which("spirv-val", path=os.pathsep.join(newest_first))
    return found or need("validation", "spirv-val is not installed (apt install spirv-tools)")


@pytest.mark.slow
@pytest.mark.timeout(180)  # a process for each of 1,155 modules
@pytest.mark.parametrize("target", ["vulkan1.2", "vulkan1.3"])
def test_every_blob_is_valid(bundle: Bundle, target: str, tmp_path: Path, validator: str) -> None:
    for key, entry in bundle.entries.items():
        if MATRICES not in entry.capabilities:
            assert not complaint(validator, bundle.code(key), target, tmp_path), key


def test_every_blob_of_matrices_is_valid(
    bundle: Bundle, tmp_path: Path, validator: str, need: Need
) -> None:
    keys = [key for key, entry in bundle.entries.items() if MATRICES in entry.capabilities]
    assert keys
    found = {key: complaint(validator, bundle.code(key), "vulkan1.3", tmp_path) for key in keys}
    if all("Invalid capability operand" in said for said in found.values()):
        need("new-lavapipe", "this system's spirv-val is older than cooperative matrices")
    assert not any(found.values()), found


def complaint(validator: str, code: bytes, target: str, folder: Path) -> str:
    """What spirv-val has against a module."""
    path = folder / "kernel.spv"
    path.write_bytes(code)
    command = [validator, "--target-env", target, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def test_a_variant_s_code_needs_what_it_requires_and_no_more(bundle: Bundle) -> None:
    for kernel in KERNELS:
        for types in kernel.type_choices():
            for variant in kernel.variants:
                if not variant.accepts(types):
                    continue
                entries = [bundle.entry(entry_key(stage, types)) for stage in variant.stages]
                wanted = set().union(*(FEATURES[name] for name in variant.requires))
                needed = set().union(*(entry.capabilities for entry in entries))
                wanted -= UNSAID.get(variant.name, set())
                assert needed == BASE | wanted, (entries[0].key, variant.name)


def test_a_specialised_workgroup_size_is_a_decorated_constant(bundle: Bundle) -> None:
    words = struct.unpack("<" + "I" * (len(code := bundle.code("copy/copy")) // 4), code)
    local_size_id = (3 + 3 << 16 | 331, 38)
    assert not any(
        words[at] == local_size_id[0] and words[at + 2] == 38 for at in range(len(words) - 2)
    )
    assert spirv.needs(code).local_size is not None


def test_making_portable_twice_changes_nothing(bundle: Bundle) -> None:
    for key in bundle.entries:
        assert spirv.portable(bundle.code(key)) == bundle.code(key)


@pytest.mark.parametrize(
    "code", [b"", b"not SPIR-V at all!!!", struct.pack("<7I", spirv.MAGIC, 0, 0, 1, 0, 9 << 16, 0)]
)
def test_what_is_no_module_is_refused(code: bytes) -> None:
    with pytest.raises(spirv.MalformedSpirv):
        spirv.needs(code)
