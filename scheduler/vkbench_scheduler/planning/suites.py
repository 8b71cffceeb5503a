"""Suites: named sets of cases, one entry each.

The catalogue lists the cases; a suite only chooses among them, so a new kernel or format is in
every suite whose rows it fits. A kernel is compiled for some sixty sets of formats: suites that are
to be quick look at a few of them, one of each kind of storage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from vkbench import calibration
from vkbench.case import Case
from vkbench.job import Mode
from vkbench.words import names
from vkbench_scheduler.planning import compared, operations
from vkbench_scheduler.planning.selection import AUTO
from vkbench_shaders import formats
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.families import families
from vkbench_shaders.models.cases import GENERATE, PROMPT, ModelCase
from vkbench_shaders.models.making.seeded import SEEDED, Seeded


@dataclass(frozen=True, kw_only=True)
class SuiteRow:
    """A row of a suite: which cases of the catalogue it has, and how they run."""

    kernels: tuple[str, ...] = ("*",)  # globs
    formats: tuple[str, ...] = ("*",)  # globs; every binding's format fits one
    mode: Mode = Mode.BOTH  # correctness takes the checked cases, performance the timed ones
    most_cases: int = (
        0  # so many of each kernel and its formats, from plain and small to large; 0: all
    )
    every_variant: bool = False  # each code path, not only the one that a device would choose
    variant: str = AUTO  # else this one
    most_flops: float = inf  # of a launch
    most_bytes: float = inf  # of all its buffers
    cases: tuple[str, ...] = ()  # full case names, also of cases that the catalogue does not list
    times: int = 1  # jobs of each case, to measure how results repeat
    only: str = ""  # "cpu": on CPU drivers; "gpu": on all else


@dataclass(frozen=True, kw_only=True)
class ModelRow:
    """A row of a suite: prompts and generations of seeded models, judged and timed."""

    models: tuple[Seeded, ...]
    prompts: tuple[int, ...]  # tokens
    generated: tuple[int, ...]  # tokens
    only: str = ""  # as in SuiteRow
    batches: tuple[int, ...] = (1,)  # sequences at once

    @property
    def cases(self) -> list[Case]:
        """What each model does."""
        phases = [
            *((PROMPT, count) for count in self.prompts),
            *((GENERATE, count) for count in self.generated),
        ]
        return [
            ModelCase(model=model.name, phase=phase, tokens=count, batch=batch).case
            for model in self.models
            for phase, count in phases
            for batch in self.batches
        ]


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A named set of cases."""

    name: str
    description: str
    takes: str = ""  # how long on two CPU cores, or on what it names; empty: nobody tried
    rows: tuple[SuiteRow, ...] = ()
    models: tuple[ModelRow, ...] = ()  # whole ones, behind the rows
    measure_seconds: float = 1.0  # budget of one metric of a timing

    @property
    def summary(self) -> str:
        """One line: the suite's contents, and how long it takes."""
        return f"{self.description} Takes {self.takes}." if self.takes else self.description


FEW = ("f32", "f16", "q4_0", "q4_K", "q8_0", "q8_1", "i32", "i64")
ATTENTION = "attention"  # its caches may be of blocks, and yet it belongs to the transformer
ABOUT_BLOCKS = tuple(
    dict.fromkeys(f.kernel.name for f in families() if f.kernel.group != ATTENTION)
)
CALIBRATE = "calibrate"  # measures a device; no model uses it
OTHERS = tuple(
    kernel.name
    for kernel in KERNELS
    if kernel.name not in ABOUT_BLOCKS and kernel.group != CALIBRATE
)
OF_CPUS = "matrix_rate_8"  # a size of matrices that CPU drivers have, and no GPU's roof
CALIBRATED = tuple(
    kernel.name for kernel in KERNELS if kernel.group == CALIBRATE and kernel.name != OF_CPUS
)
COPIED = ("copy/f32/n8388608", "copy/f32/n67108864")  # for CPU drivers, and beyond a GPU's caches
NOISE_TIMES = 8
# whole products of f32 vectors with an integer product, x rounded to bytes
VIA_BYTES = tuple(
    f"mul_mat_vec/{fmt}/m4096_n{n}_k14336" for fmt in formats.WEIGHTS for n in (1, 2, 4, 8)
)
# products whose f32 numbers matrix units round, and by which variant
BY_MATRICES = {"f32": "coopmat", "bf16": "coopmat_to_bf16"}
MODELS_OF_GPUS = tuple(model for model in SEEDED if not model.is_tiny and not model.encodes)
ENCODERS_OF_GPUS = tuple(model for model in SEEDED if model.encodes)
TINY_MODELS = ModelRow(
    models=tuple(model for model in SEEDED if model.is_tiny), prompts=(32,), generated=(16,)
)
SPINE_KERNELS = ("copy", "add", *ABOUT_BLOCKS)
SEEN_FIRST = ("softmax", "rms_norm", "rope", "sum", "argmax", "matmul")

QUICK = Suite(
    name="quick",
    description="Every kernel checked in few formats, the main ones timed.",
    takes="two minutes",
    rows=(
        SuiteRow(
            mode=Mode.CORRECTNESS,
            every_variant=True,
            kernels=SPINE_KERNELS,
            formats=FEW,
            most_cases=3,
        ),
        SuiteRow(
            mode=Mode.CORRECTNESS,
            every_variant=True,
            kernels=OTHERS,
            formats=(*FEW, "u8", "u32"),
            most_cases=1,
        ),
        SuiteRow(
            mode=Mode.PERFORMANCE,
            kernels=(*SPINE_KERNELS, *SEEN_FIRST),
            formats=("f32", "q4_0", "i32", "i64"),
            most_cases=1,
            most_flops=3e9,
            most_bytes=128e6,
        ),
        SuiteRow(
            mode=Mode.PERFORMANCE,
            kernels=("silu", "flash_attn"),
            formats=("f32", "f16"),
            most_cases=1,
            most_flops=3e9,
            most_bytes=140e6,
        ),
    ),
    models=(TINY_MODELS,),
    measure_seconds=0.3,
)

SPINE = Suite(
    name="spine",
    description="Copies, sums and blocks: every case in few formats.",
    takes="ten minutes",
    rows=(
        SuiteRow(mode=Mode.CORRECTNESS, every_variant=True, kernels=SPINE_KERNELS, formats=FEW),
        SuiteRow(
            mode=Mode.PERFORMANCE,
            kernels=SPINE_KERNELS,
            formats=FEW,
            most_flops=3e9,
            most_bytes=128e6,
        ),
    ),
)

QUANT = Suite(
    name="quant",
    description="All that is done with blocks, checked in every format on each code path.",
    takes="a quarter of an hour; two and a half minutes on an H200",
    rows=(SuiteRow(mode=Mode.CORRECTNESS, every_variant=True, kernels=ABOUT_BLOCKS),),
)

QUANT_PERF = Suite(
    name="quant-perf",
    description="All that is done with blocks, timed in every format on the sizes of models.",
    rows=(
        SuiteRow(mode=Mode.PERFORMANCE, kernels=ABOUT_BLOCKS),
        SuiteRow(
            mode=Mode.PERFORMANCE, kernels=("mul_mat_vec",), cases=VIA_BYTES, variant="via_q8_1"
        ),
        *(
            SuiteRow(
                mode=Mode.PERFORMANCE,
                kernels=("mul_mat",),
                cases=(f"mul_mat/{fmt}/m4096_n512_k14336",),
                variant=variant,
            )
            for fmt, variant in BY_MATRICES.items()
        ),
    ),
    measure_seconds=0.5,
)

TRANSFORMER = Suite(
    name="transformer",
    description="All else that models do, checked in every format on each code path.",
    takes="three minutes",
    rows=(SuiteRow(mode=Mode.CORRECTNESS, every_variant=True, kernels=OTHERS),),
)

TRANSFORMER_PERF = Suite(
    name="transformer-perf",
    description="All else that models do, timed on their sizes, attention and norms among it.",
    rows=(
        SuiteRow(mode=Mode.PERFORMANCE, kernels=OTHERS),
        SuiteRow(mode=Mode.PERFORMANCE, kernels=("conv2d",), formats=("f32",), variant="coopmat"),
        SuiteRow(
            mode=Mode.PERFORMANCE,
            kernels=("get_rows", "set_rows"),
            formats=("f32", "f16", "bf16", "q8_0", "i32", "i64"),
        ),
    ),
    measure_seconds=0.3,
)

CALIBRATION = Suite(
    name=calibration.SUITE,
    description="What a device does at most: memory, arithmetic, launches, and how steadily.",
    takes="a minute on a GPU",
    rows=(
        SuiteRow(mode=Mode.CORRECTNESS, every_variant=True, kernels=CALIBRATED),
        SuiteRow(mode=Mode.PERFORMANCE, kernels=CALIBRATED),
        SuiteRow(kernels=(OF_CPUS,), every_variant=True, only="cpu"),
        SuiteRow(mode=Mode.PERFORMANCE, kernels=("copy",), cases=COPIED),
        *(
            SuiteRow(
                mode=Mode.PERFORMANCE,
                kernels=("fma",),
                cases=(calibration.canary_of(kind),),
                times=NOISE_TIMES,
                only=kind,
            )
            for kind in ("cpu", "gpu")
        ),
    ),
    measure_seconds=0.3,
)

TUNED = tuple(kernel.name for kernel in KERNELS if kernel.tuning)
TUNING = Suite(
    name="tuning",
    description="What has tunable parameters, in few formats, on sizes of models.",
    rows=(
        SuiteRow(mode=Mode.PERFORMANCE, kernels=TUNED, formats=FEW, most_cases=2, only="gpu"),
        SuiteRow(
            mode=Mode.PERFORMANCE,
            kernels=TUNED,
            formats=FEW,
            most_cases=1,
            most_flops=3e9,
            most_bytes=128e6,
            only="cpu",
        ),
    ),
    measure_seconds=0.2,
)

MODELS_QUICK = Suite(
    name="models-quick",
    description="A model of two layers, checked and timed as a whole.",
    takes="ten seconds",
    models=(TINY_MODELS,),
    measure_seconds=0.3,
)

MODELS = Suite(
    name="models",
    description="Whole models of the shapes of seventeen real ones, on GPUs.",
    models=(
        ModelRow(models=MODELS_OF_GPUS, prompts=(512,), generated=(128,), only="gpu"),
        ModelRow(
            models=ENCODERS_OF_GPUS, prompts=(512,), generated=(), only="gpu", batches=(1, 32)
        ),
    ),
    measure_seconds=2.0,
)


MODELS_BATCHES = Suite(
    name="models-batches",
    description="Llama-3.2-1B's shape: 1, 8 and 32 sequences of up to 32768 tokens, on GPUs.",
    models=(
        ModelRow(
            models=tuple(model for model in SEEDED if model.stem == "llama-3.2-1b-q4_K_M"),
            prompts=(512,),
            generated=(512, 4096, 32_768),
            batches=(1, 8, 32),
            only="gpu",
        ),
    ),
    measure_seconds=1.0,
)


def _time_cases(on_gpus: tuple[str, ...], on_cpus: tuple[str, ...]) -> tuple[SuiteRow, ...]:
    """These cases timed, others on CPU drivers."""
    return tuple(
        SuiteRow(mode=Mode.PERFORMANCE, kernels=compared.kernels_of(cases), cases=cases, only=only)
        for cases, only in ((on_gpus, "gpu"), (on_cpus, "cpu"))
    )


PEERS = Suite(
    name="peers",
    description="What GPU libraries and llama.cpp are known for, to time with --peer.",
    takes="a minute",
    rows=_time_cases(compared.COMPARED, compared.COMPARED_ON_CPUS),
)

GGML = Suite(
    name="ggml",
    description="The operations of models as ggml has them, to time with --build.",
    takes="three minutes on an H200, half of that once its driver has compiled it",
    rows=_time_cases(operations.ON_GPUS, operations.ON_CPUS),
    measure_seconds=0.5,
)

SUITES: tuple[Suite, ...] = (
    QUICK,
    SPINE,
    QUANT,
    QUANT_PERF,
    TRANSFORMER,
    TRANSFORMER_PERF,
    CALIBRATION,
    TUNING,
    MODELS_QUICK,
    MODELS,
    MODELS_BATCHES,
    PEERS,
    GGML,
)

_BY_NAME: Mapping[str, Suite] = {suite.name: suite for suite in SUITES}
if len(_BY_NAME) != len(SUITES):
    raise ValueError("two suites have one name")


def suite_named(name: str) -> Suite:
    """A suite by name, whatever its case; UnknownName with the nearest otherwise."""
    return _BY_NAME[names.pick(name, _BY_NAME, "suite")]
