"""Models of seeded weights: other readers take them, and their logits are sane."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGUFReader
from numpy.typing import NDArray

from vkbench.errors import UsageError
from vkbench_shaders.formats import format_named
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.kernels.recurrent.recurrence import KEYS
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.making import weights
from vkbench_shaders.models.making.making import ModelPlan, make
from vkbench_shaders.models.making.mixtures import format_of, mixture_named
from vkbench_shaders.models.making.shape import STATE_SIZES, resize_shape
from vkbench_shaders.models.making.shapes import ARCHITECTURES, SHAPES, shape_named
from vkbench_shaders.models.making.tensors import TensorPlan, plan_tensors
from vkbench_shaders.models.reference import Reference
from vkbench_shaders.quantisers.quants import dequantise

# bytes of files that others made of the real models, which hold a vocabulary besides
REAL = {
    ("llama-3-8b", "q4_K_M"): 4.92e9,
    ("llama-3-8b", "q8_0"): 8.54e9,
    ("llama-3.2-1b", "q4_K_M"): 0.808e9,
    ("llama-2-7b", "q3_K_S"): 2.95e9,
    ("llama-2-7b", "q3_K_M"): 3.30e9,
    ("llama-2-7b", "q3_K_L"): 3.60e9,
    ("llama-2-7b", "q4_0"): 3.83e9,
    ("llama-2-7b", "q4_K_S"): 3.86e9,
    ("llama-2-7b", "q4_K_M"): 4.08e9,
    ("llama-2-7b", "q5_K_S"): 4.65e9,
    ("llama-2-7b", "q5_K_M"): 4.78e9,
    ("llama-2-7b", "q6_K"): 5.53e9,
    ("phi3-mini", "q4_K_M"): 2.39e9,
    ("gemma2-2b", "q4_K_M"): 1.71e9,
    ("phi2", "q4_K_M"): 1.79e9,
    ("phi4", "q4_K_M"): 9.05e9,
    ("gemma3-4b", "q4_K_M"): 2.49e9,
    ("gpt-oss-20b", "mxfp4_moe"): 12.11e9,
    ("deepseek-v2-lite", "q4_K_M"): 10.36e9,
    ("qwen3.5-4b", "q8_0"): 4.5e9,
    ("qwen3.5-9b", "q8_0"): 9.5e9,
    ("qwen3.5-35b-a3b", "q8_0"): 36.9e9,
}


def plan(name: str, kind: str = "q4_K_M", way: str = "normal", seed: int = 0) -> ModelPlan:
    mixture = mixture_named(kind, pure=kind not in ("q4_K_M", "f16"))
    return ModelPlan(name=name, shape=SHAPES[name], mixture=mixture, weights=way, seed=seed)


def made(plan: ModelPlan) -> bytes:
    file = BytesIO()
    make(plan, file, lambda written: None)
    return file.getvalue()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_other_readers_take_the_file_and_logits_are_sane(arch: str, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    tiny = plan(f"tiny-{arch}")
    path.write_bytes(made(tiny))
    assert path.stat().st_size == tiny.size
    reader = GGUFReader(path)
    name = reader.fields["general.architecture"].contents()
    number = next(key for key, text in gguf.MODEL_ARCH_NAMES.items() if text == name)
    known = [gguf.TENSOR_NAMES[tensor] for tensor in gguf.MODEL_TENSORS[number]]
    stems = {tensor.name.removesuffix(".weight").removesuffix(".bias") for tensor in reader.tensors}
    assert stems <= {each.format(bid=layer) for each in known for layer in range(6)}
    assert reader.fields["tokenizer.ggml.model"].contents() == "no_vocab"
    file = open_gguf(path)
    tokens = np.random.default_rng(0).integers(0, 512, 24)
    reference = Reference(file=file, hyper=hyper_of(file))
    if reference.hyper.architecture.encodes:
        check_embeddings(reference, tokens)
        return
    logits = reference.logits(tokens)
    assert 2 < logits.std() < 4
    chosen = logits.argmax(axis=1)
    assert len(set(chosen)) > 12  # it says different things
    assert (chosen == tokens).sum() < 4  # and not what it has just read


def check_embeddings(reference: Reference, tokens: NDArray[np.integer]) -> None:
    """Those of other sequences point elsewhere, and each follows from the order of tokens too."""
    found = [reference.embedding(each) for each in (tokens, tokens[::-1], (tokens + 1) % 512)]
    angles = np.asarray(np.corrcoef(found))
    assert 0.5 < np.std(found) < 1.5
    assert abs(angles[0, 2]) < 0.8
    assert angles[0, 1] < 0.99


@pytest.mark.parametrize(("name", "kind"), REAL)
def test_a_file_is_as_large_as_that_of_the_real_model(name: str, kind: str) -> None:
    sized = ModelPlan(
        name=name, shape=SHAPES[name], mixture=mixture_named(kind), weights="blocks", seed=0
    )
    words = 50 * SHAPES[name].vocabulary
    assert sized.size + words == pytest.approx(REAL[name, kind], rel=0.008)


def test_a_mixture_gives_better_formats_to_what_matters() -> None:
    shape = SHAPES["llama-3-8b"]
    mixture = mixture_named("Q4_k_m")
    found = {t.name: format_of(t, mixture, shape) for t in plan_tensors(shape)}
    assert found["output.weight"] == "q6_K"
    assert found["token_embd.weight"] == "q4_K"
    assert found["blk.0.attn_norm.weight"] == "f32"
    down = [found[f"blk.{layer}.ffn_down.weight"] == "q6_K" for layer in range(32)]
    assert [layer for layer in range(32) if down[layer]] == [
        *(0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31)
    ]
    short = resize_shape(SHAPES["qwen2-0.5b"], {})
    assert format_of(matrix((4, 896)), mixture, short) == "q5_0"  # no blocks of 256
    assert format_of(matrix((4, 100)), mixture, short) == "f16"
    assert format_of(matrix((8, 4, 256)), mixture_named("mxfp4_moe"), short) == "mxfp4"
    assert format_of(matrix((4, 256)), mixture_named("q2_0", pure=True), short) == "q2_0"


def matrix(shape: tuple[int, ...], deviation: float = 0.02) -> TensorPlan:
    return TensorPlan(name="blk.0.ffn_up.weight", shape=shape, deviation=deviation)


@pytest.mark.parametrize("way", weights.WAYS)
@pytest.mark.parametrize("name", ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_K", "q6_K", "iq4_xs"])
def test_weights_scatter_as_planned_in_every_format(name: str, way: str) -> None:
    tensor = matrix((1031, 512))
    fmt = format_named(name)
    parts = np.concatenate(list(weights.WAYS[way](tensor, fmt, 7)))
    assert parts.size == tensor.count // fmt.elements * fmt.bytes
    found = dequantise(name, parts.view(fmt.dtype).reshape(1031, -1))
    assert found.std() == pytest.approx(0.02, rel=0.03)
    assert abs(found.mean()) < 0.0005
    assert len(np.unique(found[:, 256:].round(4), axis=0)) > 600  # few rows are alike


@pytest.mark.parametrize("way", weights.WAYS)
def test_a_seed_makes_one_file(way: str) -> None:
    one = made(plan("tiny-qwen2", way=way))
    assert made(plan("tiny-qwen2", way=way)) == one
    assert made(plan("tiny-qwen2", way=way, seed=1)) != one


@pytest.mark.parametrize("way", weights.WAYS)
def test_no_tensor_is_ever_held_whole(way: str) -> None:
    tensor = matrix((70_000, 4096))
    parts = weights.WAYS[way](tensor, format_named("q8_0"), 0)
    sizes = [next(parts).nbytes for _ in range(2)]
    assert max(sizes) <= 1 << 25 < tensor.count


NARROW = {"width": 240, "heads": 80, "head_size": 6}
TWO = {"heads": 2, "kv_heads": 2, "head_size": 768}
SMALL = {"heads": 256, "kv_heads": 256, "head_size": 8}


@pytest.mark.parametrize(
    ("arch", "like", "sizes", "hint"),
    [
        ("", "", {}, "give --arch"),
        ("lama", "", {}, "unknown architecture 'lama'; did you mean 'llama'"),
        ("", "lama-3-8b", {}, "unknown model 'lama-3-8b'; did you mean 'llama-3-8b'"),
        ("gpt2", "llama-3-8b", {}, "llama-3-8b has the architecture llama, not gpt2"),
        ("llama", "", {"depth": 3}, "unknown size 'depth'"),
        ("llama", "", {"width": 0}, "width is 0: it has to be 1 or more"),
        ("llama", "", {"heads": 7}, "7 heads are no multiple of 8 kv_heads"),
        ("llama", "", {"head_size": 63}, "head_size is 63: it has to be even"),
        ("llama", "", {"experts": 4, "used": 2}, "llama has no experts"),
        ("mixtral", "", {"used": 9}, "a token cannot use 9 of 8 experts"),
        ("gpt2", "", {"width": 512}, "heads * head_size is 768 and not width"),
        ("", "mamba-130m", TWO, "mamba has 1 for heads and 1 for kv_heads"),
        ("mamba2", "", NARROW, "6: it has to be a multiple of 4"),
        ("rwkv7", "", SMALL, "head_size is 8; rwkv7 has one of 16, 32, 64, 128, 256"),
        ("qwen35", "", {"layers": 3}, "layers is 3: qwen35 needs 4 or more"),
        ("qwen35", "", {"head_size": 60}, "head_size is 60: it has to be a multiple of 8"),
        ("rwkv6", "", {"kv_heads": 8}, "rwkv6 has as many kv_heads as heads"),
    ],
)
def test_wrong_words_are_told(arch: str, like: str, sizes: dict[str, int], hint: str) -> None:
    with pytest.raises(UsageError) as error:
        resize_shape(shape_named(arch, like)[1], sizes)
    assert hint in str(error.value)
    assert "\n" not in str(error.value)


def test_heads_of_states_have_sizes_that_kernels_have() -> None:
    assert STATE_SIZES == KEYS


def test_the_first_model_of_an_architecture_is_meant_by_it() -> None:
    assert shape_named("llama", "")[0] == "llama-3.2-1b"
    assert shape_named("GPT2", "")[0] == "gpt2-124m"
