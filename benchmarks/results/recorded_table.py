"""The comparisons with torch that `make plans` cites, from the exports of the page beside torch.

`python benchmarks/results/result_pages.py` writes plans/recorded.csv with the pages.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from pathlib import Path

from peers_table import comparisons
from timings import machine_of, read_exports

COLUMNS = ("case", "peer", "theirs_us", "ours_us", "device", "build")


def main(arguments: Sequence[str]) -> None:
    peer, *files = arguments
    exports = list(read_exports(map(Path, files)))
    lines = csv.DictWriter(sys.stdout, COLUMNS, lineterminator="\n")
    lines.writeheader()
    compared = {
        comparison.case: comparison
        for export in exports
        for comparison in comparisons(export, peer)
        if not comparison.is_too_noisy
    }
    for case, comparison in sorted(compared.items()):
        times = {"theirs": comparison.theirs.value, "ours": comparison.ours.value}
        microseconds = {f"{side}_us": f"{value * 1e6:.1f}" for side, value in times.items()}
        about = {"device": machine_of(exports[-1]), "build": comparison.build}
        lines.writerow({"case": case, "peer": peer, **microseconds, **about})


if __name__ == "__main__":
    main(sys.argv[1:])
