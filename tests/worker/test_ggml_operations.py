"""The list of ggml's operations: a kernel that exists or a reason each, all that a build knows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from vkbench.programs import ggml_operations
from vkbench.programs.ggml_operations import (
    ALL,
    FUSIONS,
    GATED,
    MISSING,
    OPERATIONS,
    UNARY,
    Known,
)
from vkbench_shaders.catalogue import KERNELS
from vkbench_worker.peers.llama_cpp.operations.own import OPERATIONS as ONLY_IN_GGML

NAMES = {kernel.name for kernel in KERNELS}
# Prints what a build calls its operations, and the name behind the last one.
TELL = """
import ctypes, json, sys
folder, function, count = sys.argv[1:]
name = getattr(ctypes.CDLL(f"{folder}/libggml-base.so"), function)
name.restype, name.argtypes = ctypes.c_char_p, (ctypes.c_int,)
print(json.dumps([(name(number) or b"").decode("latin-1") for number in range(int(count) + 1)]))
"""
TELL_BUILD = """
import ctypes, json, sys
base = ctypes.CDLL(f"{sys.argv[1]}/libggml-base.so")
base.ggml_version.restype = base.ggml_commit.restype = ctypes.c_char_p
print(json.dumps([base.ggml_version().decode(), base.ggml_commit().decode()]))
"""


def ask_build(code: str, *words: str) -> list[str]:
    """What a process that loads a build prints."""
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("name", ALL)
def test_an_operation_has_kernels_that_exist_or_a_reason(name: str) -> None:
    known = ALL[name]
    if isinstance(known, str):
        assert known == MISSING or len(known.split()) > 3
    else:
        assert known
        assert set(known) <= NAMES


def test_no_name_is_listed_twice() -> None:
    assert len(ALL) == sum(map(len, (OPERATIONS, UNARY, GATED, FUSIONS)))
    assert date.fromisoformat(ggml_operations.DATE)


@pytest.mark.parametrize(
    ("function", "known"),
    [("ggml_op_name", OPERATIONS), ("ggml_unary_op_name", UNARY), ("ggml_glu_op_name", GATED)],
)
def test_the_list_is_what_a_build_knows(function: str, known: Known, ggml_folder: Path) -> None:
    *named, behind = ask_build(TELL, str(ggml_folder), function, str(len(known)))
    assert named == list(known)
    assert not behind.isupper(), f"the build has {behind}, too"


def test_the_list_has_the_fusions_that_a_build_logs(ggml_folder: Path) -> None:
    """Its texts of capitals and underscores that name more than one operation, and no setting."""
    built = (ggml_folder / "libggml-vulkan.so").read_bytes()
    logged = {text.decode() for text in re.findall(rb"\0([A-Z0-9_]{5,})(?=\0)", built)}
    begun = ("MUL_MAT_", "RMS_NORM_", "ROPE_", "SSM_CONV_", "TOPK_MOE_")
    fused = {name for name in logged if name.startswith(begun) or name.endswith("_MUL")}
    assert fused == FUSIONS.keys() - {"MULTI_ADD", "SNAKE"}
    assert b"MULTI_ADD" in built
    assert "SNAKE" in logged


def test_the_list_says_which_build_it_is_from(ggml_folder: Path) -> None:
    version_and_commit = ask_build(TELL_BUILD, str(ggml_folder))
    assert version_and_commit == [ggml_operations.VERSION, ggml_operations.COMMIT]


def test_what_is_missing_is_judged_by_ggml_alone() -> None:
    missing = {name.lower() for name, known in ALL.items() if known == MISSING}
    assert missing <= ONLY_IN_GGML.keys()
