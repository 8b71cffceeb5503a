"""Seeded models: the table's hashes are those of the files that are made."""

from __future__ import annotations

from pathlib import Path

import pytest

from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.cases import ModelCase, name_of
from vkbench_shaders.models.hyper import hash_of, hyper_of
from vkbench_shaders.models.making.making import make
from vkbench_shaders.models.making.seeded import SEEDED, Seeded, hash_now, seeded_of
from vkbench_shaders.models.wiring import graph_of

BY_STEM = {model.stem: model for model in SEEDED}


@pytest.mark.slow
@pytest.mark.parametrize("model", SEEDED, ids=BY_STEM)
def test_a_hash_is_that_of_what_is_made(model: Seeded) -> None:
    """If this fails, models are made otherwise now: the module prints the hashes, series begin."""
    assert hash_now(model) == model.hash


@pytest.mark.slow
@pytest.mark.parametrize("model", SEEDED, ids=BY_STEM)
def test_a_model_has_a_graph(model: Seeded) -> None:
    """A GPU is needed to run the large ones, and none to learn that they can be wired."""
    with model.write_outline() as file:
        for phase, tokens in (("pp", 512), *([] if model.encodes else [("tg", 128)])):
            case = ModelCase(model=model.name, phase=phase, tokens=tokens)
            for part in case.timed_phases("mixed"):
                graph = graph_of(file, hyper_of(file, case.room), part)
                assert len(graph.steps) >= 10 * hyper_of(file).layers


@pytest.mark.parametrize("stem", ["tiny-llama-q4_K_M", "gpt2-124m-q8_0"])
def test_an_outline_has_the_hash_of_the_whole_file(stem: str, tmp_path: Path) -> None:
    model, path = BY_STEM[stem], tmp_path / f"{stem}.gguf"
    with path.open("wb") as file:
        make(model.plan, file, lambda written: None)
    whole = open_gguf(path)
    assert name_of(whole) == model.name
    with model.write_outline() as outline:
        assert outline.tensors == whole.tensors
        assert outline.keys == whole.keys
        assert hash_of(outline) == hash_of(whole)
        assert outline.path.stat().st_size == path.stat().st_size
        assert hyper_of(outline) == hyper_of(whole)


def test_a_case_tells_its_model() -> None:
    model = SEEDED[0]
    case = ModelCase(model=model.name, phase="pp", tokens=5)
    assert seeded_of(case.case.name) is model
    assert seeded_of("model/another-0123456789ab/pp5") is None
    assert seeded_of("copy/f32/n1") is None
