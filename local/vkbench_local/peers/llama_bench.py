"""llama.cpp's own timings of whole models, as results beside ours."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from vkbench.errors import UsageError
from vkbench.result import MODEL_BYTES, MODEL_WEIGHTS
from vkbench_local.peers.imported import NoCase, PeerTiming
from vkbench_shaders.models.cases import GENERATE, PROMPT, ModelCase
from vkbench_shaders.models.graph import CACHES
from vkbench_shaders.models.making.seeded import SEEDED
from vkbench_worker.peers.llama_cpp.llama_bench_file import PeerTest

PEER: Final = "llama.cpp"  # code path of its results
SAID: Final = "timed by llama-bench, with the host's time, and not judged"


def check_one_model(tests: Sequence[PeerTest]) -> None:
    """UsageError if tests that shall all be of one file are of several."""
    if len({test.model for test in tests}) > 1:
        raise UsageError("--model names one file, and the tests are of several")


def llama_timing(models: Sequence[str], model: str, test: PeerTest) -> PeerTiming:
    """What a test timed, of one of the models (with their hashes) known here.

    `model` is that of all tests, where the file need not tell. NoCase if the test is no case here,
    UsageError if its model is not known.
    """
    if reason := _reason(test):
        raise NoCase(reason)
    return _timing(test, _case(test, model or _model(test, models)))


def _reason(test: PeerTest) -> str:
    """Why a test has no case; "" if it has one."""
    if not test.prompt and not test.generated:
        return "without tokens"
    if test.prompt and test.generated:
        return "of a prompt and a generation in one"
    if test.depth:
        return "behind a filled cache"
    if test.cache_k != test.cache_v or test.cache_k not in CACHES:
        return f"with caches of {test.cache_k} and {test.cache_v}"
    return ""


def _model(test: PeerTest, models: Sequence[str]) -> str:
    """The one of that name of which there are results, or else that vkbench makes."""
    stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", test.model)
    for known in (models, [model.name for model in SEEDED]):
        named = [name for name in known if name.rpartition("-")[0] in (stem, f"m{stem}")]
        if len(named) == 1:
            return named[0]
        if named:
            break
    has = f"{len(named)} models here are" if named else "no model here is"
    raise UsageError(f"{has} called '{stem}', as in test {test.number}: give --model FILE")


def _case(test: PeerTest, model: str) -> str:
    phase, tokens = (PROMPT, test.prompt) if test.prompt else (GENERATE, test.generated)
    return ModelCase(model=model, phase=phase, tokens=tokens, cache=test.cache_k).case.name


def _timing(test: PeerTest, case: str) -> PeerTiming:
    """Seconds of a prompt, or of one of the generated tokens: their mean."""
    tokens = test.generated or 1
    sizes = {MODEL_BYTES: test.model_bytes, MODEL_WEIGHTS: test.model_weights}
    return PeerTiming(
        case=case,
        samples=[seconds / tokens for seconds in test.seconds],
        deviation=test.deviation / tokens,
        finished_at=test.finished_at,
        seconds=sum(test.seconds),
        origin=SAID,
        settings=test.settings,
        telemetry={name: float(size) for name, size in sizes.items() if size},
    )
