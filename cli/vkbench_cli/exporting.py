"""Runs written to files that another database can read, and read back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vkbench.selector import one
from vkbench.words.units import count_of
from vkbench_cli.files import check_readable, whole_file
from vkbench_cli.show.progress import CountedProgress
from vkbench_cli.show.telling import tell
from vkbench_db.ask import queries
from vkbench_db.database import Database, Transaction
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer import exchange
from vkbench_db.transfer.compressed import BROKEN, open_by_name
from vkbench_db.transfer.intake import import_records

if TYPE_CHECKING:
    from vkbench.programs.build import Build
    from vkbench_local.peers.imported import PeerFile, PeerTest, PeerTiming

T = TypeVar("T", bound="PeerTest")

KILOBYTE = 1000  # bytes


def export_run(database: Database, run: int, path: Path, key: Path | None = None) -> None:
    """Write a run with its results, completely or not at all, signed if there is a key.

    Names that end with .gz or .xz get compressed files.
    """
    with whole_file(path) as raw, open_by_name(raw, path, "wb") as file, database.reading() as tx:
        total = queries.find_run(tx, str(run)).progress.total
        with CountedProgress(f"export of run {run}", total) as progress:
            for line in progress.over(exchange.export_run(tx, run, key)):
                file.write(line.encode())


def import_file(database: Database, path: Path) -> exchange.Imported:
    """Read what `export_run` wrote, whole or not at all; what is known already stays as it is."""
    check_readable(path)
    total = path.stat().st_size // KILOBYTE
    with (
        CountedProgress(f"kB of {path.name}", total) as progress,
        path.open("rb") as raw,
        open_by_name(raw, path, "rb") as file,
        database.transaction() as tx,
    ):
        texts = TextIOWrapper(file, encoding="utf-8", errors="replace")

        def count_lines() -> Iterator[str]:
            for line in exchange.lines_of(texts):
                progress.tell(raw.tell() // KILOBYTE)
                yield line

        try:
            return exchange.import_lines(tx, count_lines(), time.time())
        except ImportRefused as error:
            raise ImportRefused(f"cannot import {path}: {error}") from error
        except BROKEN as error:
            kind = path.suffix[1:]
            raise ImportRefused(f"cannot import {path}: it is no whole {kind} file") from error


def import_llama_bench(
    database: Database, path: Path, device: str, model: Path | None, build: Build | None = None
) -> exchange.Imported:
    """Read what llama-bench printed, and store it as results of a peer.

    `device` names the device, and `model` the file, where what is stored does not tell them.
    With `build` they are results of that build instead, here as in the functions below.
    """
    from vkbench_db.ask.model_results import model_names
    from vkbench_local.peers.imported import PeerFile
    from vkbench_local.peers.llama_bench import PEER, check_one_model, llama_timing
    from vkbench_shaders.gguf_file import open_gguf
    from vkbench_shaders.models.cases import name_of
    from vkbench_worker.peers.llama_cpp.llama_bench_file import read_tests

    tests = read_tests(path)
    name = name_of(open_gguf(model)) if model else ""
    if name:
        check_one_model(tests)
    peer = build.program if build else PEER
    file = PeerFile(peer=peer, label=f"llama-bench {path.name}", build=build)
    with database.transaction() as tx:
        return _import_run(tx, device, file, tests, partial(llama_timing, model_names(tx), name))


def import_ggml(
    database: Database, path: Path, device: str, build: Build | None = None
) -> exchange.Imported:
    """Read what test-backend-ops printed, and store it as results of a peer."""
    from vkbench_local.peers.ggml import PEER, ggml_timing
    from vkbench_local.peers.imported import PeerFile
    from vkbench_worker.peers.llama_cpp.ggml_file import read_ops

    tests = read_ops(path)
    moment, peer = path.stat().st_mtime, build.program if build else PEER
    label = f"test-backend-ops {path.name}"
    file = PeerFile(peer=peer, label=label, moment=moment, build=build)
    with database.transaction() as tx:
        return _import_run(tx, device, file, tests, ggml_timing)


def import_named(
    database: Database,
    path: Path,
    device: str,
    peer: str,
    build: Build | None = None,
    *,
    is_google: bool,
) -> exchange.Imported:
    """Read what Google Benchmark or nvbench wrote, and store it as results of a peer."""
    from vkbench_local.peers import benchmark_files as files
    from vkbench_local.peers.imported import PeerFile
    from vkbench_worker.peers.programs import benchmark_files as read

    program = read.GOOGLE if is_google else read.NVBENCH
    own = peer or program.lower().replace(" ", "-")
    name = build.program if build else files.check_peer(own)
    tests = (read.read_google if is_google else read.read_nvbench)(path)
    label, moment = f"{name} {path.name}", path.stat().st_mtime
    file = PeerFile(peer=name, label=label, moment=moment, example=files.EXAMPLE, build=build)
    with database.transaction() as tx:
        return _import_run(tx, device, file, tests, partial(files.named_timing, program))


def _import_run(
    tx: Transaction,
    device: str,
    file: PeerFile,
    tests: Sequence[T],
    timing_of: Callable[[T], PeerTiming],
) -> exchange.Imported:
    """Store what a peer timed, and say which of its tests have no case."""
    from vkbench_local.peers.imported import peer_run

    known = [row.facts for row in queries.devices(tx)]
    run = peer_run(file, tests, timing_of, known, one(device, known) if device else None)
    for reason, count in run.left_out.items():
        tell(f"left out {count_of(count, 'test')} {reason}: vkbench has no such case")
    return import_records(tx, run.records, time.time())
