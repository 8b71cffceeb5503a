"""Encoders on CPU drivers: embeddings against float64, jobs that are judged, and refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from planted_model import ENCODERS, VOCABULARY, Keys, Tiny, write_model
from vkbench.errors import UsageError
from vkbench.job import Job, Mode, Outcome, Source
from vkbench.result import Result
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.gguf_file import GgufFile, open_gguf
from vkbench_shaders.models.cases import VARIANTS, model_case, name_of
from vkbench_shaders.models.graph import AS_NUMBERS, Graph, Phase, Products
from vkbench_shaders.models.hyper import Hyper, hyper_of, predicting_hyper_of
from vkbench_shaders.models.reference import Reference
from vkbench_shaders.models.wiring import graph_of
from vkbench_worker.models.execute import execute_model
from vkbench_worker.models.model import Model, Options
from vkbench_worker.runtime.vulkan.device import VulkanDevice

PROMPT = np.arange(17) * 5 % VOCABULARY
POOLINGS = ("none", "mean", "cls", "last")


def embed(
    device: VulkanDevice,
    bundle: Bundle,
    path: Path,
    sequences: NDArray[np.integer],
    products: Products = AS_NUMBERS,
) -> NDArray[np.float32]:
    """What the device makes of some sequences, a row each."""
    file, (batch, count) = open_gguf(path), sequences.shape
    options = Options(context=count, batch=batch, products=products)
    with Model(device, bundle, file, hyper_of(file), options) as model:
        return model.prepare_reading(count, count).run(sequences, 0).reshape(batch, -1).copy()


def expect(path: Path, tokens: NDArray[np.integer]) -> NDArray[np.float64]:
    file = open_gguf(path)
    return Reference(file=file, hyper=hyper_of(file)).embedding(tokens)


def nmse(found: NDArray[np.floating], wanted: NDArray[np.floating]) -> float:
    return float(((found - wanted) ** 2).sum() / (wanted**2).sum())


@pytest.mark.parametrize("count", [1, 8, 17])
@pytest.mark.parametrize("arch", ENCODERS)
def test_an_embedding_is_right(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, arch: str, count: int
) -> None:
    path = write_model(tmp_path / "model.gguf", Tiny.of(arch))
    found = embed(lavapipe, bundle, path, PROMPT[None, :count])
    assert found.shape == (1, 64)
    assert nmse(found[0], expect(path, PROMPT[:count])) < 1e-9


def test_small_subgroups_are_right(
    swiftshader: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    path = write_model(tmp_path / "model.gguf", Tiny.of("bert"))
    assert nmse(embed(swiftshader, bundle, path, PROMPT[None])[0], expect(path, PROMPT)) < 1e-9


@pytest.mark.parametrize("number", range(len(POOLINGS)))
def test_each_pooling_is_right(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, number: int
) -> None:
    """Of two sequences, so that no row of the one is taken for the other's."""
    path = write_model(tmp_path / "model.gguf", Tiny.of("bert"), {"pooling_type": number})
    assert hyper_of(open_gguf(path)).pooling == POOLINGS[number]
    sequences = np.stack([PROMPT, PROMPT[::-1]])
    found = embed(lavapipe, bundle, path, sequences)
    for made, tokens in zip(found, sequences, strict=True):
        assert nmse(made, expect(path, tokens)) < 1e-9


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("arch", ENCODERS)
@pytest.mark.parametrize("count", [7, 17])
def test_quantised_weights_are_right(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, arch: str, variant: str, count: int
) -> None:
    path = write_model(tmp_path / "model.gguf", Tiny.wide(arch=arch, groups=4, fmt="q4_0"))
    found = embed(lavapipe, bundle, path, PROMPT[None, :count], VARIANTS[variant])
    limit = 1e-7 if variant == "plain" or count > 8 else 1e-2
    assert nmse(found[0], expect(path, PROMPT[:count])) < limit


@pytest.mark.parametrize("batch", [3, 32])
@pytest.mark.parametrize("arch", ENCODERS)
def test_sequences_of_a_batch_see_only_themselves(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, arch: str, batch: int
) -> None:
    """Each is right, and has the same bits beside other neighbours."""
    path = write_model(tmp_path / "model.gguf", Tiny.of(arch))
    ids = np.arange(batch)[:, None]
    sequences = (PROMPT + 7 * ids + ids * PROMPT) % VOCABULARY
    first = embed(lavapipe, bundle, path, sequences)
    others = embed(lavapipe, bundle, path, (sequences + 5 * (ids % 2)) % VOCABULARY)
    np.testing.assert_array_equal(first[::2], others[::2])
    assert (first[1] != others[1]).any()
    for row in (0, 1, batch - 1):
        assert nmse(first[row], expect(path, sequences[row])) < 1e-9


def done(device: VulkanDevice, bundle: Bundle, path: Path, case: str) -> Result:
    name = f"model/{name_of(open_gguf(path))}/{case}"
    source = Source(path=str(path), tensor="")
    job = Job(id=1, token=1, case=name, mode=Mode.PERFORMANCE, source=source, measure_seconds=0.1)
    return execute_model(device, bundle, job)


@pytest.mark.parametrize("work", [2e10, 1])
@pytest.mark.parametrize(
    ("arch", "case", "pooling"),
    [("bert", "pp17", 1), ("bert", "pp9/batch=3", 0), ("nomic-bert", "pp17/batch=2", 2)],
)
def test_an_encoder_is_judged_and_timed(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    case: str,
    pooling: int,
    work: float,
) -> None:
    """Whole, or in parts as a large one is."""
    monkeypatch.setattr("vkbench_worker.models.judging._WORK", work)
    path = write_model(tmp_path / "tiny.gguf", Tiny.of(arch), {"pooling_type": pooling})
    result = done(lavapipe, bundle, path, case)
    assert result.outcome is Outcome.PASSED, result.reason
    assert result.verdict
    assert result.verdict.nmse is not None
    assert 0 < result.verdict.nmse < 1e-9
    assert len(result.timings) == 1


WRONG = {
    "pooling": "NMSE of what is pooled is",
    "eps": "NMSE of the embedding of tokens is",
    "scale": "NMSE of layer 0 is",
}


@pytest.mark.parametrize("field", WRONG)
def test_a_graph_that_is_wired_wrongly_is_found(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    field: str,
) -> None:
    """In parts; the graph is of other hyperparameters than those it is judged by."""
    monkeypatch.setattr("vkbench_worker.models.judging._WORK", 1)
    path = write_model(tmp_path / "tiny.gguf", Tiny.of("bert"))
    wrong: dict[str, Any] = {"pooling": "last", "eps": 1e-2, "scale": 0.1}

    def wire_wrongly(file: GgufFile, hyper: Hyper, phase: Phase) -> Graph:
        return graph_of(file, replace(hyper, **{field: wrong[field]}), phase)

    monkeypatch.setattr("vkbench_worker.models.model.graph_of", wire_wrongly)
    result = done(lavapipe, bundle, path, "pp17")
    assert result.outcome is Outcome.WRONG
    assert result.reason.startswith(WRONG[field])


@pytest.mark.parametrize(
    ("case", "complaint"),
    [
        ("tg8", "a model of architecture bert generates no tokens: leave --generate out"),
        ("pp513", "513 positions; the model has 512"),
        ("pp17/cache=q8_0", "has no cache of keys and values: leave --context and --cache out"),
        ("pp17/context=64", "has no cache of keys and values: leave --context and --cache out"),
    ],
)
def test_what_an_encoder_does_not_do_is_refused(tmp_path: Path, case: str, complaint: str) -> None:
    file = open_gguf(write_model(tmp_path / "tiny.gguf", Tiny.of("bert")))
    with pytest.raises(UsageError, match=re.escape(complaint)) as error:
        model_case(f"model/{name_of(file)}/{case}").read_hyper(file)
    assert "\n" not in str(error.value)


def test_a_prompt_is_read_at_once(tmp_path: Path) -> None:
    keys: Keys = {"context_length": 2048}
    file = open_gguf(write_model(tmp_path / "tiny.gguf", Tiny.of("nomic-bert"), keys))
    complaint = "reads a prompt at once, of 512 tokens at most, and not 600"
    with pytest.raises(UsageError, match=complaint):
        model_case(f"model/{name_of(file)}/pp600").read_hyper(file)


def test_an_encoder_has_no_logits(tmp_path: Path) -> None:
    file = open_gguf(write_model(tmp_path / "tiny.gguf", Tiny.of("bert")))
    with pytest.raises(UsageError, match="a model of architecture bert makes no logits"):
        predicting_hyper_of(file)
