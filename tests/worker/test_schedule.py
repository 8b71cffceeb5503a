"""Launches of whole models in levels: each reads what it would read one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import product

import pytest

from vkbench.device import DeviceFacts
from vkbench_shaders.bundle import packaged
from vkbench_shaders.models.cases import VARIANTS
from vkbench_shaders.models.graph import Graph, phase_at
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.making.seeded import SEEDED
from vkbench_shaders.models.wiring import graph_of
from vkbench_worker.models.levels import Use, use_of
from vkbench_worker.models.schedule import Pass, Schedule, schedule

GPU = DeviceFacts(
    key="0" * 12, host="h", index=0, name="NVIDIA H200", uuid="00", vendor_id=0x10DE, device_id=0,
    type="discrete", memory_bytes=1 << 40, subgroup_size=32,
    features=(
        *("coopmat", "fp16", "int8", "int16", "f16_io", "int_dot", "device_scope"),
        *("subgroup_basic", "subgroup_arithmetic", "subgroup_shuffle"),
        *("matrix_f16_f32", "matrix_f16_f16"),
    ),
    limits={
        "max_storage_range": 1 << 40, "max_shared_bytes": 49152, "max_push_bytes": 256,
        "max_workgroup_invocations": 1024, "max_workgroup_size_x": 1024,
        "max_groups_x": 1 << 31, "max_groups_y": 65535, "max_groups_z": 65535,
    },
)  # fmt: skip
LLAMA, MIXTURE = "llama-3.2-1b-q4_K_M", "mixtral-8x7b"
MODELS = ("tiny-llama-q4_K_M", "gpt2-124m-q4_K_M", LLAMA, MIXTURE, "qwen3-8b-q4_K_M")

PHASES = tuple(product(MODELS, (1, 7, 128)))

Schedules = Callable[..., Schedule]


@contextmanager
def graph(stem: str, tokens: int, products: str = "joined") -> Iterator[Graph]:
    """A model's phase, without its weights."""
    with next(each for each in SEEDED if each.stem.startswith(stem)).write_outline() as file:
        phase = phase_at(
            *(tokens, 512), batch=1, context=512, cache="f16", products=VARIANTS[products]
        )
        yield graph_of(file, hyper_of(file), phase)


@pytest.fixture(scope="module")
def scheduled() -> Schedules:
    """The schedule of a model's phase on a GPU."""
    known: dict[tuple[str, int, str], Schedule] = {}

    def of(stem: str, tokens: int = 128, products: str = "joined") -> Schedule:
        if (stem, tokens, products) not in known:
            with graph(stem, tokens, products) as asked:
                known[stem, tokens, products] = schedule(asked, packaged(), GPU, checked=False)
        return known[stem, tokens, products]

    return of


def use(each: Pass) -> Use:
    own = [name for name in each.values if ".scratch." in name or ".counters" in name]
    return use_of(each.program, each.values, {*each.step.writes, *own})


def passes(found: Schedule) -> list[Pass]:
    return [each for level in found.levels for each in level]


def one_by_one(found: Schedule) -> list[Pass]:
    """In the order of the graph; launches of a step stay in theirs."""
    number = {id(step): at for at, step in enumerate(found.graph.steps)}
    return sorted(passes(found), key=lambda each: number[id(each.step)])


class Memory:
    """What places hold: which value it is, and a number for all that it was made of."""

    def __init__(self, places: Callable[[str], Hashable]) -> None:
        self._place = places
        self._held: dict[Hashable, tuple[str, int]] = {}

    def run(self, level: Sequence[Pass]) -> None:
        """Launches beside each other: all of them read before one writes."""
        made = {id(each): self._made(each) for each in level}
        for each in level:
            for name in use(each).written:
                self._held[self._place(name)] = (
                    name,
                    hash((made[id(each)], each.values.index(name))),
                )

    def content(self, name: str) -> int:
        """What was made there as this value; 0 if it holds another one, or nothing."""
        holds, content = self._held.get(self._place(name), ("", 0))
        return content if holds == name else 0

    def _made(self, each: Pass) -> int:
        touched = use(each).touched
        contents = [(at, self.content(n)) for at, n in enumerate(each.values) if n in touched]
        return hash((each.program.key, each.launch, tuple(contents)))


@pytest.mark.parametrize(("stem", "tokens"), PHASES)
def test_each_launch_reads_what_the_order_of_the_graph_gives_it(
    scheduled: Schedules, monkeypatch: pytest.MonkeyPatch, stem: str, tokens: int
) -> None:
    """Nothing that is left at the end tells what shares memory, runs ahead, or is not repeated."""
    found, plain = scheduled(stem, tokens), by_step(monkeypatch, stem, tokens)
    places, _ = found.slots()
    alone, shared = Memory(lambda name: name), Memory(lambda name: places.get(name, name))
    for each in one_by_one(plain):
        alone.run([each])
    for level in found.levels:
        shared.run(level)
    for name in {*found.graph.kept, *found.graph.caches}:
        assert shared.content(name) == alone.content(name) != 0


@pytest.mark.parametrize(("stem", "tokens"), PHASES)
def test_launches_of_a_level_write_nothing_that_others_of_it_touch(
    scheduled: Schedules, stem: str, tokens: int
) -> None:
    found = scheduled(stem, tokens)
    places, _ = found.slots()
    for level in found.levels:
        writers: dict[Hashable, set[int]] = defaultdict(set)
        users: dict[Hashable, set[int]] = defaultdict(set)
        for at, each in enumerate(level):
            for name in use(each).touched:
                users[places.get(name, name)].add(at)
            for name in use(each).written:
                writers[places.get(name, name)].add(at)
        assert all(len(users[place]) == 1 for place in writers)


@pytest.mark.parametrize(("stem", "tokens"), PHASES)
def test_each_step_has_counters_of_its_own(scheduled: Schedules, stem: str, tokens: int) -> None:
    """Which are no scratch: this may hold anything before a run."""
    found = scheduled(stem, tokens)
    users: dict[str, set[int]] = defaultdict(set)
    for each in passes(found):
        for name in each.values:
            if name in found.counters:
                users[name].add(id(each.step))
    assert users.keys() == found.counters.keys()
    assert all(len(steps) == 1 for steps in users.values())
    assert not found.counters.keys() & found.sizes.keys()
    assert all(found.counters.values())


@pytest.mark.parametrize("stem", MODELS)
def test_no_level_is_empty(scheduled: Schedules, stem: str) -> None:
    assert all(scheduled(stem).levels)


@pytest.mark.parametrize("stem", [LLAMA, MIXTURE])
def test_weights_are_decoded_behind_the_product_before_theirs(
    scheduled: Schedules, stem: str
) -> None:
    found = scheduled(stem, 512)
    labels = set()
    for level in found.levels:
        early = [each for each in level if each.is_ahead]
        own = level[: len(level) - len(early)]
        assert own
        assert list(level) == [*own, *early]
        assert not {id(each.step) for each in own} & {id(each.step) for each in early}
        labels |= {each.step.label for each in early}
    assert labels >= {"attn_q", "attn_k", "attn_v", "attn_output"}


@pytest.mark.parametrize("stem", [LLAMA, MIXTURE, "qwen3-8b-q4_K_M"])
def test_memory_for_one_product_ahead_and_no_more_is_held(
    scheduled: Schedules, monkeypatch: pytest.MonkeyPatch, stem: str
) -> None:
    """Products beside each other count as one."""
    found, before = scheduled(stem, 512), by_step(monkeypatch, stem, 512)
    decoded = [
        sum(found.sizes[name] for each in level if each.is_ahead for name in use(each).written)
        for level in found.levels
    ]
    most, usual = (sum(each.slots()[1]) for each in (found, before))
    assert most <= usual + 1.05 * max(decoded)
    assert len(found.levels) < len(before.levels)


def test_single_tokens_run_as_before(scheduled: Schedules, monkeypatch: pytest.MonkeyPatch) -> None:
    found, before = scheduled(LLAMA, 1), by_step(monkeypatch, LLAMA, 1)
    assert not any(each.is_ahead for each in passes(found))
    assert len(found.levels) == len(before.levels)


def by_step(monkeypatch: pytest.MonkeyPatch, stem: str, tokens: int) -> Schedule:
    """The schedule where no code tells what it touches: launches of a step follow each other."""
    with monkeypatch.context() as patch, graph(stem, tokens) as asked:
        patch.setattr("vkbench_worker.models.levels.accesses", lambda code: None)
        return schedule(asked, packaged(), GPU, checked=False)


def test_what_several_products_multiply_is_packed_once(
    scheduled: Schedules, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By queries, keys and values of a layer."""
    found, before = (
        [
            each
            for each in passes(of)
            if each.step.layer == 1 and each.step.label in ("attn_q", "attn_k", "attn_v")
        ]
        for of in (scheduled(LLAMA, 512), by_step(monkeypatch, LLAMA, 512))
    )
    assert len(found) == len(before) - 2
    uses = [use(each) for each in found]
    written = [name for each in uses for name in each.written]
    assert [sum(name in each.read for each in uses) for name in written].count(3) == 1


# Launches of a layer behind the first one, and levels, by whether it has attention.
TOKENS = {
    "qwen3.5-4b": {True: (7, 5), False: (7, 5)},
    "qwen3-8b": {True: (7, 5)},
    "llama-3-8b-q4_K_M": {True: (7, 5)},
    "qwen3.5-35b": {True: (20, 11), False: (20, 11)},
    "qwen3-next": {True: (20, 11), False: (20, 11)},
    "mixtral": {True: (14, 11)},
    "gpt-oss": {True: (23, 16)},
    "mamba-2.8b": {False: (7, 6)},
    "mamba2-2.7b": {False: (3, 3)},
}


@pytest.mark.parametrize("stem", TOKENS)
def test_a_token_takes_no_more_launches_and_levels(scheduled: Schedules, stem: str) -> None:
    """Products of a vector run beside each other, and nothing between them that they could make."""
    found = scheduled(stem, 1)
    layers: dict[int, list[tuple[int, Pass]]] = defaultdict(list)
    for number, level in enumerate(found.levels):
        for each in level:
            layers[each.step.layer].append((number, each))
    assert len(layers.pop(-1)) <= 4  # outside of layers
    del layers[0]  # whose norm has no product before it
    for layer, launches in layers.items():
        attends = any(each.step.label == "attention" for _, each in launches)
        count, levels = len(launches), len({number for number, _ in launches})
        assert (count, levels) == TOKENS[stem][attends], layer


def test_a_group_is_normalised_by_a_launch_more_where_stores_have_no_order() -> None:
    """A device without device_scope does not wait for the last of a group's workgroups."""
    features = tuple(name for name in GPU.features if name != "device_scope")
    with graph("mamba2-2.7b", 1) as asked:
        found = schedule(asked, packaged(), replace(GPU, features=features), checked=False)
    launches = [each for each in passes(found) if each.step.layer == 1]
    assert [each.step.label for each in launches].count("ssm_scan") == 2
    assert len(launches) == 4
