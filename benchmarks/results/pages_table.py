"""The page of docs/results that says how long the pages take: from what pages.py wrote.

python benchmarks/results/pages_table.py docs/results/pages-*.csv > docs/results/pages.md
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_ABOUT = """# Pages on 5,000,000 results

How long does a page of `vkbench web` take where the database is large? The table has milliseconds
from a request to the last byte of its answer, by `benchmarks/pages.py`: `vkbench web` serves a
database of 5,000,000 results in 25,000 series on the same machine, which has two cores and nothing
else to do. CPU is the time of the server; PostgreSQL has its own processes. Each page
was asked for 12 times, with different devices, runs, series and kernels; the first time, which
imports what a page needs, is left out.

A page should take 300 ms at the median. 50 people should read at once with 95 of 100 pages within
a second: each opens a page, reads it for 5 s in the mean, and opens another one.

The figures are older than the home page. On 28 November 2026 some pages were asked for again, with
5,080,000 results in PostgreSQL, builds and 48,000 canaries among them. The machine was not idle:
ten other processes wanted its two cores, so answers took ten times as long, and even processor time
was two to six times that of the table below (`/roofline` by bytes 186 ms, `/results` of a run
109 ms, `/fleet` 43 ms). So these are upper bounds: milliseconds of a core, the median of three.
"""
_BUSY = """
Comparisons were made cheaper then: a pair is judged once, and a build's few jobs are read once. On
29 November 2026 they were asked for 21 times each within one process, with 5,080,000 results, again
beside other work on both cores: milliseconds of the web's processor time, the least and the median.
Before, the same requests took 395 to 514 (least) and 556 to 580 (median) for builds on SQLite, 802
to 932 and 1,037 to 1,154 for devices, 708 to 745 and 907 to 1,001 for runs.

| comparison of | SQLite | PostgreSQL |
|---|--:|--:|
| two builds, the oldest and the newest | 307, 433 | 253, 329 |
| two devices, 6,350 timings | 436, 628 | 397, 533 |
| two runs, 6,250 timings | 422, 560 | 298, 461 |

A comparison of two builds reads the 4,000 jobs of each, and the histories of their 400 series: its
time follows what the builds did, and not the size of the database. All of this is over 300 ms on a
busy machine; an idle one was not to be had.
"""

_BUSY_FILE = Path(__file__).parents[2] / "docs/results/busy-pages.csv"

Row = Mapping[str, str]


def page(files: Mapping[str, Sequence[Row]]) -> Iterator[str]:
    """The page, line by line."""
    yield _ABOUT
    yield "| page | web | PostgreSQL |\n|---|--:|--:|"
    with _BUSY_FILE.open(newline="") as file:
        yield from (f"| {' | '.join(row.values())} |" for row in csv.DictReader(file))
    yield _BUSY
    names = list(files)
    heads = [f"{name} {what}" for name in names for what in ("median", "p95", "CPU")]
    yield f"| page | {' | '.join(heads)} | kB |"
    yield f"|---{'|--:' * (len(heads) + 1)}|"
    by_page = {name: {row["page"]: row for row in rows} for name, rows in files.items()}
    for shown in dict.fromkeys(row["page"] for rows in files.values() for row in rows):
        page_rows = [by_page[name].get(shown) for name in names]
        cells = [
            row[key] if row and not (key == "cpu_ms" and row[key] == "0") else ""
            for row in page_rows
            for key in ("median_ms", "p95_ms", "cpu_ms")
        ]
        sizes = [int(row["kB"]) for row in page_rows if row]
        name = shown if "readers" in shown else f"`{shown}`"
        yield f"| {name} | {' | '.join(cells)} | {max(sizes) or ''} |"


def main(arguments: Sequence[str]) -> None:
    """Print the page of these files."""
    files = {}
    for path in map(Path, arguments):
        with path.open(newline="") as file:
            files[path.stem.partition("-")[2]] = list(csv.DictReader(file))
    print("\n".join(page(files)))


if __name__ == "__main__":
    main(sys.argv[1:])
