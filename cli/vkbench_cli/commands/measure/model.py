"""`vkbench model`: makes models in the shapes of real ones, and computes logits of tokens."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option, Typer

from vkbench.errors import UsageError
from vkbench.words.units import rate_column
from vkbench.words.visible import visible
from vkbench_cli import completion
from vkbench_cli.commands.measure.model_logits import logits
from vkbench_cli.files import check_writable, whole_file
from vkbench_cli.groups import CommandGroup
from vkbench_cli.options.spreading import spread
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.progress import CountedProgress
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_shaders.models.making.making import ModelPlan

MEGA = 1_000_000

COLUMNS = (
    Column(key="name", heading="model", rank=Rank.KEY),
    Column(key="arch", heading="architecture"),
    Column(key="layers", heading="layers", kind=ValueKind.COUNT),
    Column(key="width", heading="width", kind=ValueKind.COUNT),
    Column(key="heads", heading="heads", kind=ValueKind.COUNT),
    Column(key="kv_heads", heading="kv heads", kind=ValueKind.COUNT),
    Column(key="head_size", heading="head size", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="feed_forward", heading="feed forward", kind=ValueKind.COUNT),
    Column(key="experts", heading="experts", kind=ValueKind.COUNT),
    Column(key="used", heading="used", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="vocabulary", heading="vocabulary", kind=ValueKind.COUNT),
    Column(key="context", heading="context", kind=ValueKind.COUNT, rank=Rank.MINOR),
    Column(key="weights", heading="weights", kind=ValueKind.COUNT),
    Column(key="bytes", heading="file", kind=ValueKind.BYTES),
)

MOST_LAYERS = 1000


class Way(StrEnum):
    """How weights are made."""

    BLOCKS = "blocks"
    NORMAL = "normal"


@dataclass(frozen=True, kw_only=True)
class Mixed:
    """Options that say in which formats a model's tensors are."""

    type: Annotated[
        str,
        Option(
            metavar="TYPE",
            help="Type of the file, such as q4_K_M, q8_0 or f16: a mixture as llama.cpp makes it.",
            autocompletion=completion.types,
        ),
    ] = "q4_K_M"
    pure: Annotated[
        bool,
        Option("--pure", help="Every matrix in the main format of the type, or in this format."),
    ] = False


def make(
    *,
    output: Annotated[Path, Option(metavar="FILE", help="Write the model to this GGUF file.")],
    arch: Annotated[
        str,
        Option(
            metavar="ARCH",
            help="Architecture, such as llama, mixtral, qwen3, gemma3 or gpt-oss.",
            autocompletion=completion.architectures,
        ),
    ] = "",
    like: Annotated[
        str,
        Option(
            metavar="MODEL",
            help="Take the sizes of this model; `vkbench model ls` lists them.",
            autocompletion=completion.models,
        ),
    ] = "",
    layers: Annotated[
        int | None,
        Option(
            metavar="N", min=1, max=MOST_LAYERS, help="Layers, if not as many as the model has."
        ),
    ] = None,
    size: Annotated[
        list[str],
        Option(
            metavar="NAME=N,..",
            help="Other sizes: width, heads, kv_heads, head_size, feed_forward, experts, used, "
            "vocabulary, context; may be repeated.",
        ),
    ] = [],  # noqa: B006
    weights: Annotated[
        Way,
        Option(
            help="Draw blocks from a stock of quantised normal numbers, which is fast, or "
            "quantise new normal numbers for every tensor.",
            case_sensitive=False,
        ),
    ] = Way.BLOCKS,
    seed: Annotated[int, Option(metavar="N", min=0, help="Seed of the weights.")] = 0,
    mixed: Mixed,
) -> None:
    """Write a GGUF file of seeded weights, in the shapes of a real model.

    It has no vocabulary: prompts are token numbers. The same options make the same file again.

    \b
    vkbench model make --like llama-3.2-1b --output model.gguf
    vkbench model make --arch mixtral --layers 2 --type q8_0 --output model.gguf
    vkbench model make --like tiny-gpt2 --type q2_K --pure --output model.gguf
    """
    from vkbench_shaders.models.making.making import ModelPlan
    from vkbench_shaders.models.making.making import make as write
    from vkbench_shaders.models.making.mixtures import mixture_named
    from vkbench_shaders.models.making.shape import resize_shape
    from vkbench_shaders.models.making.shapes import shape_named

    check_writable(output)
    name, shape = shape_named(arch, like)
    changes = _sizes(size) | ({} if layers is None else {"layers": layers})
    mixture = mixture_named(mixed.type, mixed.pure)
    plan = ModelPlan(
        name="-".join((name, *(f"{key}{value}" for key, value in changes.items()))),
        shape=resize_shape(shape, changes),
        mixture=mixture,
        weights=weights,
        seed=seed,
    )
    free = shutil.disk_usage(output.parent).free
    if plan.size > free:
        raise UsageError(f"{output} would take {_bytes(plan.size)}, and {_bytes(free)} are free")
    label, total = f"MB of {output.name}", plan.size // MEGA
    with whole_file(output) as file, CountedProgress(label, total) as progress:
        write(plan, file, lambda written: progress.tell(written // MEGA))
    line = f"{plan.name} {mixture.name}: {plan.count:,} weights, {_bytes(plan.size)} -> {output}"
    print(visible(line))


def list_(*, mixed: Mixed, output: Output) -> None:
    """List the models that `make` knows, with the sizes of their files."""
    from vkbench_shaders.models.making.making import ModelPlan
    from vkbench_shaders.models.making.mixtures import mixture_named
    from vkbench_shaders.models.making.shapes import SHAPES

    mixture = mixture_named(mixed.type, mixed.pure)
    plans = (
        ModelPlan(name=name, shape=shape, mixture=mixture, weights=Way.BLOCKS, seed=0)
        for name, shape in SHAPES.items()
    )
    show(Table(columns=COLUMNS, rows=[_row(plan) for plan in plans]), output)


def _row(plan: ModelPlan) -> dict[str, Cell]:
    known = {"name": plan.name, "weights": plan.count, "bytes": plan.size}
    sizes = {column.key: getattr(plan.shape, column.key, None) for column in COLUMNS}
    if not plan.shape.experts:
        sizes |= {"experts": None, "used": None}
    return sizes | known


def _sizes(words: list[str]) -> dict[str, int]:
    pairs = [pair.partition("=") for word in words for pair in word.split(",")]
    for name, _, number in pairs:
        if not (name and number.isascii() and number.isdecimal() and len(number) < 12):
            typed = ",".join(words)
            raise UsageError(f"malformed --size '{typed}': expected NAME=N,.. with whole numbers")
    return {name.strip(): int(number) for name, _, number in pairs}


def _bytes(count: int) -> str:
    unit, [cell] = rate_column([count], "B")
    return f"{cell} {unit}"


app = Typer(cls=CommandGroup, rich_markup_mode=None, add_completion=False, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Work with whole models, as GGUF files hold them."""


app.command()(logits)
app.command()(spread(make))
app.command("ls")(spread(list_))
