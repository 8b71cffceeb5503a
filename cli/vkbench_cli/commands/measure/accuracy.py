"""`vkbench accuracy`: what each format loses, beside its size, and what whole models do."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.errors import UsageError
from vkbench.settings import settings
from vkbench.words import names
from vkbench_cli.options.choices import CacheFormat
from vkbench_cli.options.effort import RunLabel
from vkbench_cli.options.records import Formats, KernelsOf, OneDevice, Store
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.telling import tell
from vkbench_tables.losses import MODEL_COLUMNS, PRODUCT_COLUMNS, loss_row, perplexity_row
from vkbench_tables.table import Table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vkbench.accuracy import Accuracy
    from vkbench_local.accuracies import Reader
    from vkbench_shaders.gguf_file import GgufFile
    from vkbench_shaders.models.perplexity import Foreseen

MOST_DIGITS = 20  # of a token's number, and of what a complaint repeats


@dataclass(frozen=True, kw_only=True)
class Matrices:
    """Options that choose the weights of products."""

    gguf: Annotated[
        Path | None,
        Option(
            "--gguf",
            metavar="FILE",
            help="Take the weights from this GGUF file in f32, f16 or bf16; default: seeded ones.",
        ),
    ] = None
    kind: Annotated[
        list[str],
        Option(
            metavar="GLOB",
            help="Only matrices of the file whose kind matches, such as attn_v.weight; "
            "may be repeated.",
        ),
    ] = field(default_factory=list)
    rows: Annotated[
        int, Option(metavar="N", min=1, max=1 << 16, help="Rows of each matrix that are tried.")
    ] = 64
    seed: Annotated[int, Option(metavar="N", min=0, help="Seed of weights and vectors.")] = 0


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Options of models that read a text."""

    model: Annotated[
        list[Path],
        Option(
            metavar="FILE",
            help="Have the model of this GGUF file read --text or --tokens; may be repeated.",
        ),
    ] = field(default_factory=list)
    text: Annotated[
        Path | None,
        Option(metavar="FILE", help="The text, in UTF-8: the file has to have a vocabulary."),
    ] = None
    tokens: Annotated[
        Path | None,
        Option(metavar="FILE", help="The text as numbers of tokens, with spaces or commas."),
    ] = None
    context: Annotated[
        int, Option(metavar="N", min=4, help="Tokens of the windows into which a text is cut.")
    ] = 512
    windows: Annotated[
        int, Option(metavar="N", min=0, help="Read so many windows at most; 0: all of the text.")
    ] = 0
    cache: Annotated[
        CacheFormat, Option(help="Format of keys and values.", case_sensitive=False)
    ] = CacheFormat.F16
    variant: Annotated[
        str,
        Option(metavar="V", help="plain, via_q8_1, mixed, joined, or auto, as of `vkbench run`."),
    ] = "auto"
    bundle: KernelsOf = ""
    device: OneDevice = ""
    limit: Annotated[
        float, Option(metavar="S", min=0.1, help="Give up on a model after S seconds.")
    ] = 3600.0


def accuracy(
    *,
    format: Formats = [],  # noqa: B006
    matrices: Matrices,
    reading: Reading,
    label: RunLabel = "",
    store: Store,
    output: Output,
) -> None:
    """Show what each format loses: the error of products, or a model's perplexity.

    The error is the length of what the product W x is off by, in the length of W x, for vectors x
    of normal numbers: 0.01 is one percent. Seeded weights are normal, have heavy tails, or have a
    few large columns. Of a file, the middle layer's matrices are tried.

    With --model, whole models read a text on a device: perplexity as llama-perplexity counts it,
    and by how much it is above that of the first model. With --format too, each is quantised to
    these types of files, such as q4_K_M, and reads again.

    What was found is stored as a run: `vkbench report accuracy` lists the latest of all.

    \b
    vkbench accuracy --format "q*"
    vkbench accuracy --gguf model-f16.gguf --kind "ffn_*" --csv
    vkbench accuracy --model f16.gguf --model q4_0.gguf --text wiki.test.raw
    vkbench accuracy --model f16.gguf --format "q4_*" --text wiki.test.raw
    """
    if reading.model:
        if matrices != Matrices():
            raise UsageError("--model reads a text: leave out --gguf, --kind, --rows and --seed")
    elif reading != Reading():
        raise UsageError("--text, --tokens and what follows them are of a --model FILE")
    from vkbench_db.database import Database
    from vkbench_local.accuracies import keep

    with Database.open(store.settings().database_url(), create=True) as database:
        now = time.time()
        if reading.model:
            losses = _of_models(format, reading, now)
        else:
            losses = _of_products(format, matrices, now)
        show(losses.table, output)
        options = _options_of_run(format, reading if reading.model else matrices)
        run = keep(database, losses.rows, options, label, now)
    tell(f"stored as run {run}: `vkbench report accuracy` lists what was found so far")


@dataclass(frozen=True, kw_only=True)
class _Found:
    """What was lost, as it is shown and as it is stored."""

    table: Table
    rows: Sequence[Accuracy]


def _options_of_run(format: Sequence[str], options: Matrices | Reading) -> dict[str, object]:
    """The chosen options, as a run stores them."""
    given = {name: value for name, value in vars(options).items() if value not in (None, "", [])}
    return {"format": list(format)} | {
        name: [str(item) for item in value] if isinstance(value, list) else _plain_value(value)
        for name, value in given.items()
    }


def _plain_value(value: object) -> object:
    return value if isinstance(value, int | float) else str(value)


def _of_products(format: Sequence[str], matrices: Matrices, now: float) -> _Found:
    from vkbench_local.accuracies import of_products
    from vkbench_shaders.gguf_file import open_gguf
    from vkbench_shaders.models.cases import name_of
    from vkbench_shaders.quantisers.losses import FORMATS, draw_samples, losses, of_file

    if matrices.kind and matrices.gguf is None:
        raise UsageError("--kind chooses among the matrices of --gguf FILE, which is missing")
    globbed = {name for glob in format for name in names.matching(glob, FORMATS, "format")}
    formats = [name for name in FORMATS if name in globbed or not format]
    file, rows = matrices.gguf, matrices.rows
    samples = of_file(file, rows, matrices.kind) if file else draw_samples(rows, matrices.seed)
    model = name_of(open_gguf(file)) if file else ""
    product_losses = [*losses(samples, formats, matrices.seed)]
    return _Found(
        table=Table(columns=PRODUCT_COLUMNS, rows=[*map(loss_row, product_losses)]),
        rows=[of_products(loss, model, now) for loss in product_losses if not loss.trouble],
    )


def _of_models(format: Sequence[str], reading: Reading, now: float) -> _Found:
    from vkbench_local.accuracies import of_model
    from vkbench_local.compute import foreseen

    readers = _readers(format, reading)
    forecasts: list[Foreseen] = []
    with CountedProgress(
        "windows", sum(len(reader.text.windows) for reader in readers)
    ) as progress:
        done = 0
        for reader in readers:
            path = reader.file.path
            tell_windows = partial(_tell_progress, progress, done, f"{path.name} {reader.type}")
            forecasts.append(
                foreseen(path, reader.type, reader.text, reading.limit, settings(), tell_windows)
            )
            done += len(reader.text.windows)
    rows = [
        of_model(reader, forecast, readers[0], forecasts[0], now)
        for reader, forecast in zip(readers, forecasts, strict=True)
    ]
    shown = [
        perplexity_row(reader.file.path.name, reader.type, row)
        for reader, row in zip(readers, rows, strict=True)
    ]
    return _Found(table=Table(columns=MODEL_COLUMNS, rows=shown), rows=rows)


def _readers(format: Sequence[str], reading: Reading) -> list[Reader]:
    from vkbench_local.accuracies import Reader
    from vkbench_local.compute import Text
    from vkbench_shaders.gguf_file import open_gguf
    from vkbench_shaders.models.cases import name_of
    from vkbench_shaders.models.making.mixtures import TYPES
    from vkbench_shaders.models.requantised import retype_file

    types = ["", *(name for glob in format for name in names.matching(glob, TYPES, "type"))]
    readers = []
    for file in map(open_gguf, reading.model):
        text = Text(
            windows=_windows(reading, file),
            cache=reading.cache.value,
            variant=reading.variant,
            device=reading.device or settings().device,
            bundle=reading.bundle,
        )
        model = name_of(file)
        readers += [
            Reader(model=model, file=retype_file(file, type), type=type, text=text)
            for type in types
        ]
    if len({reader.text.windows.tobytes() for reader in readers}) > 1:
        raise UsageError("the models have different vocabularies: their losses compare nothing")
    return readers


def _tell_progress(progress: CountedProgress, before: int, model: str, windows: int) -> None:
    progress.tell(before + windows, model)


def _windows(reading: Reading, file: GgufFile) -> NDArray[np.integer]:
    """The text as tokens of a file's model: (windows, tokens)."""
    import numpy as np

    from vkbench_shaders.models.hyper import predicting_hyper_of
    from vkbench_shaders.models.perplexity import check_context, windows
    from vkbench_shaders.models.vocabulary import begin_of, encoder_of

    check_context(reading.context)
    known = predicting_hyper_of(file, reading.context).vocabulary
    if reading.text and not reading.tokens:
        numbers = encoder_of(file)(_read(reading.text))
    elif reading.tokens and not reading.text:
        numbers = _numbers(reading.tokens, known)
    else:
        raise UsageError("--model reads either --text FILE or --tokens FILE")
    begin = begin_of(file)
    return np.stack([*windows(np.array(numbers), reading.context, begin, reading.windows)])


def _numbers(path: Path, known: int) -> list[int]:
    words = _read(path).replace(",", " ").split()
    if other := [word for word in words if not word.isdecimal() or len(word) > MOST_DIGITS]:
        got = other[0][:MOST_DIGITS]
        raise UsageError(f"{path} has to hold numbers of tokens, as 13 932; got {got}")
    tokens = [int(word) for word in words]
    if wrong := [token for token in tokens if not 0 <= token < known]:
        raise UsageError(f"{path}: token {wrong[0]} is not in the vocabulary, which has {known}")
    return tokens


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8: {error.reason} at {error.start}") from error
