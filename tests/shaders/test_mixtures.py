"""Steps of experts: which of their matrices are one."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted_model import Tiny, write_model
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.graph import Phase
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.wiring import Wiring


def wire(folder: Path, fmt: str = "q4_0", arch: str = "qwen3moe") -> Wiring:
    file = open_gguf(write_model(folder / "model.gguf", Tiny.wide(arch=arch, fmt=fmt)))
    wiring = Wiring(file, hyper_of(file), Phase(tokens=2, length=32))
    wiring.model()
    return wiring


def labels(wiring: Wiring) -> set[str]:
    return {step.label for step in wiring.steps if "_exps" in step.label}


JOINED = {"ffn_gate_exps+ffn_up_exps", "ffn_down_exps"}
APART = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}


@pytest.mark.parametrize("arch", ["qwen3moe", "gpt-oss", "deepseek2", "qwen35moe"])
def test_gates_and_what_they_let_pass_are_one_matrix_of_each_expert(
    tmp_path: Path, arch: str
) -> None:
    wiring = wire(tmp_path, arch=arch)
    assert labels(wiring) == JOINED
    joined = [weight for weight in wiring.weights.values() if weight.matrices > 1]
    assert {weight.matrices for weight in joined} == {4}
    has_biases = arch == "gpt-oss"
    assert len(joined) == (1 + has_biases) * sum(
        wiring.hyper.has_experts(layer) for layer in range(wiring.hyper.layers)
    )


def test_matrices_of_unlike_formats_stay_apart(tmp_path: Path) -> None:
    assert labels(wire(tmp_path, "q4_0,q8_0,q5_0")) == APART


def test_matrices_of_which_one_has_a_bias_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    has = Wiring.has
    monkeypatch.setattr(Wiring, "has", lambda self, n: n != "ffn_gate_exps.bias" and has(self, n))
    assert labels(wire(tmp_path, arch="gpt-oss")) == APART


def test_matrices_that_are_more_than_devices_bind_stay_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sum(weight.bytes(wire(tmp_path).file) for weight in wire(tmp_path).weights.values())
    for most, expected in ((whole, JOINED), (1, APART)):
        monkeypatch.setattr("vkbench_shaders.models.layer_parts.MOST_JOINED", most)
        assert labels(wire(tmp_path)) == expected
