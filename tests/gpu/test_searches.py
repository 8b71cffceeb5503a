"""Searches on a GPU make the bytes of the CPU's quantiser, which lose no more than ggml's.

The numbers are neither too large for any format's scales nor blocks of denormals only.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from planted_add import compiled
from vkbench.job import Job, Mode, Outcome
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import kernel_named, problem
from vkbench_shaders.compile.tree import TREE
from vkbench_shaders.formats import PREPARED, format_named
from vkbench_shaders.kernel import Array
from vkbench_shaders.kernels.quant.quantize import SEARCHED
from vkbench_shaders.quantisers.quantiser import QUANTISERS, quantise_weights
from vkbench_shaders.quantisers.quants import dequantise
from vkbench_worker.runner.execute import compute, execute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

COLUMNS = 1024
ROWS = 32  # of each kind
MOST = 2000.0  # nvfp4 reaches 2688
RANDOM = np.random.Generator(np.random.Philox(key=8))


def ordinary(rows: int) -> Array:
    """Bell-shaped, as weights are."""
    return RANDOM.standard_normal((rows, COLUMNS)).astype(np.float32)


def of_many_sizes(rows: int) -> Array:
    """Bell-shaped, with another scale for each 16, from 1e-6 to 100."""
    scales = 10 ** RANDOM.uniform(-6, 2, (rows, COLUMNS // 16, 1))
    return (RANDOM.standard_normal((rows, COLUMNS // 16, 16)) * scales).reshape(rows, COLUMNS)


def blocks_of_sizes(rows: int) -> Array:
    """Bell-shaped, with another scale for each block, from 2^-60 to 500."""
    scales = 2.0 ** RANDOM.uniform(-60, 9, (rows, COLUMNS // 256, 1))
    return (RANDOM.standard_normal((rows, COLUMNS // 256, 256)) * scales).reshape(rows, COLUMNS)


def edges(rows: int) -> Array:
    """Zeros of both signs, ties, one number only, equal magnitudes, denormals among others."""
    blocks = np.zeros((rows * COLUMNS // 256, 256), np.float32)
    eight = [blocks[first::8] for first in range(8)]
    eight[0][:, ::2] = -0.0
    eight[1][...] = RANDOM.integers(-16, 17, eight[1].shape) / 2
    eight[2][...] = RANDOM.standard_normal((len(eight[2]), 1))
    eight[3][...] = RANDOM.choice([-1.5, 1.5], eight[3].shape)
    eight[4][:, 11] = -3
    eight[5][...] = RANDOM.uniform(5, 6, eight[5].shape)
    eight[6][...] = RANDOM.choice([1.0, -2.0, 2.0**-140, -(2.0**-127)], eight[6].shape)
    eight[7][...] = RANDOM.choice([0.0, 1e-4, 1.0, -1000.0], eight[7].shape)
    return blocks.reshape(rows, COLUMNS)


@pytest.fixture(scope="module")
def numbers() -> Array:
    kinds = (ordinary, of_many_sizes, blocks_of_sizes, edges)
    made = np.concatenate([kind(ROWS) for kind in kinds]).astype(np.float32)
    return np.ascontiguousarray(np.clip(made, -MOST, MOST))


def searched(device: VulkanDevice, bundle: Bundle, fmt: str, x: Array) -> Array:
    posed = problem(f"quantize/{fmt}/b1_m{len(x)}_k{COLUMNS}")
    outputs, _ = compute(device, bundle, posed, "auto", {"x": x[None]})
    return np.squeeze(outputs["y"], axis=0)


def check(device: VulkanDevice, bundle: Bundle, fmt: str, x: Array) -> None:
    found, expected = searched(device, bundle, fmt, x), quantise_weights(fmt, x)
    assert found.shape == expected.shape
    blocks = (found != expected).reshape(-1, format_named(fmt).bytes).any(axis=1)
    assert not blocks.any(), f"{blocks.sum()} of {len(blocks)}: {np.flatnonzero(blocks)[:9]}"


def test_every_search_has_a_quantiser() -> None:
    assert SEARCHED.keys() == set(PREPARED) & QUANTISERS.keys()


def quantised_by_ggml(folder: Path, fmt: str, x: Array) -> Array:
    """Blocks of ggml's own quantiser, of numbers that all matter alike."""
    library = ctypes.CDLL(str(folder / "libggml-base.so"))
    stored = np.empty((len(x), format_named(fmt).items(COLUMNS)), np.uint8)
    library.ggml_quantize_chunk(
        format_named(fmt).ggml,
        x.ctypes.data_as(ctypes.c_void_p),
        stored.ctypes.data_as(ctypes.c_void_p),
        *(ctypes.c_int64(number) for number in (0, len(x), COLUMNS)),
        None,
    )
    return stored


@pytest.mark.parametrize("fmt", SEARCHED)
def test_a_search_loses_at_most_a_hundredth_more_than_ggml_s(
    ggml_folder: Path, numbers: Array, fmt: str
) -> None:
    """The same bytes as the CPU's, by which it is judged here: each device makes them below."""
    for x in (numbers[:ROWS], numbers[ROWS : 2 * ROWS]):
        ours, theirs = quantise_weights(fmt, x), quantised_by_ggml(ggml_folder, fmt, x)
        lost = [np.square(dequantise(fmt, stored) - x).sum() for stored in (ours, theirs)]
        assert lost[0] < 1.01 * lost[1]


@pytest.mark.parametrize("fmt", SEARCHED)
def test_lavapipe_makes_the_bytes_of_the_cpu_s_quantiser(
    lavapipe: VulkanDevice, bundle: Bundle, numbers: Array, fmt: str
) -> None:
    check(lavapipe, bundle, fmt, numbers)


@pytest.mark.parametrize("fmt", SEARCHED)
def test_swiftshader_makes_the_bytes_of_the_cpu_s_quantiser(
    swiftshader: VulkanDevice, bundle: Bundle, numbers: Array, fmt: str
) -> None:
    check(swiftshader, bundle, fmt, numbers)


# What a search may do wrong without losing much more by it.
WRONG = {
    "one turn": ("TURNS = 3;", "TURNS = 1;"),
    "no f16 below the least normal one": ("? 0 : bits;", "? 0 : (bits & 0x7c00) == 0 ? 0 : bits;"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_search_that_goes_wrong_is_told(lavapipe: VulkanDevice, name: str) -> None:
    variant, types = kernel_named("quantize").variant("searched"), {"y": "q4_K", "x": "f32"}
    with TemporaryDirectory(prefix="vkbench-") as folder:
        tree = Path(folder, "slang")
        copytree(TREE, tree)
        for source in (tree / "formats" / "searches").iterdir():
            source.write_text(source.read_text().replace(*WRONG[name]))
        planted = compiled(tree, [variant], types)
    job = Job(id=1, token=1, case="quantize/q4_K/b2_m5_k768", mode=Mode.CORRECTNESS)
    result = execute(lavapipe, planted, job)
    assert result.outcome is Outcome.WRONG
    assert "are not exactly the reference" in result.reason
