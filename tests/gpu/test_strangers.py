"""A stranger's code is examined before a driver sees it, and only then; what is wrong is said."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from vkbench.job import Job, Mode, Outcome
from vkbench.result import Result
from vkbench_shaders.bundle import Bundle, manifest_text, packaged
from vkbench_shaders.compile.spirv import read, write
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

KEY = "copy/copy"
JOB = Job(id=1, token=1, case="copy/f32/n31", mode=Mode.CORRECTNESS)


def stranger(code: bytes, **told: object) -> Bundle:
    """A bundle whose copy kernel is this code."""
    ours = packaged()
    sha = hashlib.sha256(code).hexdigest()
    entry = replace(ours.entry(KEY), **{"sha256": sha, "bytes": len(code), **told})  # type: ignore[arg-type]
    text = manifest_text("1", "0" * 64, [entry], ours.manifest.interfaces)
    return Bundle(text=text, blobs={sha: code})


def done(device: VulkanDevice, bundle: Bundle) -> Result:
    return execute(device, bundle, JOB)


def test_a_true_module_of_a_stranger_runs(lavapipe: VulkanDevice) -> None:
    assert done(lavapipe, stranger(packaged().code(KEY))).outcome is Outcome.PASSED


def test_a_false_one_is_an_error_with_the_reason(lavapipe: VulkanDevice) -> None:
    code = packaged().code(KEY)
    result = done(lavapipe, stranger(code, local_size=(1, 1, 1)))
    assert result.outcome is Outcome.ERROR  # not skipped: nobody should overlook it
    assert "the code of copy/copy is refused: its workgroup size" in result.reason
    assert "is refused" in done(lavapipe, stranger(code[:-4])).reason


def test_a_binding_that_the_launch_lacks_is_an_error(lavapipe: VulkanDevice) -> None:
    header, instructions, body = read(packaged().code(KEY))
    moved = [
        (op, (*ops[:2], 9) if op == 71 and ops[1:] == (33, 1) else ops) for op, ops in instructions
    ]
    result = done(lavapipe, stranger(write(header, moved) + body))
    assert result.outcome is Outcome.ERROR
    assert "it uses binding 9, and the launch has none of this number" in result.reason


def test_the_validator_is_asked_where_there_is_one(
    lavapipe: VulkanDevice, need: Callable[[str, str], NoReturn]
) -> None:
    if not shutil.which("spirv-val"):
        need("validation", "spirv-val is not installed (apt install spirv-tools)")
    code = packaged().code(KEY)
    header, instructions, body = read(code)
    words = bytearray(body)
    words[-8:-4] = (255 | 1 << 16).to_bytes(4, "little")  # OpUnreachable for OpReturn is fine
    assert (
        done(lavapipe, stranger(write(header, instructions) + bytes(words))).outcome
        is Outcome.PASSED
    )
    words[-8:-4] = (254 | 1 << 16).to_bytes(4, "little")  # OpReturnValue without its value
    result = done(lavapipe, stranger(write(header, instructions) + bytes(words)))
    assert result.outcome is Outcome.ERROR
    assert "is refused by spirv-val: " in result.reason
