"""`vkbench results`: what was found, the latest of each case by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from vkbench.case import MODEL, parse_shape
from vkbench.errors import UsageError
from vkbench.job import Mode
from vkbench.words.units import count_of
from vkbench_cli import completion
from vkbench_cli.files import check_writable, whole_file
from vkbench_cli.options.records import RUN_HELP, Devices, Formats, Kernels, Shapes, Store, Suite
from vkbench_cli.show.printing import Limit, Output, show_newest, tell_cut
from vkbench_cli.show.telling import hand_over, tell
from vkbench_cli.store import reading
from vkbench_scheduler.planning.selection import Selection
from vkbench_tables.results import rows_of, table
from vkbench_tables.statistics import list_statistics
from vkbench_tables.written import llama_bench
from vkbench_tables.written.interchange import WRITERS, Interchange
from vkbench_tables.written.text import markdown_table

if TYPE_CHECKING:
    from vkbench_db.ask.model_results import ModelResult
    from vkbench_db.ask.results import ResultCount, ResultRow
    from vkbench_db.database import Transaction
    from vkbench_tables.table import Cell

NOTHING_YET = "no results yet: `vkbench run` makes some"
METRICS = 2  # a job has as many rows in the database at most


class OfResults(StrEnum):
    """Modes that jobs have, or several."""

    CORRECTNESS = Mode.CORRECTNESS.value
    PERFORMANCE = Mode.PERFORMANCE.value
    BATCH = Mode.BATCH.value
    COMPILE = Mode.COMPILE.value
    PEER = Mode.PEER.value
    PAIRED = Mode.PAIRED.value
    SHARDED = Mode.SHARDED.value
    BOTH = Mode.BOTH.value


def results(
    *,
    suite: Suite = "",
    kernel: Kernels = [],  # noqa: B006
    format: Formats = [],  # noqa: B006
    shape: Shapes = [],  # noqa: B006
    device: Devices = [],  # noqa: B006
    program: Annotated[
        list[str],
        Option(
            metavar="PROGRAM",
            help="Only what builds of this program computed; globs are allowed.",
            autocompletion=completion.programs,
        ),
    ] = [],  # noqa: B006
    build: Annotated[
        list[str],
        Option(
            metavar="BUILD",
            help="Only what this build of a program computed, the latest of each case: its name, "
            "or its hash; may be repeated.",
            autocompletion=completion.builds,
        ),
    ] = [],  # noqa: B006
    driver: Annotated[
        list[str],
        Option(
            metavar="DRIVER",
            help="Only what ran through this driver, the latest of each case: its name, version "
            "or hash; may be repeated.",
        ),
    ] = [],  # noqa: B006
    mode: Annotated[
        OfResults,
        Option(
            help="Only checks, timings, peers' timings, pairs or shards; or checks and timings.",
            case_sensitive=False,
        ),
    ] = OfResults.BOTH,
    state: Annotated[
        list[str],
        Option(
            metavar="STATE",
            help="Only results with this outcome, such as passed or wrong; may be repeated.",
        ),
    ] = [],  # noqa: B006
    run: Annotated[
        str,
        Option(metavar="RUN", help=f"Only results of one run. {RUN_HELP}"),
    ] = "",
    series: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Only results of this series, its whole history."),
    ] = None,
    history: Annotated[
        bool, Option("--history", help="Show all results of each case, not only the latest.")
    ] = False,
    trials: Annotated[
        bool, Option("--trials", help="Show also what sweeps of `vkbench tune` tried.")
    ] = False,
    statistics: Annotated[
        bool,
        Option(
            "--statistics",
            help="Show what drivers made of kernels, which --property compile asks for: "
            "registers, bytes, joules.",
        ),
    ] = False,
    as_: Annotated[
        Interchange | None,
        Option(
            "--as",
            help="Print what another tool reads: llama-bench's table, JSON or SQL, JSON of "
            "Bencher, XML of JUnit; or a table in Markdown.",
            case_sensitive=False,
        ),
    ] = None,
    parquet: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Write all of them to FILE as Parquet instead, which DuckDB and pandas read.",
        ),
    ] = None,
    limit: Limit = None,
    store: Store,
    output: Output,
) -> None:
    """Show results, the latest of each case by default.

    The newest results come first. What `vkbench tune` tried is left out, unless a run is named.
    --as llama-bench and llama-bench-json print timings of whole models as llama-bench of llama.cpp
    does. --as llama-bench-sql prints SQL that fills the table llama_bench with these, and
    test_backend_ops with kernels, which llama.cpp's compare-llama-bench.py reads.

    \b
    vkbench results --device '*' --kernel mul_mat_vec
    vkbench results --run last --state wrong
    vkbench results --driver mesa-26.1
    vkbench results --series 12 --json
    vkbench results --statistics --history
    vkbench results --run last --as junit > results.xml
    vkbench results --history --parquet results.parquet
    """
    if parquet:
        if as_ or statistics or output != Output():
            raise UsageError("--parquet is a form of its own: leave out --as, --statistics, --json")
        check_writable(parquet)
    from vkbench_db.ask.queries import find_run
    from vkbench_db.ask.results import ResultFilter, count_trials, read_revisions_of
    from vkbench_db.ask.results import results as read_results
    from vkbench_db.ask.statistics import statistics_of
    from vkbench_db.blank import is_blank

    _check_form(as_, format, output)
    if statistics and (as_ or mode is not OfResults.BOTH):
        raise UsageError("--statistics are those of --mode compile: leave out --mode and --as")
    sizes = [parse_shape(text) for text in shape]
    is_for_program = bool(parquet) or as_ not in (None, Interchange.MD)
    most = output.most(0 if is_for_program and limit is None else limit)
    with reading(store.settings()) as tx:
        if not run and is_blank(tx) and not parquet:
            _print([], as_, output, most, NOTHING_YET)
            return
        chosen = ResultFilter(
            device=device,
            kernel=kernel,
            format=format,
            program=program,
            build=build,
            driver=driver,
            mode=[Mode.COMPILE] if statistics else _modes(Mode(mode), run),
            state=state,
            run=find_run(tx, run).id if run else None,
            series=series,
            history=history,
            trials=trials,
        )
        rows = most * METRICS + 1 if most and not (sizes or suite) else None
        result_rows = read_results(tx, chosen, limit=rows)
        tried = count_trials(tx, chosen)
        works = _works_of(suite, Mode(mode)) if suite else None
        by_job = statistics_of(tx, {row.job for row in result_rows}) if statistics else {}
        models = _models(tx, result_rows) if as_ in llama_bench.WRITERS else {}
        made_of = read_revisions_of(tx, result_rows)

    def is_asked(row: ResultRow | ResultCount) -> bool:
        in_suite = works is None or (row.case_name, row.mode) in works
        return in_suite and _has_shape(row.shape, sizes)

    if statistics:
        show_newest(list_statistics(filter(is_asked, result_rows), by_job), output, most)
        return
    if parquet:
        _write_parquet(rows_of(filter(is_asked, result_rows), made_of), parquet, most)
    else:
        asked = list(filter(is_asked, result_rows))
        _print(asked, as_, output, most, models=models, made_of=made_of)
    if left_out := sum(trial.results for trial in tried if is_asked(trial)):
        trial_words = count_of(left_out, "trial")
        tell(f"left out {trial_words} of `vkbench tune`; --trials shows them")


def _write_parquet(rows: list[dict[str, Cell]], path: Path, most: int | None) -> None:
    from vkbench_tables.written.parquet import write_parquet

    with whole_file(path) as file:
        write_parquet(table(rows[:most]), file)
    tell(f"{path}: {count_of(len(rows[:most]), 'row')}")
    tell_cut(len(rows), most)


def _check_form(form: Interchange | None, formats: list[str], output: Output) -> None:
    if form and (output.json or output.csv):
        raise UsageError("only one of --as, --json and --csv can be printed")
    for name in formats:
        if name in list(Interchange):
            raise UsageError(f"--format chooses formats of weights; --as {name} prints that")


def _print(
    result_rows: list[ResultRow],
    form: Interchange | None,
    output: Output,
    most: int | None,
    nothing: str = "",
    *,
    models: Mapping[int, ModelResult] = {},
    made_of: Mapping[str, list[str]] = {},
) -> None:
    rows = rows_of(result_rows, made_of)
    shown = table(rows[:most] if form else rows)
    if nothing:
        shown = replace(shown, nothing=nothing)
    if form is None:
        show_newest(shown, output, most)
    elif form is Interchange.MD:
        if not shown.rows:
            tell(shown.nothing)
        hand_over(markdown_table(shown, most=len(shown.rows)))
    else:
        jobs = {row["job"] for row in shown.rows}
        hand_over(_write_results([row for row in result_rows if row.job in jobs], form, models))
    if form:
        tell_cut(len(rows), most)


def _write_results(
    result_rows: list[ResultRow], form: Interchange, models: Mapping[int, ModelResult]
) -> str:
    """The results in the form of another tool, kernels in one part and models in another."""
    text = WRITERS[form](result_rows) if form in WRITERS else ""
    if form in llama_bench.WRITERS:
        tests, others = llama_bench.benches(result_rows, models)
        text += llama_bench.WRITERS[form](tests)
        if others:
            timings = count_of(others, "timing")
            tell(
                f"left out {timings} of several sequences at once, which llama-bench does not have"
            )
    return text


def _models(tx: Transaction, result_rows: list[ResultRow]) -> Mapping[int, ModelResult]:
    """What is stored of whole models beside their rows, by job."""
    from vkbench_db.ask.model_results import model_results

    return model_results(tx, [row.job for row in result_rows if row.kernel == MODEL])


def _modes(mode: Mode, run: str) -> list[Mode]:
    """The modes to show: all of a named run; otherwise no pairs, unless --mode asks for them."""
    if mode is Mode.BOTH:
        return [] if run else [Mode.CORRECTNESS, Mode.PERFORMANCE]
    return [mode]


def _works_of(suite: str, mode: Mode) -> set[tuple[str, str]]:
    """The cases of a suite, each with its mode, on any device."""
    from vkbench_scheduler.planning.plan import tasks
    from vkbench_scheduler.planning.suites import suite_named

    planned = tasks(suite_named(suite), Selection(mode=mode))
    return {(task.case.name, task.mode) for task in planned}


def _has_shape(text: str, shapes: list[dict[str, int]]) -> bool:
    if not shapes:
        return True
    sizes = parse_shape(text.replace("_", ","))
    return any(shape.items() <= sizes.items() for shape in shapes)
