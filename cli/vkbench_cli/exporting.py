"""Runs written to files that another database can read, and read back."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path

from vkbench.selector import one
from vkbench.units import counted
from vkbench_cli.files import check_readable, whole_file
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.telling import tell
from vkbench_db.ask import queries
from vkbench_db.database import Database
from vkbench_db.transfer import exchange
from vkbench_db.transfer.intake import import_records

BLOCK_BYTES = 1 << 20  # read at once to count lines


def export_run(database: Database, run: int, path: Path) -> None:
    """Write a run with its results, completely or not at all."""
    with whole_file(path) as file, database.reading() as tx:
        total = queries.find_run(tx, str(run)).progress.total
        with CountedProgress(f"export of run {run}", total) as progress:
            for line in progress.over(exchange.export_run(tx, run)):
                file.write(line.encode())


def import_file(database: Database, path: Path) -> exchange.Imported:
    """Read what `export_run` wrote, whole or not at all; what is known already stays as it is."""
    with (
        CountedProgress(f"lines of {path.name}", _count_lines(path)) as progress,
        path.open(encoding="utf-8", errors="replace") as file,
        database.transaction() as tx,
    ):
        lines = progress.over(exchange.lines_of(file))
        return exchange.import_lines(tx, lines, time.time())


def import_peer(
    database: Database, path: Path, device: str, model: Path | None
) -> exchange.Imported:
    """Read what llama-bench printed, and store it as results of a peer.

    `device` names the device, and `model` the file, where what is stored does not tell them.
    """
    from vkbench_db.ask.model_results import model_names
    from vkbench_local.peers.llama_bench import peer_run
    from vkbench_local.peers.llama_bench_file import read_tests
    from vkbench_shaders.gguf_file import open_gguf
    from vkbench_shaders.models.cases import name_of

    tests = read_tests(path)
    name = name_of(open_gguf(model)) if model else ""
    with database.transaction() as tx:
        known = [row.facts for row in queries.devices(tx)]
        chosen = one(device, known) if device else None
        label, models = f"llama-bench {path.name}", model_names(tx)
        found = peer_run(tests, label, known, models, chosen, name)
        for reason, count in found.left_out.items():
            tell(f"left out {counted(count, 'test')} {reason}: vkbench has no such case")
        return import_records(tx, found.records, time.time())


def _count_lines(path: Path) -> int:
    check_readable(path)
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(partial(file.read, BLOCK_BYTES), b""))
