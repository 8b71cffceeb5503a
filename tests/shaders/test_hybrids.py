"""Layers with states: which steps make a token's net or scan, and gated heads."""

from __future__ import annotations

from pathlib import Path

import pytest

from planted_model import Tiny, write_model
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.graph import Phase, Products
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.wiring import graph_of

JOINED = Products(rounds_from=0, joins=True)


@pytest.mark.parametrize("arch", ["qwen35", "qwen3next"])
@pytest.mark.parametrize(("tokens", "products"), [(1, Products()), (2, JOINED), (1, JOINED)])
def test_a_net_is_one_step_of_a_token_where_products_join_others(
    tmp_path: Path, arch: str, tokens: int, products: Products
) -> None:
    """Which finds states in tables that other steps copy them from and to."""
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.wide(arch=arch)))
    phase = Phase(tokens=tokens, length=32, products=products)
    graph = graph_of(file, hyper := hyper_of(file), phase)
    nets = [step for step in graph.steps if step.label == "delta_net"]
    at_once = tokens == 1 and products.joins
    assert len(nets) == len(hyper.recurring)
    assert {step.problem.kernel.name for step in nets} == {
        "gated_delta_net_token" if at_once else "gated_delta_net"
    }
    attention = [step for step in graph.steps if step.label == "attention"]
    assert [step.problem.params.get("gated", "no") for step in attention] == [
        "yes" if at_once else "no"
    ]
    states = [name for name in graph.caches if name.startswith("state.")]
    assert sorted({name for step in nets for name in step.writes if name in states}) == (
        sorted(states) if at_once else []
    )


@pytest.mark.parametrize("arch", ["mamba", "mamba2"])
@pytest.mark.parametrize(("tokens", "products"), [(1, Products()), (2, JOINED), (1, JOINED)])
def test_a_token_is_scanned_in_place_where_products_join_others(
    tmp_path: Path, arch: str, tokens: int, products: Products
) -> None:
    """Steps read what the first matrix makes as it is, and leave what the last reads, as bytes."""
    tiny = Tiny.wide(arch=arch, fmt="q4_0", groups=1)
    file = open_gguf(write_model(tmp_path / "model.gguf", tiny))
    phase = Phase(tokens=tokens, length=32, products=products)
    graph = graph_of(file, hyper := hyper_of(file), phase)
    scans = [step for step in graph.steps if step.label == "ssm_scan"]
    at_once = tokens == 1 and products.joins
    assert len(scans) == hyper.layers
    at_once_kernel = {"mamba": "selective_scan_token", "mamba2": "ssm_scan_token"}[arch]
    names = {(step.problem.kernel.name, step.problem.types["y"]) for step in scans}
    assert names == {(at_once_kernel, "q8_1") if at_once else ("ssm_scan", "f32")}
    labels = {
        "mamba": ["ssm_in", "ssm_conv1d", "ssm_x", "ssm_x", "ssm_dt", "ssm_scan", "ssm_out"],
        "mamba2": ["ssm_in", "ssm_scan", "ssm_out"],
    }
    found = [step.label for step in graph.steps if step.layer == 1]
    assert (sorted(found) == sorted(labels[arch])) == at_once


@pytest.mark.parametrize(("fmt", "products"), [("f16", 3), ("f32,f16,bf16", 4)])
def test_rates_of_one_format_are_one_product(tmp_path: Path, fmt: str, products: int) -> None:
    """Of two formats they are two products, which are joined behind."""
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.of("qwen35", fmt=fmt)))
    graph = graph_of(file, hyper_of(file), Phase(tokens=1, length=32, products=JOINED))
    labels = [step.label for step in graph.steps if step.layer == 1]
    assert labels.index("delta_net") - labels.count("ssm_rates_joined") == products
    assert labels.count("ssm_rates_joined") == products - 3
