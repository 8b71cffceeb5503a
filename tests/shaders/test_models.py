"""Models of GGUF files: hyperparameters, what is refused, float64 references, graphs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from planted_model import ENCODERS, Keys, Tiny, write_model
from vkbench.errors import UsageError
from vkbench_shaders.gguf_file import GgufFile, open_gguf
from vkbench_shaders.models.architectures import ARCHITECTURES, MISSING, features_of
from vkbench_shaders.models.graph import Phase, Products, Step
from vkbench_shaders.models.hyper import Hyper, check_tensors, hash_of, hyper_of
from vkbench_shaders.models.recurrent.sizes import Rwkv
from vkbench_shaders.models.reference import Reference
from vkbench_shaders.models.wiring import graph_of


def hyper(path: Path, model: Tiny, changes: Keys | None = None) -> Hyper:
    return hyper_of(open_gguf(write_model(path / "model.gguf", model, changes)))


def test_sizes_are_those_of_the_keys(tmp_path: Path) -> None:
    found = hyper(tmp_path, Tiny(layers=3))
    assert (found.layers, found.width, found.heads, found.groups) == (3, 64, 4, 2)
    assert (found.key_size, found.inner, found.vocabulary) == (16, 96, 61)
    assert found.rope
    assert (found.rope.mode, found.rope.n_dims, found.rope.freq_base) == ("norm", 16, 10000.0)


def test_turning_back_leaves_lengths(tmp_path: Path) -> None:
    keys: Keys = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}
    rope = hyper(tmp_path, Tiny(), keys).rope
    assert rope
    assert rope.magnitude == pytest.approx(1.1386, abs=1e-4)
    assert rope.back.magnitude == pytest.approx(1)


def test_a_factor_without_a_scaling_changes_nothing(tmp_path: Path) -> None:
    """Of latent attention, whose scores are longer where positions are scaled."""
    keys: Keys = {"rope.scaling.factor": 40.0, "rope.scaling.yarn_log_multiplier": 0.1}
    tiny = Tiny.of("deepseek2")
    plain = hyper(tmp_path, tiny)
    assert hyper(tmp_path, tiny, {**keys, "rope.scaling.type": "none"}) == plain
    assert hyper(tmp_path, tiny, keys) == plain
    scaled = hyper(tmp_path, tiny, {**keys, "rope.scaling.type": "yarn"})
    assert scaled.scale / plain.scale == pytest.approx((1 + 0.1 * np.log(40)) ** 2)


LATENT = "tensor blk.1.exp_probs_b.bias is supported where deepseek2.expert_gating_func is 2"


@pytest.mark.parametrize(
    ("arch", "changes", "complaint"),
    [
        ("deepseek2", {"expert_group_count": 3}, "is 3: 4 experts are no groups of two or more"),
        ("deepseek2", {"expert_group_count": 4}, "is 4: 4 experts are no groups of two or more"),
        ("deepseek2", {"expert_group_count": 2}, "is 0 of 2 groups, which have 0 experts, for 2"),
        ("deepseek2", {"expert_gating_func": 4}, "is 4; known are 1 (softmax), 2 (sigmoid)"),
        ("deepseek2", {"expert_gating_func": 1}, LATENT),
        (
            "qwen3",
            {"expert_count": 4},
            "supported in llama, qwen3moe, gpt-oss, deepseek2, qwen35moe",
        ),
        ("deepseek2", {"attention.head_count_kv": 4}, "is 4; latent attention has one head of"),
        ("gpt-oss", {"expert_count": 0}, "gpt-oss.expert_count is missing or 0: this gate is"),
        ("mamba", {"ssm.state_size": 24}, "is 24; supported are 16, 32, 64, 128, 256"),
        ("mamba", {"ssm.dt_b_c_rms": True}, "is true: norms within the scan are not supported"),
        ("mamba2", {"ssm.group_count": 3}, "is 3, which does not divide 4 heads"),
        ("mamba2", {"ssm.inner_size": 126}, "is 126: heads have a multiple of 4 numbers"),
        ("rwkv6", {"wkv.head_size": 24}, "is 24; supported are 16, 32, 64, 128, 256"),
        ("rwkv7", {"wkv.head_size": 128}, "is 128, which does not divide 64"),
        ("rwkv7", {"token_shift_count": 1}, "is 1; supported is 2"),
        ("mamba", {"ssm.conv_kernel": 1}, "ssm.conv_kernel is 1; it has to be 2 or more"),
        ("mamba", {"ssm.conv_kernel": 3}, "ssm_conv1d.weight has the shape 128 x 4; the keys ask"),
        ("mamba", {"ssm.inner_size": 64}, "blk.0.ssm_in.weight has the shape 256 x 64; the keys"),
        ("mamba", {"ssm.time_step_rank": 2}, "36 x 128; the keys ask for 34 x 128"),
        ("mamba2", {"ssm.state_size": 32}, "blk.0.ssm_in.weight has the shape 324 x 64; the keys"),
        ("mamba2", {"ssm.group_count": 1}, "blk.0.ssm_in.weight has the shape 324 x 64; the keys"),
        ("mamba2", {"ssm.time_step_rank": 2}, "324 x 64; the keys ask for 322 x 64"),
        ("rwkv6", {"wkv.head_size": 32}, "time_mix_first.weight has the shape 4 x 16; the keys"),
        ("qwen35", {"ssm.state_size": 24}, "is 24; supported are 16, 32, 64, 128, 256"),
        ("qwen35", {"ssm.group_count": 3}, "is 3, which does not divide 4 heads"),
        ("qwen35", {"ssm.inner_size": 60}, "ssm.inner_size is 60, and not 4 heads of 16"),
        ("qwen35", {"ssm.conv_kernel": 1}, "ssm.conv_kernel is 1; it has to be 2 or more"),
        ("qwen35", {"ssm.group_count": 1}, "attn_qkv.weight has the shape 128 x 64; the keys ask"),
        ("qwen35", {"full_attention_interval": 2}, "tensor blk.1.attn_q.weight is missing"),
        ("qwen35", {"rope.dimension_sections": [2, 0, 1, 1]}, "[2, 0, 1, 1], by which pair 1 of"),
        ("qwen35", {"attention.value_length": 8}, "is 8; gated heads have as many values as keys"),
        ("qwen35", {"rope.dimension_sections": [4]}, "[4, 0, 0], by which pair 1 of 4 never turns"),
        ("qwen35", {"nextn_predict_layers": 4}, "is 4; the model has 4 layers in all"),
        (
            "qwen35",
            {"attention.head_count": 8},
            "attn_q.weight has the shape 128 x 64; the keys ask",
        ),
        ("qwen35", {"block_count": 3}, "tensor blk.3.attn_norm.weight has no place in a model"),
        ("qwen3next", {"ssm.group_count": 4}, "attn_qkv.weight has the shape 128 x 64; the keys"),
        ("qwen35moe", {"expert_count": 0}, "tensor blk.0.ffn_up.weight is missing"),
        (
            "qwen35",
            {"expert_count": 4},
            "supported in llama, qwen3moe, gpt-oss, deepseek2, qwen35moe",
        ),
        ("gemma3", {"attention.sliding_window_pattern": "yes"}, "has to be a size"),
    ],
)
def test_a_feature_is_refused_by_its_key(
    tmp_path: Path, arch: str, changes: Keys, complaint: str
) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)) as error:
        hyper(tmp_path, Tiny.of(arch), changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arch", "part", "shape", "complaint"),
    [
        ("rwkv6", "time_mix_w1", (35, 64), "35 x 64; the keys ask for 40 x 64"),
        ("rwkv7", "time_mix_lerp_fused", (5, 1, 1, 64), "5 x 1 x 1 x 64; the keys ask for 6 x 64"),
        ("rwkv7", "time_mix_a2", (64, 3), "64 x 3; the keys ask for 64 x 4"),
        ("rwkv7", "time_mix_k_k", (32,), "32; the keys ask for 64"),
        ("qwen35moe", "ffn_gate_inp_shexp", (32,), "32; the keys ask for 64"),
    ],
)
def test_a_tensor_of_another_shape_is_refused(
    tmp_path: Path, arch: str, part: str, shape: tuple[int, ...], complaint: str
) -> None:
    """Where steps would read what lies behind it."""
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.of(arch)))
    name = f"blk.1.{part}.weight"
    wrong = replace(file.tensor(name), shape=shape)
    with pytest.raises(UsageError, match=f"tensor {name} has the shape {complaint}"):
        hyper_of(replace(file, tensors={**file.tensors, name: wrong}))


def test_rwkv_7_is_not_rescaled(tmp_path: Path) -> None:
    """In llama.cpp only RWKV 6 reads that key."""
    keys: Keys = {"rescale_every_n_layers": 2}
    for arch, every in (("rwkv6", 2), ("rwkv7", 0)):
        sizes = hyper(tmp_path, Tiny.of(arch), keys).recurrent
        assert isinstance(sizes, Rwkv)
        assert sizes.rescaled == every


def test_latent_attention_of_one_matrix_is_refused(tmp_path: Path) -> None:
    """Files from before heads had matrices of their own do not say how long those are."""
    path = write_model(tmp_path / "model.gguf", Tiny.of("deepseek2"))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"key_length_mla", b"key_length_old"))
    with pytest.raises(UsageError, match=r"key_length_mla is missing: attn_kv_b is not supported"):
        hyper_of(open_gguf(path))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"attention.head_count_kv": 3}, "llama.attention.head_count_kv is 3, which does not"),
        ({"rope.scaling.type": "spiral"}, "llama.rope.scaling.type is spiral; known are none"),
        ({"block_count": "two"}, "llama.block_count has to be a size"),
        ({"block_count": 3}, "tensor blk.2.attn_norm.weight is missing"),
        ({"block_count": 1}, "tensor blk.1.attn_norm.weight has no place in a model"),
    ],
)
def test_a_refusal_is_one_line_with_the_key(tmp_path: Path, changes: Keys, complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)) as error:
        hyper(tmp_path, Tiny(), changes)
    assert "\n" not in str(error.value)


def with_tensor(folder: Path, arch: str, name: str, like: str) -> GgufFile:
    """A file that has one tensor more, whose values are those of another one."""
    file = open_gguf(write_model(folder / "model.gguf", Tiny.of(arch)))
    return replace(file, tensors={**file.tensors, name: replace(file.tensor(like), name=name)})


@pytest.mark.parametrize(
    ("arch", "part"),
    [
        *(("deepseek2", "attn_q.bias"), ("deepseek2", "attn_qkv.bias"), ("phi2", "ffn_norm.bias")),
        *(("qwen35", "attn_output.bias"), ("qwen35", "ffn_down.bias")),
    ],
)
def test_a_tensor_that_no_step_reads_is_refused(tmp_path: Path, arch: str, part: str) -> None:
    file = with_tensor(tmp_path, arch, f"blk.1.{part}", "blk.1.attn_norm.weight")
    with pytest.raises(UsageError, match=rf"blk\.1\.{part} has no place in a model of"):
        check_tensors(file, hyper_of(file))


def test_latent_attention_may_have_a_norm_behind_it(tmp_path: Path) -> None:
    norm = "blk.1.post_attention_norm.weight"
    file = with_tensor(tmp_path, "deepseek2", norm, "blk.1.ffn_norm.weight")
    graph = graph_of(file, hyper_of(file), Phase(tokens=3, length=32))
    assert norm in {part.tensor for weight in graph.weights.values() for part in weight.parts}


def test_an_unknown_architecture_is_named(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", Tiny())
    data = path.read_bytes()
    path.write_bytes(data.replace(b"llama", b"lemur"))
    with pytest.raises(UsageError, match=r"general\.architecture is lemur; supported are llama"):
        hyper_of(open_gguf(path))
    path.write_bytes(data.replace(b"llama", b"jamba"))
    with pytest.raises(UsageError, match=r"is jamba, which needs scans of Mamba in some layers"):
        hyper_of(open_gguf(path))


def test_what_is_missing_is_not_supported_and_names_are_gguf_s() -> None:
    assert not MISSING.keys() & ARCHITECTURES.keys()
    known = {*gguf.MODEL_ARCH_NAMES.values(), "deepseek4", "whisper"}  # these two it lacks so far
    assert {*MISSING, *ARCHITECTURES} <= known


def test_features_are_told_of_each_architecture() -> None:
    told = {name: features_of(each) for name, each in ARCHITECTURES.items()}
    assert told["llama"] == ["experts"]
    assert told["gemma2"] == [
        *("gated by geglu", "a scaled embedding", "softcaps", "windows in 1 of 2 layers")
    ]
    assert told["qwen3next"][:2] == ["experts", "gated experts that all tokens share"]
    assert told["qwen35"] == ["gated heads", "gated delta nets in 3 of 4 layers"]
    assert told["phi2"][-1] == "a feed-forward part beside attention"


def test_the_hash_follows_keys_and_weights(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model.gguf", Tiny())
    first, data = hash_of(open_gguf(path)), path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    changed = hash_of(open_gguf(path))
    write_model(path, Tiny(), {"rope.freq_base": 500000.0})
    assert len({first, changed, hash_of(open_gguf(path))}) == 3


@pytest.mark.parametrize("arch", [name for name in ARCHITECTURES if name not in ENCODERS])
def test_a_prompt_in_two_parts_has_the_logits_of_the_whole(tmp_path: Path, arch: str) -> None:
    """Of the reference: later tokens change nothing, and its cache is what it would work out."""
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.of(arch)))
    whole, parts = (Reference(file=file, hyper=hyper_of(file)) for _ in range(2))
    tokens = np.arange(13) * 7 % 61
    wanted = whole.logits(tokens)
    found = np.concatenate([parts.logits(tokens[:5]), parts.logits(tokens[5:])])
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max())


def products(file: GgufFile, least: int | None, tokens: int = 1) -> list[Step]:
    phase = Phase(tokens=tokens, length=32, products=Products(rounds_from=least))
    graph = graph_of(file, hyper_of(file), phase)
    return [step for step in graph.steps if step.problem.kernel.name.startswith("mul_mat")]


@pytest.mark.parametrize(
    ("tokens", "kernel"), [(1, "mul_mat_vec"), (8, "mul_mat_vec"), (9, "mul_mat")]
)
def test_products_with_many_tokens_are_of_tiles(tmp_path: Path, tokens: int, kernel: str) -> None:
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.wide(fmt="q4_0")))
    found = [step.problem.kernel.name for step in products(file, None, tokens)]
    assert found
    assert set(found[:-1]) == {kernel}  # the last is of the tokens whose logits are wanted


def test_steps_before_products_round_the_vectors(tmp_path: Path) -> None:
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.wide(fmt="q4_0")))
    for least in (0, 1 << 40):
        assert {step.problem.types["x"] for step in products(file, least)} == {"q8_1"}
    for step in (*products(file, None), *products(file, 0, tokens=9)):
        assert step.problem.types["x"] == "f32"
        assert not step.variant


JOINED = Products(rounds_from=0, joins=True)


@pytest.mark.parametrize(("fmt", "form"), [("q4_0", "_q8_1"), ("f16", "")])
def test_steps_are_joined(tmp_path: Path, fmt: str, form: str) -> None:
    """Of all layers: but the first norm has no product before it, and the last product is alone."""
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.wide(fmt=fmt, layers=2)))
    graph = graph_of(file, hyper_of(file), Phase(tokens=1, length=32, products=JOINED))
    add, gated = f"mul_mat_vec_add{form}", f"mul_mat_vec_swiglu{form}"
    between = ["flash_attn_token", add, gated]
    first = [f"rms_norm{form}", *["mul_mat_vec"] * 3, "rope", *between, add]
    second = [*["mul_mat_vec_rms"] * 3, *between, "mul_mat_vec"]
    names = [step.problem.kernel.name for step in graph.steps]
    assert names == ["get_rows", *first, *second, f"add_rms_norm{form}", "mul_mat_vec"]
    turns = [-1]  # which all layers share
    assert [step.layer for step in graph.steps] == [
        -1, *[0] * 4, *turns, *[0] * 4, *[1] * 7, -1, -1
    ]  # fmt: skip
    made = {name: step.layer for step in graph.steps for name in step.writes}
    assert [made[stream] for stream in graph.streams] == [-1, 0, -1]


# Formats of queries, keys, values, attention's output, gate, up and down; what layers are made by.
MIXED: dict[str, set[str]] = {
    "f16,bf16,f32,f32,bf16,bf16,f16": {"add", "rms", "swiglu"},
    "q4_0,q4_0,q4_0,q4_0,f16,f16,f16": {"swiglu"},
    "f16,f16,f16,f16,q4_0,q4_0,q4_0": {"swiglu_q8_1"},
    "f16,f16,f16,f16,f16,f16,q4_0": {"add", "rms"},
    "f16,f16,f16,f16,f16,bf16,f16": {"add", "rms"},
    "f16,f16,f16,f16,f16,q4_0,f16": {"add", "rms"},
    "q4_0,f16,q4_0,q4_0,q4_0,q4_0,q4_0": {"add_q8_1", "swiglu_q8_1"},
}


@pytest.mark.parametrize("layer", MIXED)
def test_products_of_one_form_are_joined(tmp_path: Path, layer: str) -> None:
    """Each by its own format: what all readers of a vector multiply decides what it is."""
    each = layer.split(",")
    tiny = Tiny.wide(fmt=",".join(["f32", *each, *each]), layers=2)
    file = open_gguf(write_model(tmp_path / "model.gguf", tiny))
    graph = graph_of(file, hyper_of(file), Phase(tokens=1, length=32, products=JOINED))
    names = {step.problem.kernel.name for step in graph.steps}
    found = {name.removeprefix("mul_mat_vec_") for name in names if "vec_" in name}
    assert found == MIXED[layer]


@pytest.mark.parametrize(
    ("length", "cache", "tokens"), [(1024, "f16", 1), (32, "q8_0", 1), (32, "f16", 2)]
)
def test_attention_is_joined_to_one_token_over_few_positions(
    tmp_path: Path, length: int, cache: str, tokens: int
) -> None:
    """Otherwise steps of their own turn heads and fill caches."""
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.wide(fmt="q4_0")))
    phase = Phase(tokens=tokens, length=length, cache=cache, products=JOINED)
    names = {step.problem.kernel.name for step in graph_of(file, hyper_of(file), phase).steps}
    assert {"set_rows", "rope", "flash_attn"} <= names
    assert "flash_attn_token" not in names


def test_products_round_other_vectors_for_large_matrices_alone(tmp_path: Path) -> None:
    """As those behind layer_norm, which leaves numbers."""
    file = open_gguf(
        write_model(tmp_path / "model.gguf", Tiny.wide(arch="gpt2", groups=4, fmt="q4_0"))
    )
    for least in (0, 256 * 256, 256 * 256 + 1):
        for step in products(file, least):
            m, k = (step.problem.shape[dim] for dim in "mk")
            is_number = step.problem.types["x"] == "f32"
            assert (step.variant == "via_q8_1") == (is_number and m * k >= least), step.label
    assert {step.problem.types["x"] for step in products(file, 0)} == {"f32", "q8_1"}


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_a_graph_reads_only_what_was_written(tmp_path: Path, arch: str) -> None:
    file = open_gguf(write_model(tmp_path / "model.gguf", Tiny.of(arch)))
    graph = graph_of(file, hyper_of(file), Phase(tokens=3, length=32, wanted=1))
    there = {*graph.inputs, *graph.weights, *graph.caches}
    for step in graph.steps:
        assert set(step.reads) <= there
        there |= set(step.writes)
    used = {part.tensor for weight in graph.weights.values() for part in weight.parts}
    # what RWKV 7's later layers read of the first one, that has itself, too
    unread = {f"blk.0.time_mix_v{number}.weight" for number in range(3)} if arch == "rwkv7" else {}
    assert used == set(file.tensors).difference(unread)
    assert graph.sizes[ARCHITECTURES[arch].makes] == 4 * (64 if arch in ENCODERS else 61)


def kernels_of(folder: Path, arch: str, phase: Phase) -> list[str]:
    """Kernels of the steps of a model with heads of 64, in their order."""
    wide = Tiny.wide(arch=arch, experts=4 if "moe" in arch else 0)
    file = open_gguf(write_model(folder / "model.gguf", wide))
    return [step.problem.kernel.name for step in graph_of(file, hyper_of(file), phase).steps]


@pytest.mark.parametrize(("cache", "normed"), [("f16", 1), ("q8_0", 2)])
def test_heads_are_normalised_where_they_are_turned(
    tmp_path: Path, cache: str, normed: int
) -> None:
    layers = Tiny.of("qwen3").layers
    found = kernels_of(tmp_path, "qwen3", Phase(tokens=17, length=32, cache=cache))
    assert found.count("rms_norm_rope") == normed * layers
    assert found.count("rope") == 0
    assert found.count("rms_norm_rope_set_rows") == (2 - normed) * layers
    assert found.count("rope_set_rows") == 0
    assert found.count("rms_norm") == 1  # the first one
    others = kernels_of(tmp_path, "qwen2", Phase(tokens=17, length=32, cache=cache))
    assert "rms_norm_rope" not in others


def test_few_tokens_share_experts_where_they_multiply(tmp_path: Path) -> None:
    few, many = (
        kernels_of(tmp_path, "qwen3moe", Phase(tokens=tokens, length=32)) for tokens in (2, 17)
    )
    assert "mul" not in few
    assert many.count("mul") == Tiny.of("qwen3moe").layers


def test_layers_of_windows_turn_by_their_own_base(tmp_path: Path) -> None:
    """Five of six layers, of a prompt and of a token whose cosines are made once for each base."""
    path = write_model(tmp_path / "model.gguf", Tiny.of("gemma3"), {"rope.freq_base": 1e6})
    file = open_gguf(path)
    prompt = graph_of(file, hyper_of(file), Phase(tokens=17, length=32))
    for label in ("rope_q", "cache_k"):
        turned = [step for step in prompt.steps if step.label == label]
        assert [step.problem.params["freq_base"] for step in turned] == [*[1e4] * 5, 1e6]
    token = graph_of(file, hyper_of(file), Phase(tokens=1, length=32, products=JOINED))
    bound = [step.bound["turns"] for step in token.steps if "turns" in step.bound]
    assert len(set(bound[:5])) == 1
    assert bound[5] != bound[0]
