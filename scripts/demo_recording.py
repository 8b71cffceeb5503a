"""Write the recording that `vkbench demo` starts from: docs/results of H200s in short.

    python scripts/demo_recording.py

Of each kernel, its formats and its code path one case is kept, the one that moves most bytes, and
one for a single vector.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vkbench_local.demo.recording import FILE

RESULTS = Path(__file__).parents[1] / "docs" / "results"
VERDICT = ("path", "nmse", "nmse_limit", "max_abs", "max_abs_limit", "compared", "total")
TIMING = (
    *("metric", "seconds", "mad", "count", "launches", "stop", "bytes_moved", "flops"),
    "warnings",
)


def recording() -> Mapping[str, Any]:
    """The newest device and environment, and the cases that are kept."""
    found: dict[str, Any] = {}
    kept: dict[tuple[str, str, bool], Mapping[str, Any]] = {}
    for kind, record in records():
        if kind == "device":
            found["device"] = record
        elif kind == "environment":
            found["environment"] = record["facts"]
        elif kind == "job" and record["state"] == "passed" and len(record["timings"]) > 1:
            case = short(record)
            formats = "/".join(case["case"].split("/")[:2])
            key = formats, case["variant"], "_n1_" in case["case"]
            if key not in kept or size(case) >= size(kept[key]):
                kept[key] = case
    return found | {"cases": [kept[key] for key in sorted(kept)]}


def records() -> Iterator[tuple[str, Any]]:
    """The lines of all exports of H200s, the oldest export first."""
    for path in sorted(RESULTS.glob("*h200*.jsonl"), key=began):
        for line in path.read_text().splitlines():
            yield from json.loads(line).items()


def began(path: Path) -> float:
    """When the run of an export was submitted."""
    return float(json.loads(path.read_text().splitlines()[1])["run"]["created_at"])


def short(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the demonstration needs of a job."""
    [settled] = [each for each in job["attempts"] if each["token"] == job["settled_token"]]
    return {
        "case": job["case"],
        "variant": settled["variant"].partition(":")[0],
        **{name: rounded(job["verdict"][name]) for name in VERDICT},
        "timings": [{name: rounded(each[name]) for name in TIMING} for each in job["timings"]],
    }


def rounded(value: Any) -> Any:
    """A number with the digits that matter."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def size(case: Mapping[str, Any]) -> int:
    """Bytes that a launch moves."""
    return max(timing["bytes_moved"] for timing in case["timings"])


def packed() -> bytes:
    """The recording as it ships: the same bytes whenever it is made."""
    return gzip.compress(json.dumps(recording(), separators=(",", ":")).encode(), 9, mtime=0)


if __name__ == "__main__":
    FILE.write_bytes(packed())
    print(f"{FILE}: {len(recording()['cases'])} cases, {FILE.stat().st_size / 1e3:.0f} kB")
