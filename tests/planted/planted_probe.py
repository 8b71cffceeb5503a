"""A shader of a test's own, which tries functions of the shader library on a buffer of words."""

from __future__ import annotations

from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from shutil import copytree

import numpy as np
from numpy.typing import NDArray

from vkbench_shaders.catalogue import problem
from vkbench_shaders.compile import compiler
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.compile.tree import TREE
from vkbench_worker.runtime.device import Barrier, Dispatch
from vkbench_worker.runtime.program import Program
from vkbench_worker.runtime.vulkan.device import VulkanDevice

Words = NDArray[np.uint32]

# Writes to the word of binding 1 that binding 0 names, wherever that is.
STRAY = """
[[vk::binding(0)]] StructuredBuffer<uint> x;
[[vk::binding(1)]] RWStructuredBuffer<uint> y;

[shader("compute")]
[numthreads(1, 1, 1)]
void probe()
{
    y[x[0]] = 7;
}
"""


def compiled(source: str, folder: Path) -> bytes:
    """Entry point `probe` of a source that imports modules of the shader library."""
    copytree(TREE, folder, dirs_exist_ok=True)
    Path(folder, "probe.slang").write_text(source)
    return compiler.find().compile(Unit(module="probe", entry="probe"), folder)


def probed(
    device: VulkanDevice, code: bytes, given: Words, results: int, groups: tuple[int, int, int]
) -> Words:
    """So many words as a probe leaves in binding 1, of those given in binding 0."""
    program = Program(
        code=code,
        sha=sha256(code).hexdigest(),
        bindings=(0, 1),
        push_bytes=0,
        constants=(),
        problem=problem("copy/f32/n1"),
    )
    with ExitStack() as stack:
        x, y = device.buffer(given.nbytes), device.buffer(results * given.itemsize)
        stack.callback(x.close)
        stack.callback(y.close)
        x.upload(given)
        recording = device.record(
            [Dispatch(device.pipeline(program), [x, y], groups, b""), Barrier()]
        )
        stack.callback(recording.close)
        recording.run()
        (image,) = device.images([y])
    return image.data.view(np.uint32)
