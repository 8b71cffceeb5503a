"""Weights from a file: what the case names is what is judged, and anything else is one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vkbench.errors import VkbenchError
from vkbench.job import Source
from vkbench_shaders.catalogue import problem
from vkbench_shaders.gguf_file import BadGguf, open_gguf
from vkbench_shaders.quantisers import quants
from vkbench_worker.judging.preparation import prepare
from vkbench_worker.judging.shelf import Shelf
from vkbench_worker.judging.weights import WrongWeights, weights_of

Written = Callable[[Mapping[str, tuple[str, np.ndarray]]], Path]

VALUES = np.random.Generator(np.random.Philox(key=4)).standard_normal((6, 64), np.float32)


@pytest.fixture
def source(gguf_file: Written) -> Source:
    path = gguf_file({"w": ("q4_0", VALUES), "other": ("q4_0", -VALUES)})
    return Source(path=str(path), tensor="w")


def case(source: Source, m: int = 6) -> str:
    sha = open_gguf(Path(source.path)).sha("w")
    return f"dequantize/q4_0/m{m}_k64/weights={sha}"


@pytest.mark.parametrize("m", [6, 2])
def test_inputs_and_reference_are_the_file_s(source: Source, m: int) -> None:
    prepared = prepare(problem(case(source, m)), source)
    stored = quants.quantise("q4_0", VALUES[:m])
    np.testing.assert_array_equal(prepared.storages["weights"], stored.ravel())
    np.testing.assert_array_equal(
        prepared.expected.outputs["y"], quants.dequantise("q4_0", stored).astype(np.float32)
    )


def test_the_file_is_read_once_for_a_case(source: Source) -> None:
    shelf, posed = Shelf(1 << 20), problem(case(source))
    kept = shelf.get(posed, source)
    Path(source.path).unlink()
    assert shelf.get(posed, source) is kept


def test_another_tensor_under_the_name_is_refused(source: Source) -> None:
    with pytest.raises(WrongWeights, match=r"tensor other of .* is another one on this host"):
        weights_of(problem(case(source)), replace(source, tensor="other"))


def test_a_file_that_is_not_here(source: Source) -> None:
    posed = problem(case(source))
    with pytest.raises(BadGguf, match=r"cannot read /nowhere/a\.gguf: No such file"):
        weights_of(posed, replace(source, path="/nowhere/a.gguf"))
    with pytest.raises(WrongWeights, match="the job no file"):
        weights_of(posed, None)


def test_a_case_that_asks_for_more_than_there_is(source: Source) -> None:
    with pytest.raises(VkbenchError, match="the weights are 7 x 36"):
        weights_of(problem(case(source, 7)), source)
