"""Jobs of whole models: which cases a file and sizes make, and what makes none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from planted_model import Tiny, write_model
from planted_runner import facts as facts_of
from vkbench.device import DeviceFacts
from vkbench.errors import NothingToDo, UsageError
from vkbench.job import ArmKind, Mode, PlannedJob
from vkbench_scheduler.planning.models import model_from
from vkbench_scheduler.planning.plan import count, plan
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.submit import selection_json
from vkbench_shaders.models.cases import ModelCase, model_case
from vkbench_shaders.models.making.seeded import SEEDED, seeded_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_model(tmp_path / "my model.gguf", Tiny())


@pytest.fixture
def facts() -> DeviceFacts:
    return facts_of("")


def test_every_phase_runs_at_every_batch(path: Path, facts: DeviceFacts) -> None:
    model = model_from(path, [512, 64], [128], [1, 8], context=1024, cache="q8_0")
    selection = Selection(model=model, repeat=2)
    jobs = list(plan(selection, [facts]))
    names = [job.case.split("/", 2)[2] for job in jobs]
    phases = ["pp512", "pp64", "tg128"]
    once = [f"{phase}/cache=q8_0,context=1024" for phase in phases]
    batched = [f"{phase}/batch=8,cache=q8_0,context=1024" for phase in phases]
    assert names == [*once, *batched] * 2
    assert count(selection, [facts]) == len(jobs)
    assert all(job.case.startswith("model/my-model-") for job in jobs)
    assert {job.mode for job in jobs} == {Mode.PERFORMANCE}
    assert {job.source.path for job in jobs if job.source} == {str(path)}


def test_code_paths_are_asked_for_by_name(path: Path, facts: DeviceFacts) -> None:
    model = model_from(path, [8], [8])
    every = Selection(model=model, variant="all")
    jobs = list(plan(every, [facts]))
    assert [job.variant for job in jobs] == ["mixed", "joined", "via_q8_1", "plain"] * 2
    assert count(every, [facts]) == 8
    (job, _) = plan(Selection(model=model, variant="PLAIN"), [facts])
    assert job.variant == "plain"
    with pytest.raises(UsageError, match="unknown variant 'fast'"):
        list(plan(Selection(model=model, variant="fast"), [facts]))


def test_a_build_times_models_on_its_one_path(path: Path, facts: DeviceFacts) -> None:
    model = model_from(path, [8], [8])
    chosen = Selection(model=model, bundle="ab" * 32, program="ggml-vulkan", repeat=2)
    jobs = list(plan(chosen, [facts]))
    assert count(chosen, [facts]) == len(jobs) == 4
    assert {(job.mode, job.variant, job.bundle, job.arm_kind) for job in jobs} == {
        (Mode.PERFORMANCE, "ggml-vulkan", "ab" * 32, ArmKind.BUILD)
    }
    suite = Selection(suite="models-quick", bundle="ab" * 32, program="ggml-vulkan")
    assert {job.arm_kind for job in plan(suite, [facts])} == {ArmKind.BUILD}
    with pytest.raises(UsageError, match="a build times whole models and judges none"):
        plan(replace(chosen, mode=Mode.CORRECTNESS), [facts])
    with pytest.raises(NothingToDo, match="ggml-vulkan judges single kernels"):
        plan(replace(suite, mode=Mode.CORRECTNESS), [facts])
    with pytest.raises(UsageError, match="other runs no whole models: leave out --model"):
        plan(replace(chosen, program="other"), [facts])


def test_a_large_file_has_time_to_load(path: Path, facts: DeviceFacts) -> None:
    small = model_from(path, [8], [])
    (quick,) = plan(Selection(model=small, mode=Mode.CORRECTNESS), [facts])
    large = type(small)(source=small.source, cases=small.cases, bytes=100 << 30)
    (slow,) = plan(Selection(model=large, mode=Mode.CORRECTNESS), [facts])
    assert quick.mode is Mode.CORRECTNESS
    assert slow.limit_seconds > 10 * quick.limit_seconds


def test_what_makes_no_case_is_said(path: Path, facts: DeviceFacts) -> None:
    with pytest.raises(UsageError, match="--prompt and --generate are both 0"):
        model_from(path, [], [])
    with pytest.raises(UsageError, match="a context of 32 has no room for 64 tokens"):
        model_from(path, [64], [], context=32)
    case = model_from(path, [64], []).cases[0]
    with pytest.raises(UsageError, match="is a whole model's: give its file with --model"):
        plan(Selection(cases=(case,)), [facts])


def test_positions_that_were_never_learnt_are_refused(tmp_path: Path) -> None:
    path = write_model(tmp_path / "gpt2.gguf", Tiny(arch="gpt2", groups=4))
    model_from(path, [512], [])
    with pytest.raises(UsageError, match="513 positions; the model has 512"):
        model_from(path, [513], [])


@pytest.mark.parametrize("arch", ["mamba", "mamba2", "rwkv6", "rwkv7"])
def test_a_format_of_caches_is_refused_where_there_are_states(arch: str, tmp_path: Path) -> None:
    path = write_model(tmp_path / "states.gguf", Tiny(arch=arch))
    model_from(path, [8], [8], cache="f16")
    with pytest.raises(
        UsageError, match=r"the model has states and no cache .*: leave --cache out"
    ):
        model_from(path, [8], [8], cache="q8_0")


def test_an_encoder_generates_nothing(tmp_path: Path) -> None:
    """It is asked for none where --generate is not given; other models make 128 tokens then."""
    path = write_model(tmp_path / "bert.gguf", Tiny.of("bert"))
    model = model_from(path, [64, 512], None, [1, 8])
    phases = [name.split("/", 2)[2] for name in model.cases]
    assert phases == ["pp64", "pp512", "pp64/batch=8", "pp512/batch=8"]
    with pytest.raises(UsageError, match="bert generates no tokens: leave --generate out"):
        model_from(path, [64], [8])
    others = model_from(write_model(tmp_path / "llama.gguf", Tiny()), [64], None)
    assert [name.split("/", 2)[2] for name in others.cases] == ["pp64", "tg128"]


def test_a_selection_without_a_model_is_stored_as_before(path: Path) -> None:
    assert "model" not in selection_json(Selection())
    assert "model" in selection_json(Selection(model=model_from(path, [8], [])))


def test_a_suite_names_models_that_nobody_made_yet(facts: DeviceFacts) -> None:
    """Their jobs name no file; a choice among kernels or formats is about others."""
    gpu = replace(facts, type="discrete")
    jobs = list(plan(Selection(suite="models"), [gpu]))
    assert {job.case.split("/")[2] for job in jobs} == {"pp512", "tg128"}
    assert {seeded_of(job.case) for job in jobs} == {model for model in SEEDED if not model.is_tiny}
    encoders = [job.case for job in jobs if (model := seeded_of(job.case)) and model.encodes]
    assert [case.split("/", 2)[2] for case in encoders] == ["pp512", "pp512/batch=32"]
    assert all(job.source is None and job.mode is Mode.PERFORMANCE for job in jobs)
    assert max(job.limit_seconds for job in jobs) > 300
    every = list(plan(Selection(suite="models-quick", variant="all"), [facts]))
    assert [job.variant for job in every] == ["mixed", "joined", "via_q8_1", "plain"] * 2
    (plain, _) = plan(Selection(suite="models-quick", variant="plain"), [facts])
    assert plain.variant == "plain"
    chosen = plan(Selection(suite="quick", kernels=("add",)), [facts])
    assert {job.case.split("/")[0] for job in chosen} == {"add"}
    with pytest.raises(UsageError, match="variants of whole models have no settings"):
        plan(Selection(suite="models-quick", variant="plain:split=2"), [facts])


def test_a_suite_has_batches_of_sequences(facts: DeviceFacts) -> None:
    """At short and long contexts; what reads a million tokens has the time for it."""
    jobs = list(plan(Selection(suite="models-batches"), [replace(facts, type="discrete")]))
    posed = {(each.phase, each.tokens, each.batch): each for each in map(posed_of, jobs)}
    contexts = [("pp", 512), ("tg", 512), ("tg", 4096), ("tg", 32_768)]
    assert set(posed) == {(*context, batch) for context in contexts for batch in (1, 8, 32)}
    limits = {posed_of(job).case.name.split("/", 2)[2]: job.limit_seconds for job in jobs}
    assert limits["tg32768/batch=32"] > limits["tg32768"] + 500


def posed_of(job: PlannedJob) -> ModelCase:
    return model_case(job.case)


def test_a_suite_of_gpus_says_so_to_a_cpu(facts: DeviceFacts) -> None:
    with pytest.raises(NothingToDo, match="what was chosen runs on GPUs only"):
        plan(Selection(suite="models"), [replace(facts, type="cpu")])


def test_a_seeded_model_s_case_needs_no_file(facts: DeviceFacts) -> None:
    name = f"model/{SEEDED[0].name}/pp9"
    (job,) = plan(Selection(cases=(name,), mode=Mode.CORRECTNESS), [facts])
    assert (job.case, job.mode, job.source) == (name, Mode.CORRECTNESS, None)
