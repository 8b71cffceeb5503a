"""Comparisons with peers: which cases of a selection they are planned for."""

from __future__ import annotations

import pytest

from planted_runs import DEVICE
from vkbench.case import is_model
from vkbench.errors import NothingToDo, UsageError
from vkbench.job import Mode, PlannedJob, Source
from vkbench_scheduler.planning.plan import count, plan
from vkbench_scheduler.planning.selection import ModelFile, Selection


def planned(**changes: object) -> list[PlannedJob]:
    return list(plan(Selection(**changes), [DEVICE]))  # type: ignore[arg-type]


PRODUCTS: dict[str, object] = {
    "kernels": ("mul_mat",),
    "formats": ("q4_0",),
    "shapes": ({"m": 32, "n": 33, "k": 64},),
}


def test_each_timed_case_is_compared_with_each_peer_behind_its_timing() -> None:
    jobs = planned(**PRODUCTS, peers=("torch", "NumPy", "torch"))
    timed = [job for job in jobs if job.mode is Mode.PERFORMANCE]
    at = jobs.index(timed[0])
    assert [(job.mode, job.variant) for job in jobs[at : at + 3]] == [
        (Mode.PERFORMANCE, "auto"),
        (Mode.PEER, "torch"),
        (Mode.PEER, "numpy"),
    ]
    assert sum(job.mode is Mode.PEER for job in jobs) == 2 * len({job.case for job in timed})
    selection = Selection(**{**PRODUCTS, "peers": ("torch", "numpy")})  # type: ignore[arg-type]
    assert count(selection, [DEVICE]) == len(jobs)
    assert jobs[at + 1].estimate_seconds == timed[0].estimate_seconds


def test_whole_models_are_compared_with_peers_that_run_models() -> None:
    jobs = planned(suite="quick", peers=("torch", "ggml"))
    compared = {
        peer: {is_model(job.case) for job in jobs if (job.mode, job.variant) == (Mode.PEER, peer)}
        for peer in ("torch", "ggml")
    }
    assert compared == {"torch": {False}, "ggml": {False, True}}
    with pytest.raises(NothingToDo, match="peers have"):
        planned(suite="models-quick", peers=("torch",))


def test_a_files_model_is_compared_behind_its_code_paths() -> None:
    path = "/models/tiny.gguf"
    case = "model/tiny-0123456789ab/pp8"
    model = ModelFile(source=Source(path=path, tensor=""), cases=(case,), bytes=1000)
    jobs = planned(model=model, mode=Mode.PERFORMANCE, peers=("ggml",))
    assert [(job.mode, job.variant) for job in jobs] == [
        (Mode.PERFORMANCE, "auto"),
        (Mode.PEER, "ggml"),
    ]
    assert {job.source for job in jobs} == {model.source}
    selection = Selection(model=model, mode=Mode.PERFORMANCE, peers=("ggml",))
    assert count(selection, [DEVICE]) == len(list(plan(selection, [DEVICE])))
    with pytest.raises(UsageError, match="torch cannot run whole models: leave out --model"):
        planned(model=model, peers=("ggml", "torch"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mode": Mode.CORRECTNESS}, "leave out --mode correctness"),
        ({"variant": "portable"}, "leave out --variant"),
        ({"peers": ("torhc",)}, "torch"),
    ],
)
def test_what_peers_cannot_be_compared_with(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        planned(**{**PRODUCTS, "peers": ("torch",), **changes})
