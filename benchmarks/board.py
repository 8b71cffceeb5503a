"""How long a board of many labs takes, in how much memory, and how large its pages are.

    python benchmarks/board.py FOLDER                                 1,000 exports of 5,000 results
    python benchmarks/board.py FOLDER --exports 100 --ending jsonl.xz

The exports have the jobs of docs/results (each with its samples), again and again, with times that
scatter, on devices of ten classes by five drivers each; every class is calibrated by the way.
Building is a command of its own, and memory is what its processes take together; afterwards one
more export comes and the board is built again.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import lzma
import resource
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

sys.path.append(sys.path.pop(0))  # this folder's queue.py is not the standard library's

from vkbench.device import Environment, device_key

RECORDED = Path(__file__).parents[1] / "docs/results"
SOURCES = ("h100-quant-perf.jsonl.xz", "h100-transformer-perf.jsonl.xz")
CLASSES, DRIVERS = 10, 5
DEVICE, ENVIRONMENT = "THE-DEVICE", "THE-ENVIRONMENT"  # what recorded jobs name instead of theirs
MOST_SECONDS, MOST_MEMORY, MOST_PAGE = 600.0, 200 << 20, 300 << 10


@cache
def read_recorded() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], list[str]]:
    """A run, a device, an environment, and the jobs of exports that are there, as text."""
    jobs: list[str] = []
    for source in SOURCES:
        with lzma.open(RECORDED / source, "rt") as file:
            lines = file.readlines()
        facts = [json.loads(line) for line in lines[1:4]]
        key, sha = facts[1]["device"]["key"], facts[2]["environment"]["hash"]
        jobs += [
            line.replace(key, DEVICE).replace(sha, ENVIRONMENT)
            for line in lines
            if line.startswith('{"job"')
        ]
    run, device, environment = (next(iter(fact.values())) for fact in facts)
    return run, device, environment, jobs


def make_export(number: int, results: int) -> Iterator[str]:
    """The lines of one lab's export."""
    run, device, environment, jobs = read_recorded()
    random = Random(number)
    kind, driver = number % CLASSES, random.randrange(DRIVERS)
    host, own_uuid = f"lab-{number}", f"{number:032x}"
    key = device_key(host, own_uuid)
    facts = Environment(**environment["facts"])
    facts = replace(facts, driver_version=f"580.{driver}")
    device = device | {"host": host, "uuid": own_uuid, "key": key, "name": f"Device {kind}"}
    run = run | {"uuid": str(uuid.UUID(int=number)), "label": host}
    digest = hashlib.sha256()

    def line(record: str) -> str:
        digest.update(record.encode())
        return record

    yield line(_text(header={"format": "vkbench-results", "version": 1, "jobs": results}))
    yield line(_text(run=run))
    yield line(_text(device=device))
    yield line(
        _text(
            environment={
                "hash": facts.hash,
                "facts": environment["facts"] | {"driver_version": facts.driver_version},
            }
        )
    )
    for position in range(results):
        text = jobs[position % len(jobs)]
        text = text.replace(DEVICE, key).replace(ENVIRONMENT, facts.hash)
        text = scatter_seconds(text, random.gauss(1.0, 0.03))
        yield line(text.replace('"position":', f'"position":{position},"was":', 1))
    yield _text(end={"jobs": results, "sha256": digest.hexdigest()})


def scatter_seconds(text: str, factor: float) -> str:
    """A job's line whose timings took a little more or less."""
    head, mark, rest = text.partition('"timings":[')
    parts = rest.split('"seconds":')
    for place in range(1, len(parts)):
        number, comma, tail = parts[place].partition(",")
        parts[place] = f"{float(number) * factor:.9e}{comma}{tail}"
    return head + mark + '"seconds":'.join(parts)


def write_exports(folder: Path, numbers: range, results: int, ending: str) -> None:
    """Write exports as so many labs would hand them in."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        path = folder / f"lab-{number}.{ending}"
        if ending.endswith("gz"):
            with gzip.open(path, "wt", compresslevel=1) as file:
                file.writelines(make_export(number, results))
        elif ending.endswith("xz"):
            with lzma.open(path, "wt", preset=0) as file:
                file.writelines(make_export(number, results))
        else:
            with path.open("w") as file:
                file.writelines(make_export(number, results))


def build(exports: Path, out: Path) -> dict[str, float]:
    """Build the board by the command; what it took."""
    begin = time.monotonic()
    command = [Path(sys.prefix, "bin", "vkbench"), "board", "build", exports, out]
    most = 0
    with subprocess.Popen(command) as process:
        while process.poll() is None:
            most = max(most, sum(map(measure_memory, list_family(process.pid))))
            time.sleep(0.5)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    pages = [path.stat().st_size for path in out.rglob("*") if path.is_file()]
    return {
        "seconds": time.monotonic() - begin,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "memory_bytes": most,
        "files": len(pages),
        "largest_bytes": max(pages),
        "all_bytes": sum(pages),
        "index_bytes": out.with_name(f"{out.name}.board.sqlite").stat().st_size,
    }


def forget_build(folder: Path, one_more: str) -> None:
    """Remove what an earlier run built, and the export that came after it."""
    shutil.rmtree(folder / "site", ignore_errors=True)
    for path in (folder / "site.board.sqlite", folder / "exports" / one_more):
        path.unlink(missing_ok=True)


def list_family(process: int) -> Iterator[int]:
    """A process and those that it began, and theirs."""
    yield process
    for path in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in path.read_text().split():
                yield from list_family(int(child))


def measure_memory(process: int) -> int:
    """The bytes of a process, of which those that several share count in part; 0 if it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    return 0


def _text(**record: Any) -> str:
    return json.dumps(record, separators=(",", ":")) + "\n"


def main() -> int:
    """Measure, print, and say by the exit code whether all limits hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--exports", type=int, default=1000)
    parser.add_argument("--results", type=int, default=5000)
    parser.add_argument("--ending", default="jsonl.gz")
    parser.add_argument(
        "--reuse", action="store_true", help="measure with the exports of an earlier run"
    )
    chosen = parser.parse_args()
    exports, out = chosen.folder / "exports", chosen.folder / "site"
    begin = time.monotonic()
    if chosen.reuse:
        forget_build(chosen.folder, f"lab-{chosen.exports}.{chosen.ending}")
    else:
        write_exports(exports, range(chosen.exports), chosen.results, chosen.ending)
    print(f"exports written in {time.monotonic() - begin:.0f} s", flush=True)
    whole = build(exports, out)
    print(
        f"{chosen.exports} exports: {whole['seconds']:.0f} s, "
        f"{whole['cpu_seconds']:.0f} s of a core, {whole['all_bytes'] / 1e6:.0f} MB of "
        f"pages, the largest {whole['largest_bytes'] / 1e3:.0f} kB, "
        f"{whole['memory_bytes'] / 1e6:.0f} MB of memory\n{json.dumps(whole)}",
        flush=True,
    )
    one_more = range(chosen.exports, chosen.exports + 1)
    write_exports(exports, one_more, chosen.results, chosen.ending)
    print(json.dumps(build(exports, out)), flush=True)
    share = chosen.exports * chosen.results / 5_000_000
    is_within = (
        whole["seconds"] <= MOST_SECONDS * share
        and whole["memory_bytes"] <= MOST_MEMORY
        and whole["largest_bytes"] <= MOST_PAGE
    )
    return 0 if is_within else 1


if __name__ == "__main__":
    sys.exit(main())
