"""Eight releases of ggml's Vulkan backend on lavapipe, judged, timed and searched: `make builds`.

Each does what suite `ggml` has for processors: products of one vector, and what is done to rows.
Then the last three get a fault, a slow one and a wrong one in turn, and a bisection over the eight
has to name the third last.

    python tests/planted/eight_builds.py                 in the Python of scripts/new-lavapipe
    python tests/planted/eight_builds.py --seconds 0.5   of sampling a case
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from planted_builds import add_planted, add_shipped
from vkbench.programs.store import BuildStore
from vkbench.settings import settings

# Oldest first, as scripts/ggml calls them.
RELEASES = ("b4234", "b4980", "b6301", "b7347", "b8121", "b8390", "b10361", "v0.5.0")
FIRST_BAD = len(RELEASES) - 3
SEARCHED = "mul_mat_vec/q4_0/m1024_n1_k4096"


def main() -> int:
    """Do it all in a folder that goes afterwards; 1 if anything was not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", default="0.2", help="of sampling a case")
    seconds = parser.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VKBENCH_DATA"] = folder
        store = BuildStore(settings().build_folder())
        places = {name: Path(sys.prefix).parent / "ggml-builds" / name for name in RELEASES}
        for name, place in places.items():
            add_shipped(store, place, name)
        failed = [name for name in RELEASES if not _run_release(name, seconds)]
        for fault in ("slow", "wrong"):
            labels = [*RELEASES[:FIRST_BAD]]
            for name in RELEASES[FIRST_BAD:]:
                labels.append(f"{name}-{fault}")
                add_planted(store, places[name], fault, Path(folder, labels[-1]), labels[-1])
            failed += [] if _bisect_builds(labels, labels[FIRST_BAD], seconds) else [fault]
    print(f"not as it should be: {', '.join(failed)}" if failed else "all as it should be")
    return int(bool(failed))


def _run_release(name: str, seconds: str) -> bool:
    """Judge and time the suite's cases by a release; whether all are right or skipped."""
    began = time.monotonic()
    answer = _ask("run", "--build", name, "--suite", "ggml", "--seconds", seconds)
    verdicts = Counter(row["verdict"] for row in answer["rows"])
    reasons = Counter(row["reason"] for row in answer["rows"] if row["verdict"] != "passed")
    told = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
    print(f"{name}: {told}, in {time.monotonic() - began:.0f} s", flush=True)
    for reason, count in reasons.items():
        print(f"    {count} {reason}", flush=True)
    return verdicts["passed"] > 0 and verdicts.keys() <= {"passed", "skipped"}


def _bisect_builds(labels: Sequence[str], first_bad: str, seconds: str) -> bool:
    """Search builds for the first bad one; whether it is the one that was planted."""
    began = time.monotonic()
    chosen = ("--case", SEARCHED, "--seconds", seconds)
    answer = _ask("bisect", *chosen, "--builds", ",".join(labels))
    named = [row["label"] for row in answer["rows"] if row["is_first_bad"]]
    told = ", ".join(f"{row['label']} {row['verdict']}" for row in answer["rows"])
    print(f"bisect: {told}, in {time.monotonic() - began:.0f} s", flush=True)
    return named == [first_bad]


def _ask(*words: str) -> Mapping[str, Any]:
    """What a command on the newer lavapipe answers as JSON."""
    command = [str(Path(sys.prefix, "bin", "vkbench")), *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    answer: Mapping[str, Any] = json.loads(done.stdout)
    return answer


if __name__ == "__main__":
    sys.exit(main())
