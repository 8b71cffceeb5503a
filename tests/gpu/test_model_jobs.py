"""Jobs of whole models on a CPU driver: judged, timed, and refused in words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from planted_add import SLOW, packaged_but_add
from planted_model import Tiny, write_model
from vkbench.case import tokens_of
from vkbench.job import Arm, Job, Mode, Outcome, Pair, Source
from vkbench.result import STEP, Result, WrongArm
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.gguf_file import open_gguf
from vkbench_shaders.kernel import Array
from vkbench_shaders.models.cases import ModelCase, model_case, name_of
from vkbench_shaders.models.graph import POSITIONS, ROWS, Phase, Weight
from vkbench_shaders.models.hyper import hyper_of
from vkbench_shaders.models.recurrent.memory import StateSlots, Turn
from vkbench_shaders.models.shifting import shift_arrays
from vkbench_shaders.models.wiring import graph_of
from vkbench_worker.models.execute import execute_model
from vkbench_worker.models.model import Ids, Model, Prepared
from vkbench_worker.models.pairing import execute_model_pair
from vkbench_worker.models.weights import Weights
from vkbench_worker.runtime.device import Buffer
from vkbench_worker.runtime.program import Program
from vkbench_worker.runtime.vulkan.device import VulkanDevice
from vkbench_worker.runtime.vulkan.pipeline import VulkanPipeline


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_model(tmp_path / "tiny.f32.gguf", Tiny())


def job_of(path: Path, case: str, mode: Mode = Mode.CORRECTNESS, variant: str = "auto") -> Job:
    name = f"model/{name_of(open_gguf(path))}/{case}"
    source = Source(path=str(path), tensor="")
    return Job(
        id=1, token=1, case=name, mode=mode, variant=variant, source=source, measure_seconds=0.2
    )


def steps(result: Result) -> dict[str, float]:
    """Seconds by label of a result's profile."""
    assert result.outcome is Outcome.PASSED, result.reason
    return {name: value for name, value in result.telemetry.items() if name.startswith(STEP)}


def done(device: VulkanDevice, bundle: Bundle, job: Job) -> Result:
    return execute_model(device, bundle, job)


@pytest.mark.parametrize("case", ["pp33", "tg20", "tg5/batch=2,cache=q8_0", "pp17/batch=2"])
def test_a_model_is_judged_and_timed(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, case: str
) -> None:
    path = write_model(tmp_path / "tiny.gguf", Tiny.wide())
    result = done(lavapipe, bundle, job_of(path, case, Mode.PERFORMANCE))
    assert result.outcome is Outcome.PASSED, result.reason
    assert result.variant == "plain"
    assert result.verdict
    assert result.verdict.nmse is not None
    assert 0 < result.verdict.nmse < result.verdict.nmse_limit
    (hot,) = result.timings
    wanted = model_case(result.case)
    weights = sum(tensor.bytes for tensor in open_gguf(path).tensors.values())
    assert hot.metric == "hot"
    assert 0.5 < hot.bytes_moved / weights < 10
    assert result.telemetry["model_bytes"] == weights
    assert result.telemetry["model_weights"] == weights / 4
    assert weights < result.telemetry["memory_bytes"] < 3 * weights
    assert hot.flops > wanted.batch * weights / 4


@pytest.mark.parametrize(
    ("arch", "case", "work"),
    [
        ("mamba", "pp40", 2e10),
        ("mamba2", "tg9", 1),
        ("rwkv6", "pp40", 1),
        ("rwkv7", "tg20/batch=2", 2e10),
        ("qwen35", "pp40", 2e10),
        ("qwen35", "tg20/batch=2", 1),
        ("qwen35moe", "pp40", 1),
        ("qwen3next", "tg20/batch=2", 2e10),
    ],
)
def test_states_are_judged_and_timed(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    case: str,
    work: float,
) -> None:
    """In parts of 16 tokens; a run that goes on from zeros instead is wrong."""
    monkeypatch.setattr("vkbench_shaders.models.cases.PART", 16)
    monkeypatch.setattr("vkbench_worker.models.judging._WORK", work)
    path = write_model(tmp_path / "tiny.gguf", Tiny.of(arch))
    result = done(lavapipe, bundle, job_of(path, case, Mode.PERFORMANCE))
    assert result.outcome is Outcome.PASSED, result.reason
    assert len(result.timings) == 1
    monkeypatch.setattr(StateSlots, "choose_slots", lambda turns, start, end: Turn())
    wrong = done(lavapipe, bundle, job_of(path, case))
    assert wrong.outcome is Outcome.WRONG


def test_a_prompt_that_begins_from_other_states_than_zeros_is_wrong(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vkbench_worker.models.judging._WORK", 1)
    make_zeros = Model.cache

    def fill_with_ones(model: Model, name: str, size: int) -> Buffer:
        is_new, buffer = name not in model.made_caches(), make_zeros(model, name, size)
        if is_new and name.startswith("state."):
            buffer.fill(int(np.float32(1).view(np.uint32)))
        return buffer

    monkeypatch.setattr(Model, "cache", fill_with_ones)
    path = write_model(tmp_path / "tiny.gguf", Tiny.of("mamba2"))
    wrong = done(lavapipe, bundle, job_of(path, "pp9"))
    assert wrong.outcome is Outcome.WRONG
    assert wrong.reason == "the states before the first token of layer 0 are not zeros"


def test_a_model_without_a_cache_of_keys_refuses_formats_of_one(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    path = write_model(tmp_path / "tiny.gguf", Tiny.of("mamba"))
    refused = done(lavapipe, bundle, job_of(path, "pp9/cache=q4_0"))
    assert refused.outcome is Outcome.ERROR
    assert "has states and no cache of keys and values: leave --cache out" in refused.reason


@pytest.mark.parametrize(("cache", "remarks"), [(0, 0), (1 << 10, 0), (1 << 30, 1)])
def test_a_model_within_the_caches_is_remarked(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cache: int,
    remarks: int,
) -> None:
    """Its hot timing is not what a larger model's is, which finds nothing in them."""
    monkeypatch.setattr(lavapipe, "facts", replace(lavapipe.facts, llc_bytes=cache))
    result = done(lavapipe, bundle, job_of(path, "tg5", Mode.PERFORMANCE))
    warnings = [each for each in result.timings[0].warnings if each.startswith("in the caches")]
    assert len(warnings) == remarks


@pytest.mark.parametrize("case", ["pp40", "pp40/batch=2"])
def test_a_long_prompt_is_read_in_parts(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
) -> None:
    """Of 16, 16 and 8 tokens: judged and timed as a whole, and so told as phases."""
    whole = done(lavapipe, bundle, job_of(path, case, Mode.PERFORMANCE))
    monkeypatch.setattr("vkbench_shaders.models.cases.PART", 16)
    parts = done(lavapipe, bundle, job_of(path, case, Mode.PERFORMANCE))
    assert steps(parts).keys() >= steps(whole).keys()
    assert parts.verdict
    assert whole.verdict
    assert parts.verdict.compared == whole.verdict.compared
    assert 1 < parts.timings[0].bytes_moved / whole.timings[0].bytes_moved < 3
    phases = model_case(parts.case).timed_phases("plain")
    assert [phase.tokens for phase in phases] == [16, 16, 8]
    room = [32, 32, 64] if case == "pp40" else [64, 64, 64]
    assert [phase.length for phase in phases] == room
    assert {phase.capacity for phase in phases} == {64}


@pytest.mark.parametrize("work", [2e10, 1])
def test_a_part_that_reads_elsewhere_is_wrong(
    lavapipe: VulkanDevice, bundle: Bundle, path: Path, monkeypatch: pytest.MonkeyPatch, work: float
) -> None:
    """The second of three parts is placed a position too early; also if only parts are judged."""
    place = Prepared.place

    def early(self: Prepared, tokens: Ids, start: int) -> None:
        place(self, tokens, start - (start == 16))

    monkeypatch.setattr("vkbench_shaders.models.cases.PART", 16)
    monkeypatch.setattr("vkbench_worker.models.judging._WORK", work)
    assert done(lavapipe, bundle, job_of(path, "pp40")).outcome is Outcome.PASSED
    monkeypatch.setattr(Prepared, "place", early)
    assert done(lavapipe, bundle, job_of(path, "pp40")).outcome is Outcome.WRONG


@pytest.mark.parametrize("case", ["tg20", "pp20", "tg9"])
def test_a_cache_that_keeps_an_earlier_prompt_is_wrong(
    lavapipe: VulkanDevice, bundle: Bundle, path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """A prompt that is read a second time is not written where its first token lies."""
    place, begun = Prepared.place, set[bytes]()

    def stale(self: Prepared, tokens: Ids, start: int) -> None:
        place(self, tokens, start)
        if start == 0 and tokens.tobytes() in begun:
            rows = np.maximum(np.arange(tokens.shape[1]), 1)
            self.inputs[ROWS].upload(rows.astype(np.int32))
        elif start == 0:
            begun.add(tokens.tobytes())

    monkeypatch.setattr(Prepared, "place", stale)
    result = done(lavapipe, bundle, job_of(path, case))
    assert result.outcome is Outcome.WRONG
    assert "differ on a second run" in result.reason


@pytest.mark.parametrize("case", ["tg9/batch=2", "pp20/batch=3"])
def test_a_sequence_that_hears_its_neighbours_is_wrong(
    lavapipe: VulkanDevice, bundle: Bundle, path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """By a millionth, which no limit of a reference tells."""
    place = Prepared.place

    def heard(self: Prepared, tokens: Ids, start: int) -> None:
        place(self, tokens, start)
        louder = 1 + 1e-6 * (tokens[-1].sum() % 7)
        norm = self.buffer("output_norm.weight[0:0]")
        norm.upload(np.float32(louder) * open_gguf(path).read("output_norm.weight"))

    monkeypatch.setattr(Prepared, "place", heard)
    result = done(lavapipe, bundle, job_of(path, case))
    assert result.outcome is Outcome.WRONG
    assert "logits of a sequence change with its neighbours" in result.reason


@pytest.mark.parametrize("case", ["tg9/batch=2", "pp20"])
def test_a_cache_that_is_shifted_wrongly_is_wrong(
    lavapipe: VulkanDevice, bundle: Bundle, path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Keys move but are not turned back."""

    def unturned(phase: Phase, dropped: int) -> dict[str, Array]:
        found = shift_arrays(phase, dropped)
        return {**found, POSITIONS: np.zeros_like(found[POSITIONS])}

    monkeypatch.setattr("vkbench_worker.models.model.shift_arrays", unturned)
    result = done(lavapipe, bundle, job_of(path, case))
    assert result.outcome is Outcome.WRONG
    assert "NMSE of logits of a shifted cache is" in result.reason


def test_rounding_is_a_variant(lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path) -> None:
    path = write_model(tmp_path / "tiny.gguf", Tiny.wide(fmt="q4_0"))
    plain, rounded = (
        done(lavapipe, bundle, job_of(path, "tg8", variant=name)) for name in ("plain", "via_q8_1")
    )
    assert plain.outcome is rounded.outcome is Outcome.PASSED
    assert plain.verdict
    assert rounded.verdict
    assert (plain.verdict.path, rounded.verdict.path) == ("f32", "int8")
    assert plain.verdict.nmse_limit < rounded.verdict.nmse_limit
    other = done(lavapipe, bundle, job_of(path, "tg8", variant="sideways"))
    assert other.outcome is Outcome.SKIPPED


def test_a_slower_kernel_shows_and_is_named(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path
) -> None:
    """Confirmed by pairs, on whichever side it stands; the profile leads to the kernel."""
    path = write_model(tmp_path / "gpt2.gguf", Tiny(arch="gpt2", groups=4))
    slow = packaged_but_add(SLOW.replace("50", "6000"))
    job = replace(job_of(path, "tg9", Mode.PAIRED), pair=Pair(old=Arm(name=""), metric="hot"))
    for old, new in ((bundle, slow), (slow, bundle)):
        result = execute_model_pair(lavapipe, old, new, job)
        assert result.outcome is Outcome.PASSED, result.reason
        first, second = result.timings
        ratio = second.seconds / first.seconds
        assert ratio > 1.5 if new is slow else ratio < 1 / 1.5
    job = job_of(path, "tg9", Mode.PERFORMANCE)
    before, after = (steps(done(lavapipe, each, job)) for each in (bundle, slow))
    slowest = max(after, key=lambda label: after[label] - before[label])
    file = open_gguf(path)
    (phase,) = model_case(job.case).timed_phases("plain")
    graph = graph_of(file, hyper_of(file), phase)
    assert {s.problem.kernel.name for s in graph.steps if f"{STEP}{s.label}" == slowest} == {"add"}


def test_both_arms_of_a_model_s_pair_check_bounds_alike(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bool] = []
    pipeline = VulkanDevice.pipeline

    def noted(device: VulkanDevice, program: Program) -> VulkanPipeline:
        made.append(program.checks_bounds)
        return pipeline(device, program)

    monkeypatch.setattr(VulkanDevice, "pipeline", noted)
    path = write_model(tmp_path / "gpt2.gguf", Tiny(arch="gpt2", groups=4))
    job = replace(job_of(path, "tg9", Mode.PAIRED), pair=Pair(old=Arm(name=""), metric="hot"))
    other = packaged_but_add("sum *= 1.0;")
    assert execute_model_pair(lavapipe, bundle, other, job).outcome is Outcome.PASSED
    assert set(made) == {True}


def test_a_wrong_arm_is_named(lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path) -> None:
    path = write_model(tmp_path / "gpt2.gguf", Tiny(arch="gpt2", groups=4))
    job = replace(job_of(path, "tg9", Mode.PAIRED), pair=Pair(old=Arm(name=""), metric="hot"))
    lazy = packaged_but_add("sum *= 1.01;")
    for old, new, arm in ((bundle, lazy, "new"), (lazy, bundle, "old")):
        result = execute_model_pair(lavapipe, old, new, job)
        assert result.outcome is Outcome.WRONG
        assert result.verdict
        assert result.verdict.wrong_arm is WrongArm(arm)
        assert result.timings == ()


@pytest.mark.parametrize("layer", [0, 1])
def test_a_layer_that_is_slightly_off_is_wrong(
    lavapipe: VulkanDevice,
    bundle: Bundle,
    path: Path,
    monkeypatch: pytest.MonkeyPatch,
    layer: int,
) -> None:
    """The device has one matrix a thousandth too large: too little for the logits to tell."""
    stored = Weights._storage_of

    def off(self: Weights, weight: Weight) -> Array:
        made = stored(self, weight)
        return made * np.float32(1.003) if f"blk.{layer}.ffn_down" in weight.name else made

    monkeypatch.setattr(Weights, "_storage_of", off)
    result = done(lavapipe, bundle, job_of(path, "tg9"))
    assert result.outcome is Outcome.WRONG
    assert f"NMSE of layer {layer} is" in result.reason


def test_a_large_model_is_judged_in_parts(
    lavapipe: VulkanDevice, bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_model(tmp_path / "tiny.gguf", Tiny(layers=7))
    whole = done(lavapipe, bundle, job_of(path, "pp40"))
    monkeypatch.setattr("vkbench_worker.models.judging._WORK", 1)
    parts = done(lavapipe, bundle, job_of(path, "pp40"))
    assert whole.outcome is parts.outcome is Outcome.PASSED
    assert whole.verdict
    assert parts.verdict
    assert 0 < parts.verdict.compared < whole.verdict.compared


def test_what_a_run_does_not_write_is_wrong(
    lavapipe: VulkanDevice, bundle: Bundle, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last launches of a graph are left out, so that the logits hold poison."""
    whole = Prepared.steps
    monkeypatch.setattr(Prepared, "steps", lambda self: whole(self)[:-4])
    result = done(lavapipe, bundle, job_of(path, "pp20"))
    assert result.outcome is Outcome.WRONG
    assert "of logits were never written" in result.reason


def test_another_file_is_refused(lavapipe: VulkanDevice, bundle: Bundle, path: Path) -> None:
    job = job_of(path, "pp20")
    write_model(path, Tiny(layers=1))
    result = done(lavapipe, bundle, job)
    assert result.outcome is Outcome.ERROR
    assert "is another model on this host: its hash is" in result.reason


def test_a_file_that_was_cut_or_removed_is_named(
    lavapipe: VulkanDevice, bundle: Bundle, path: Path
) -> None:
    job, data = job_of(path, "pp20"), path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    cut = done(lavapipe, bundle, job)
    path.unlink()
    gone = done(lavapipe, bundle, job)
    assert cut.outcome is gone.outcome is Outcome.ERROR
    assert str(path) in cut.reason
    assert "is truncated or corrupt" in cut.reason
    assert f"cannot read {path}" in gone.reason


def test_what_does_not_fit_is_skipped(
    lavapipe: VulkanDevice, bundle: Bundle, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lavapipe, "memory_left", lambda: 10_000)
    result = done(lavapipe, bundle, job_of(path, "pp20"))
    assert result.outcome is Outcome.SKIPPED
    assert "bytes of device memory; 10,000 are left" in result.reason


def test_a_model_s_case_has_one_name(path: Path) -> None:
    case = ModelCase(model=name_of(open_gguf(path)), phase="tg", tokens=128, batch=8, cache="q4_0")
    assert case.case.name.startswith("model/tiny.f32-")
    assert case.case.name.endswith("/tg128/batch=8,cache=q4_0")
    assert model_case(case.case.name) == case
    assert [tokens_of(replace(case, phase=phase).case.name) for phase in ("tg", "pp")] == [8, 1024]
    assert tokens_of("add/f32/b1_c1_h1_w1") == 0
    assert replace(case, batch=1, cache="f16").case.name.endswith("/tg128")
