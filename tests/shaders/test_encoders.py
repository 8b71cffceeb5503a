"""GGUF files of encoders: which features they are listed with, and what vkbench refuses."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from planted_model import Keys, Tiny, write_model
from vkbench.errors import UsageError
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.architectures import ARCHITECTURES, features_of
from vkbench_shaders.models.hyper import hyper_of


def test_features_are_told_of_an_encoder() -> None:
    assert features_of(ARCHITECTURES["bert"]) == [
        *("learnt positions", "layer_norm", "gelu without a gate", "norms behind each part"),
        *("attention that sees all tokens", "an embedding in place of logits"),
    ]


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"attention.causal": True}, "bert.attention.causal is true; supported is false"),
        ({"pooling_type": 4}, "is 4; known are 0 (none), 1 (mean), 2 (cls), 3 (last)"),
        ({"expert_count": 4}, "bert.expert_count is 4; experts are supported in llama"),
    ],
)
def test_a_feature_is_refused_by_its_key(tmp_path: Path, changes: Keys, complaint: str) -> None:
    path = write_model(tmp_path / "model.gguf", Tiny.of("bert"), changes)
    with pytest.raises(UsageError, match=re.escape(complaint)) as error:
        hyper_of(open_gguf(path))
    assert "\n" not in str(error.value)


def test_a_file_that_does_not_say_what_tokens_see_is_refused(tmp_path: Path) -> None:
    """Of such a file llama.cpp has each token see those before it."""
    path = write_model(tmp_path / "model.gguf", Tiny.of("bert"))
    path.write_bytes(path.read_bytes().replace(b"attention.causal", b"attention.casual"))
    with pytest.raises(UsageError, match=r"attention\.causal is missing; supported is false"):
        hyper_of(open_gguf(path))


@pytest.mark.parametrize(
    "name",
    [
        *("blk.1.attn_q_norm.weight", "blk.1.ffn_norm.bias", "blk.1.ffn_gate.weight"),
        *("blk.1.ffn_gate.bias", "cls.weight", "output_norm.weight", "output.weight"),
    ],
)
def test_a_tensor_that_no_step_reads_is_refused(tmp_path: Path, name: str) -> None:
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.of("bert")))
    norm = replace(file.tensor("token_embd_norm.weight"), name=name)
    with pytest.raises(UsageError, match=f"{re.escape(name)} has no place in a model of"):
        hyper_of(replace(file, tensors={**file.tensors, name: norm}))


@pytest.mark.parametrize(
    ("arch", "name"),
    [
        *(("bert", "position_embd.weight"), ("bert", "blk.1.layer_output_norm.weight")),
        ("nomic-bert", "blk.1.ffn_gate.weight"),
    ],
)
def test_a_tensor_that_is_missing_is_named(tmp_path: Path, arch: str, name: str) -> None:
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.of(arch)))
    tensors = {each: tensor for each, tensor in file.tensors.items() if each != name}
    with pytest.raises(UsageError, match=f"tensor {re.escape(name)} is missing"):
        hyper_of(replace(file, tensors=tensors))
