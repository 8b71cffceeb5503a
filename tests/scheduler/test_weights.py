"""Plans on a file's tensor: its format, its sizes, its hash, and where it lies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planted_runs import DEVICE
from vkbench.case import parse
from vkbench.errors import NothingToDo, UsageError
from vkbench.job import Mode, PlannedJob, Source
from vkbench_scheduler.planning.plan import plan
from vkbench_scheduler.planning.selection import Selection, Weights
from vkbench_scheduler.planning.weights import weights_from
from vkbench_shaders.catalogue import KERNELS

Written = Callable[[Mapping[str, tuple[str, np.ndarray]]], Path]

CPU = replace(DEVICE, name="llvmpipe", type="cpu")
SHA = "1234567890123456"  # digits alone, and still a word
WEIGHTS = Weights(
    source=Source(path="/models/a.gguf", tensor="w"), format="q4_0", shape=(96, 512), sha=SHA
)


def planned(weights: Weights = WEIGHTS, **changes: object) -> list[PlannedJob]:
    return list(plan(Selection(weights=weights, **changes), [CPU]))  # type: ignore[arg-type]


def test_every_job_has_the_tensor_s_sizes_hash_and_place() -> None:
    jobs = planned(kernels=("mul_mat_vec",))
    assert {job.mode for job in jobs} == {Mode.CORRECTNESS, Mode.PERFORMANCE}
    for job in jobs:
        case = parse(job.case)
        assert case.name == job.case
        assert (case.format, case.params["weights"]) == ("q4_0", SHA)
        assert (case.shape["m"], case.shape["k"]) == (96, 512)
        assert job.source == WEIGHTS.source
    assert len({parse(job.case).shape["n"] for job in jobs}) > 3


def test_only_kernels_that_read_weights_take_part() -> None:
    kernels = {parse(job.case).kernel for job in planned()}
    assert kernels == {
        kernel.name
        for kernel in KERNELS
        if kernel.reads_weights and "q4_0" in kernel.bindings[0].types
        if not kernel.name.endswith("glu_q8_1")  # which need twice as many rows
    }
    assert "mul_mat_vec" in kernels
    assert not {"copy", "add"} & kernels
    with pytest.raises(NothingToDo, match="copy reads no weights"):
        planned(kernels=("copy",))


def test_sizes_that_are_asked_for_cut_the_tensor() -> None:
    jobs = planned(kernels=("mul_mat_vec",), shapes=({"m": 7, "n": 3},))
    assert {parse(job.case).name.split("/")[2] for job in jobs} == {"m7_n3_k512"}
    for shape, hint in (({"m": 97}, "m is 96 at most"), ({"k": 256}, "k is 512 there")):
        with pytest.raises(UsageError, match=hint):
            planned(kernels=("mul_mat_vec",), shapes=(shape,))


def test_the_suite_says_how_and_the_tensor_what() -> None:
    jobs = planned(suite="quick", kernels=("dequantize",))
    timed = [job for job in jobs if job.mode is Mode.PERFORMANCE]
    assert len(timed) == 2  # to f32 and f16
    assert all(parse(job.case).shape == {"m": 96, "k": 512} for job in jobs)


def test_formats_have_to_agree_with_the_tensor() -> None:
    assert planned(kernels=("dequantize",), formats=("q*",))
    with pytest.raises(NothingToDo):
        planned(kernels=("dequantize",), formats=("q8_0",))


def test_a_format_that_no_kernel_reads_is_said() -> None:
    weights = Weights(source=WEIGHTS.source, format="i16", shape=(4, 4), sha=SHA)
    with pytest.raises(UsageError, match="'i16'"):
        planned(weights, kernels=("mul_mat_vec",))


def test_other_plans_name_no_file() -> None:
    assert {job.source for job in plan(Selection(kernels=("copy",)), [CPU])} == {None}


def test_weights_are_a_file_s(gguf_file: Written) -> None:
    values = np.ones((3, 2, 64), np.float32)
    path = gguf_file({"experts": ("q8_0", values)})
    weights = weights_from(path, "experts")
    assert (weights.format, weights.shape) == ("q8_0", (3, 2, 64))
    assert weights.source == Source(path=str(path), tensor="experts")
    [job] = planned(weights, kernels=("dequantize",), mode=Mode.CORRECTNESS, formats=("q8_0",))[:1]
    assert parse(job.case).shape == {"m": 2, "k": 64}  # the first expert
