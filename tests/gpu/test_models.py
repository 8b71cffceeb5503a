"""Whole models on CPU drivers: logits against the float64 reference of the same weights."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from planted_model import ENCODERS, VOCABULARY, Keys, Tiny, write_model
from recorded_logits import MODELS
from vkbench.errors import UsageError
from vkbench_shaders import formats
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.models.architectures import ARCHITECTURES
from vkbench_shaders.models.cases import VARIANTS
from vkbench_shaders.models.graph import CACHES, Products
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.reference import Reference
from vkbench_worker.models.model import Model, Options
from vkbench_worker.runtime.vulkan.device import VulkanDevice

PROMPT = np.arange(13) * 5 % VOCABULARY
STEPS = 16
PREDICTING = [name for name in ARCHITECTURES if name not in ENCODERS]
MIXED = ",".join((*formats.WEIGHTS, *formats.PLAIN))
PLAIN, JOINED = Products(), Products(rounds_from=0, joins=True)


def turns(arch: str) -> bool:
    """Whether an architecture turns queries and keys, and leaves nothing else."""
    return bool(ARCHITECTURES[arch].rope) and not ARCHITECTURES[arch].recurrence


def nmse(found: NDArray[np.floating], wanted: NDArray[np.floating]) -> float:
    return float(((found - wanted) ** 2).sum() / (wanted**2).sum())


def opened(
    device: VulkanDevice,
    bundle: Bundle,
    path: Path,
    tiny: Tiny,
    options: Options,
    keys: Keys | None = None,
) -> tuple[Model, Reference]:
    file = open_gguf(write_model(path / "model.gguf", tiny, keys))
    hyper = hyper_of(file)
    reference = Reference(file=file, hyper=hyper, cache_format=options.cache)
    return Model(device, bundle, file, hyper, options), reference


def generate(
    model: Model,
    tokens: np.ndarray,
    count: int,
    start: int,
) -> tuple[list[int], np.ndarray]:
    """The likeliest tokens after a prompt, one after the other, and the logits of each."""
    rows = [model.logits(tokens, start)[-1]]
    chosen = [int(rows[0].argmax())]
    for at in range(start + len(tokens), start + len(tokens) + count - 1):
        rows.append(model.logits(np.array(chosen[-1:]), at)[-1])
        chosen.append(int(rows[-1].argmax()))
    return chosen, np.array(rows)


def check(
    device: VulkanDevice,
    bundle: Bundle,
    path: Path,
    tiny: Tiny,
    options: Options,
    limit: float,
    keys: Keys | None = None,
) -> None:
    """A prompt, then the likeliest tokens one by one: the reference reads the device's tokens."""
    model, reference = opened(device, bundle, path, tiny, options, keys)
    with model:
        assert nmse(model.logits(PROMPT), reference.logits(PROMPT)) < limit
        chosen, rows = generate(model, np.array([7]), STEPS, len(PROMPT))
    wanted = reference.logits(np.array([7, *chosen[:-1]]))
    assert nmse(rows, wanted) < limit
    ahead = np.sort(wanted, axis=-1)[:, -1] - np.sort(wanted, axis=-1)[:, -2]
    clear = ahead > 4 * np.sqrt(limit) * wanted.std()
    assert (np.array(chosen) == wanted.argmax(axis=-1))[clear].all()
    assert clear.any()


@pytest.mark.parametrize("arch", PREDICTING)
def test_every_architecture_is_right(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, arch: str
) -> None:
    check(lavapipe, bundle, tmp_path, Tiny.of(arch), Options(context=64), 1e-8)


def test_small_subgroups_are_right(
    swiftshader: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    check(swiftshader, bundle, tmp_path, Tiny(), Options(context=32), 1e-8)


def test_every_format_is_right(lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path) -> None:
    """Each matrix in another one: embedding, output and 28 between them."""
    tiny = Tiny.wide(fmt=MIXED, layers=4)
    check(lavapipe, bundle, tmp_path, tiny, Options(context=32), 1e-6)


@pytest.mark.parametrize("fmt", ["f16,q4_0", "f16,f16,bf16,q8_0,f32", MIXED])
def test_products_of_two_forms_are_right_together(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, fmt: str
) -> None:
    tiny = Tiny.wide(fmt=fmt, layers=4)
    check(lavapipe, bundle, tmp_path, tiny, Options(context=32, products=JOINED), 1e-3)


@pytest.mark.parametrize("arch", ["llama", "qwen35"])
@pytest.mark.parametrize("fmt", CACHES)
def test_every_cache_is_right(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, fmt: str, arch: str
) -> None:
    """A number next to the middle may be rounded the other way: by more where bits are few."""
    limit = {"f16": 1e-9, "bf16": 1e-7, "q8_0": 1e-5, "q4_0": 1e-2}[fmt]
    tiny = Tiny.wide(arch=arch)
    check(lavapipe, bundle, tmp_path, tiny, Options(context=32, cache=fmt), limit)


def test_vectors_may_be_rounded_to_bytes(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    options = Options(context=32, products=Products(rounds_from=0))
    check(lavapipe, bundle, tmp_path, Tiny.wide(fmt="q4_0"), options, 1e-3)


@pytest.mark.parametrize("arch", ["qwen3moe", "gpt-oss", "deepseek2"])
@pytest.mark.parametrize(("experts", "limit"), [(2, 1e-3), (4, 1e-6)])
def test_quantised_experts_are_right(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, arch: str, experts: int, limit: float
) -> None:
    """Of two, both used, vectors are rounded too; of four that would sometimes choose others."""
    tiny = Tiny.wide(arch=arch, fmt="q4_0", experts=experts)
    products = JOINED if experts == 2 else Products()
    check(lavapipe, bundle, tmp_path, tiny, Options(context=32, products=products), limit)


@pytest.mark.parametrize("arch", ["qwen3moe", "gpt-oss", "deepseek2"])
def test_experts_whose_matrices_stay_apart_are_right(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    tmp_path: Path,
    arch: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vkbench_shaders.models.layer_parts.MOST_JOINED", 0)
    tiny = Tiny.wide(arch=arch, fmt="q4_0", experts=4)
    check(lavapipe, bundle, tmp_path, tiny, Options(context=32), 1e-6)


def test_experts_are_chosen_by_groups(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    posed = MODELS["deepseek2 groups"]
    check(lavapipe, bundle, tmp_path, posed.tiny, Options(context=32), 1e-9, posed.keys)


@pytest.mark.parametrize("arch", ["llama", "qwen2", "qwen3", "phi3", "gemma2", "gemma3"])
def test_products_do_what_is_beside_them(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, arch: str
) -> None:
    """Norms and gated units, as far as an architecture has them where a product can make them."""
    options = Options(context=32, products=JOINED)
    check(lavapipe, bundle, tmp_path, Tiny.wide(arch=arch, fmt="q4_0"), options, 1e-3)


@pytest.mark.parametrize(("arch", "fmt"), list(zip(PREDICTING, cycle(formats.PLAIN), strict=False)))
def test_dense_products_do_what_is_beside_them(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, arch: str, fmt: str
) -> None:
    """The same without rounding, for rows that are no whole blocks; each in a format of three.

    Drivers with cooperative matrices round factors of the prompt, whose steps are not joined.
    """
    tiny = Tiny.of(arch, fmt=fmt)
    check(lavapipe, bundle, tmp_path, tiny, Options(context=32, products=JOINED), 1e-7)


@pytest.mark.parametrize("arch", ["llama", "qwen35", "mamba", "mamba2"])
def test_joined_products_of_small_subgroups_are_right(
    swiftshader: VulkanDevice, bundle: Bundle, tmp_path: Path, arch: str
) -> None:
    options = Options(context=32, products=JOINED)
    check(swiftshader, bundle, tmp_path, Tiny.of(arch, fmt="f16"), options, 1e-8)


@pytest.mark.parametrize("fmt", ["q4_0", "f16"])
def test_joined_steps_need_five_levels_a_layer(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, fmt: str
) -> None:
    found = {}
    for joins in (False, True):
        for layers in (1, 3):
            products = Products(rounds_from=0, joins=joins)
            tiny = Tiny.wide(fmt=fmt, layers=layers)
            options = Options(context=32, products=products)
            with opened(lavapipe, bundle, tmp_path, tiny, options)[0] as model:
                found[joins, layers] = len(model.prepare_reading(1, 2).schedule.levels)
    assert {joins: (found[joins, 3] - found[joins, 1]) / 2 for joins in (False, True)} == {
        False: 9,
        True: 5,
    }


def test_a_cache_serves_prompt_after_prompt(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    """Appended to, begun anew, and gone back to: always the logits of a fresh model."""
    model, reference = opened(lavapipe, bundle, tmp_path, Tiny(), Options(context=64))
    other = np.arange(20) * 11 % VOCABULARY
    with model:
        first = model.logits(PROMPT)
        model.logits(other)
        generate(model, np.array([3]), 4, len(other))
        again = model.logits(PROMPT)
        parts = [model.logits(PROMPT[:5]), model.logits(PROMPT[5:], 5)]
    np.testing.assert_array_equal(again, first)
    assert nmse(np.concatenate(parts), reference.logits(PROMPT)) < 1e-8


@pytest.mark.parametrize(
    ("arch", "cache"),
    [*zip(filter(turns, PREDICTING), cycle(CACHES), strict=False)],
)
def test_a_shifted_cache_goes_on(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, arch: str, cache: str
) -> None:
    """Five positions are dropped, as of the reference's cache; twice, for a recording to serve."""
    tiny = Tiny.wide(arch=arch)
    model, reference = opened(lavapipe, bundle, tmp_path, tiny, Options(context=32, cache=cache))
    limit = {"f16": 1e-7, "bf16": 1e-5, "q8_0": 1e-4, "q4_0": 2e-2}[cache]
    with model:
        model.logits(PROMPT)
        reference.logits(PROMPT)
        for _ in range(2):
            model.shift(5, len(PROMPT))
            reference.shift(5)
            at = len(PROMPT) - 5
            assert nmse(model.logits(PROMPT[:5], at), reference.logits(PROMPT[:5])) < limit


def test_a_shifted_cache_of_one_layer_is_a_fresh_one(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    """What one layer keeps of a token depends on no other; so logits are as if none had been."""
    tiny = Tiny(layers=1)
    model, reference = opened(lavapipe, bundle, tmp_path, tiny, Options(context=32, batch=2))
    tokens = np.stack([PROMPT, PROMPT[::-1]])
    count = len(PROMPT) - 4
    with model:
        model.prepare_reading(len(PROMPT), len(PROMPT)).run(tokens, 0)
        model.shift(4, len(PROMPT))
        found = model.prepare_reading(1, count + 1).run(np.array([[1], [2]]), count).reshape(2, -1)
    for row, sequence in enumerate(tokens):
        reference.caches.clear()
        reference.logits(sequence[4:])
        assert nmse(found[row], reference.logits(np.array([row + 1]))[0]) < 1e-6


@pytest.mark.parametrize("arch", ["mamba2", "qwen35"])
def test_states_are_of_the_tokens_before(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, arch: str
) -> None:
    """They are begun anew at the first token, kept where a run is repeated, and no others are."""
    model, reference = opened(lavapipe, bundle, tmp_path, Tiny.of(arch), Options(context=64))
    with model:
        first = model.logits(PROMPT)
        model.logits(PROMPT[::-1])
        model.logits(PROMPT[:5])
        once, again = (model.logits(PROMPT[5:], 5) for _ in range(2))
        with pytest.raises(UsageError, match="no states are behind 7 tokens, only behind 5 and 13"):
            model.logits(PROMPT[:1], 7)
        with pytest.raises(UsageError, match="keep one state of all tokens, so no token can"):
            model.shift(2, 9)
    np.testing.assert_array_equal(once, again)
    assert nmse(np.concatenate([first[:5], once]), reference.logits(PROMPT)) < 1e-8


@pytest.mark.parametrize(
    ("arch", "variant", "limit"),
    [
        ("mamba", "joined", 1e-3),
        ("mamba2", "joined", 1e-3),
        ("rwkv6", "joined", 1e-6),
        ("rwkv7", "joined", 1e-6),
        ("mamba", "via_q8_1", 1e-2),
        ("qwen35", "plain", 1e-6),
        ("qwen3next", "plain", 1e-6),
        ("qwen35", "joined", 1e-2),
        ("qwen35", "via_q8_1", 1e-2),
    ],
)
def test_quantised_weights_beside_states_are_right(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    tmp_path: Path,
    arch: str,
    variant: str,
    limit: float,
) -> None:
    """Matrices of q4_0; vectors that those read may be rounded to bytes, states stay f32."""
    options = Options(context=32, products=VARIANTS[variant])
    check(lavapipe, bundle, tmp_path, Tiny.wide(arch=arch, fmt="q4_0"), options, limit)


def test_learnt_positions_cannot_be_shifted(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    tiny = Tiny(arch="gpt2", groups=4)
    model, _ = opened(lavapipe, bundle, tmp_path, tiny, Options(context=32))
    with model, pytest.raises(UsageError, match="positions are learnt"):
        model.shift(2, 9)


@pytest.mark.parametrize(
    ("arch", "batch", "products"),
    [
        *(
            ("llama", 3, PLAIN),
            ("llama", 32, PLAIN),
            ("gpt-oss", 8, PLAIN),
            ("deepseek2", 8, PLAIN),
        ),
        *(("mamba2", 8, PLAIN), ("rwkv7", 3, PLAIN), ("qwen35", 3, PLAIN), ("qwen35", 8, PLAIN)),
        *(("qwen35moe", 8, PLAIN), ("qwen3next", 8, PLAIN)),
        *(("qwen3", 3, JOINED), ("qwen35", 3, JOINED), ("qwen35", 9, JOINED)),
        *(("qwen3next", 8, JOINED), ("mamba", 3, JOINED), ("mamba2", 9, JOINED)),
    ],
)
def test_sequences_of_a_batch_see_only_themselves(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    tmp_path: Path,
    arch: str,
    batch: int,
    products: Products,
) -> None:
    """Each is right, and has the same bits beside other neighbours."""
    count, ids = len(PROMPT), np.arange(batch)
    tokens = (PROMPT + 7 * ids[:, None] + ids[:, None] * PROMPT) % VOCABULARY
    options = Options(context=32, batch=batch, products=products)
    model, reference = opened(lavapipe, bundle, tmp_path, Tiny.of(arch), options)
    found, steps = [], []
    with model:
        for shift in (0, 5):
            given = (tokens + shift * (ids[:, None] % 2)) % VOCABULARY
            run = model.prepare_reading(count, count)
            found.append(run.run(given, 0).reshape(batch, count, -1).copy())
            step = model.prepare_reading(1, count + 1)
            words = (given[:, :1] + 1) % VOCABULARY
            steps.append(step.run(words, count).reshape(batch, -1).copy())
    for made in (found, steps):
        np.testing.assert_array_equal(made[0][::2], made[1][::2])
        assert (made[0][1] != made[1][1]).any()
    for row in {0, 1, batch - 1}:
        reference.caches.clear()
        reference.memory.states.clear()
        assert nmse(found[0][row], reference.logits(tokens[row])) < 1e-8
        words = (tokens[row, :1] + 1) % VOCABULARY
        assert nmse(steps[0][row], reference.logits(words)[0]) < 1e-8


def test_a_model_of_more_pipelines_than_are_kept(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its recordings go on although others are made; afterwards no more than usual are kept."""
    monkeypatch.setattr("vkbench_worker.runtime.vulkan.pipelines.MOST", 6)
    model, reference = opened(lavapipe, bundle, tmp_path, Tiny(), Options(context=64))
    with model:
        first = model.logits(PROMPT)
        model.logits(PROMPT[:1], 40)
        assert lavapipe.live["Pipeline"] > 12
        np.testing.assert_array_equal(model.logits(PROMPT), first)
    assert nmse(first, reference.logits(PROMPT)) < 1e-8
    assert len(lavapipe._pipelines) == 6


def test_a_model_leaves_nothing_behind(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    before = {name: lavapipe.live[name] for name in ("buffer", "CommandBuffer", "DescriptorPool")}
    model, _ = opened(lavapipe, bundle, tmp_path, Tiny(), Options(context=32))
    with model:
        model.logits(PROMPT)
        model.logits(PROMPT[:1], 4)
        lengths = [len(p.schedule.levels) for p in model._phases.values()]
        shared = [p.scratch_bytes / sum(p.schedule.sizes.values()) for p in model._phases.values()]
    assert {name: lavapipe.live[name] for name in before} == before
    assert all(length < 40 for length in lengths)
    assert max(shared) < 0.5
