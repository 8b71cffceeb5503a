"""`vkbench accuracy`: what each format loses, beside its size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

from vkbench import names
from vkbench.errors import UsageError
from vkbench_cli.options import Formats
from vkbench_cli.show.printing import Output, show
from vkbench_tables.accuracy import COLUMNS, loss_row
from vkbench_tables.table import Table


def accuracy(
    *,
    format: Formats = [],  # noqa: B006
    gguf: Annotated[
        Path | None,
        Option(
            "--gguf",
            metavar="FILE",
            help="Take the weights from this GGUF file in f32, f16 or bf16; default: seeded ones.",
        ),
    ] = None,
    kind: Annotated[
        list[str],
        Option(
            metavar="GLOB",
            help="Only matrices of the file whose kind matches, such as attn_v.weight; "
            "may be repeated.",
        ),
    ] = [],  # noqa: B006
    rows: Annotated[
        int, Option(metavar="N", min=1, max=1 << 16, help="Rows of each matrix that are tried.")
    ] = 64,
    seed: Annotated[int, Option(metavar="N", min=0, help="Seed of weights and vectors.")] = 0,
    output: Output,
) -> None:
    """Show what each format loses: the error of products with weights in it.

    The error is the length of what the product W x is off by, in the length of W x, for vectors x
    of normal numbers: 0.01 is one percent. Seeded weights are normal, have heavy tails, or have a
    few large columns. Of a file, the middle layer's matrices are tried.

    \b
    vkbench accuracy --format "q*"
    vkbench accuracy --gguf model-f16.gguf --kind "ffn_*" --csv
    """
    from vkbench_shaders.quantisers.losses import FORMATS, losses, of_file, seeded

    if kind and gguf is None:
        raise UsageError("--kind chooses among the matrices of --gguf FILE, which is missing")
    asked = {name for glob in format for name in names.matching(glob, FORMATS, "format")}
    formats = [name for name in FORMATS if name in asked or not format]
    samples = of_file(gguf, rows, kind) if gguf else seeded(rows, seed)
    show(Table(columns=COLUMNS, rows=[*map(loss_row, losses(samples, formats, seed))]), output)
