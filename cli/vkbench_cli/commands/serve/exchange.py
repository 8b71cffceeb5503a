"""`vkbench export` and `vkbench import`: results between hosts without a network."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from vkbench.errors import UsageError
from vkbench.words.units import count_of
from vkbench_cli import completion
from vkbench_cli.options.records import RUN_HELP, Sign, Store
from vkbench_cli.show.telling import Elapsed, say, tell
from vkbench_cli.store import open_database, reading


def export(
    *,
    run: Annotated[str, Argument(metavar="RUN", help=RUN_HELP)],
    output: Annotated[
        Path,
        Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the results to this file, compressed if it ends with .gz or .xz.",
        ),
    ],
    sign: Sign = None,
    store: Store,
) -> None:
    """Export the results of a run to a file that `import` reads."""
    from vkbench_cli.exporting import export_run
    from vkbench_db.ask.queries import find_run

    with reading(store.settings()) as tx:
        run_row = find_run(tx, run)
    with open_database(store.settings()) as database:
        export_run(database, run_row.id, output, sign)
    tell(f"run {run_row.id} ({count_of(run_row.progress.total, 'job')}) -> {output}")


def import_(
    *,
    file: Annotated[
        Path | None,
        Argument(
            metavar="FILE", help="File that `vkbench export` or `vkbench run --export` wrote."
        ),
    ] = None,
    llama_bench: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="File that llama-bench of llama.cpp wrote as JSON, JSON lines, CSV or SQL: its "
            "timings of whole models stand beside vkbench's.",
        ),
    ] = None,
    ggml: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="File that `test-backend-ops perf` of llama.cpp wrote for people, as SQL or CSV: "
            "its timings of operations stand beside vkbench's.",
        ),
    ] = None,
    google_benchmark: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="JSON of Google Benchmark, whose benchmarks are named as vkbench's cases.",
        ),
    ] = None,
    nvbench: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="JSON of nvbench, whose axis `case`, or whose benchmark, names vkbench's case.",
        ),
    ] = None,
    peer: Annotated[
        str,
        Option(
            metavar="NAME",
            help="With --google-benchmark, --nvbench: the program's name in results.",
        ),
    ] = "",
    build: Annotated[
        str,
        Option(
            metavar="BUILD",
            help="With another program's file: the build that it is of, whose series it joins.",
            autocompletion=completion.builds,
        ),
    ] = "",
    program: Annotated[
        str,
        Option(
            metavar="PROGRAM",
            help="With --build: its program, if the build is known by its name alone.",
            autocompletion=completion.programs,
        ),
    ] = "",
    device: Annotated[
        str,
        Option(
            "--device",
            "-d",
            metavar="SELECTOR",
            help="The device that another program ran on, if its file does not tell.",
            autocompletion=completion.devices,
        ),
    ] = "",
    model: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="With --llama-bench: the GGUF file it ran, if vkbench has no result of it yet.",
        ),
    ] = None,
    store: Store,
) -> None:
    """Import results that another host exported, or llama.cpp's own.

    Importing a file again changes nothing. The database is created if it does not exist. New
    results are compared with the stored ones and with each other; `vkbench regressions ls` lists
    what was found.

    \b
    vkbench import results.jsonl
    vkbench import --llama-bench bench.json --device H200
    vkbench import --ggml ops.sql
    vkbench import --nvbench cub.json --peer cub
    vkbench import --ggml ops.sql --build b9000
    """
    from vkbench_cli.builds import find_imported_build
    from vkbench_cli.exporting import import_file, import_ggml, import_llama_bench, import_named
    from vkbench_cli.show.report import UNSCREENED
    from vkbench_db.database import Database
    from vkbench_detection.steps import detect

    named = google_benchmark or nvbench
    if sum(map(bool, (file, llama_bench, ggml, google_benchmark, nvbench))) != 1:
        raise UsageError(
            "give one file: of an export, or by --llama-bench, --ggml, --google-benchmark or "
            "--nvbench"
        )
    if file and (device or model):
        raise UsageError("--device and --model are of other programs: an export names both")
    if model and not llama_bench:
        raise UsageError("--model is of --llama-bench: other files are of single operations")
    if peer and not named:
        raise UsageError("--peer is of --google-benchmark and --nvbench: others have a name")
    if file and (build or program):
        raise UsageError("--build is of other programs' files: an export names its builds")
    if program and not build:
        raise UsageError("--program is of --build: name the build that the file is of")
    if build and peer:
        raise UsageError("a build's results have its program's name: give --build or --peer")
    with Database.open(store.settings().database_url(), create=True) as database:
        of = find_imported_build(database, build, program) if build else None
        if llama_bench:
            imported = import_llama_bench(database, llama_bench, device, model, of)
        elif ggml:
            imported = import_ggml(database, ggml, device, of)
        elif named:
            is_google = bool(google_benchmark)
            imported = import_named(database, named, device, peer, of, is_google=is_google)
        else:
            assert file
            imported = import_file(database, file)
        with Elapsed("comparing the new results with earlier ones"):
            detected = detect(database, time.time(), all_at_once=True)
    runs = ", ".join(map(str, imported.runs))
    lost = f"; {count_of(imported.losses, 'row')} of accuracy" if imported.losses else ""
    say(
        f"run {runs}: {count_of(imported.new, 'job')} new, {imported.updated} went on, "
        f"{imported.known} known; {count_of(imported.attempts, 'attempt')} new{lost}"
    )
    if of and of.is_name_alone:
        tell(
            f"build {of.name} of {of.program} is known by its name alone: pairs cannot confirm "
            "its changes"
        )
    if detected.opened:
        say(f"new in `vkbench regressions ls`: {len(detected.opened)}")
    if detected.is_unscreened:
        tell(UNSCREENED)
