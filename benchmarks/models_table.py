"""A page of whole models, from exported JSONL.

cd docs/results
python ../../benchmarks/models_table.py models-h200.*.jsonl > h200-models.md
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from timings import Build, Row, build_of, day_of, said_of_builds, table_of_builds

from vkbench_shaders.models.cases import named

_OURS = (
    "Tokens a second of seeded weights, all on the GPU, one sequence; logits were judged right "
    "first. `m1b` has the shapes of Llama-3.2-1B, `m8b` those of Llama-3-8B, with all matrices in "
    "the format of the name; `mixtral8` is eight layers of Mixtral 8x7B in q4_K_M."
)
_TIMED = (
    "A prompt's tokens are read at once up to the logits of the last one; a generation is timed at "
    "one token behind 127 others. By the device's timestamps. Beside llama.cpp, in turns on one "
    "GPU: [ggml](h100-ggml.md)."
)
Rate = tuple[str, str, float, Build]  # case, variant, tokens a second


def rates(path: Path) -> Iterator[Rate]:
    """The timings of an export that were judged right."""
    records = [json.loads(line) for line in path.read_text().splitlines()]
    day = day_of(records)
    for job in (record["job"] for record in records if "job" in record):
        if job["state"] == "passed" and job.get("timings"):
            rate = named(job["case"]).timed / job["timings"][0]["seconds"]
            yield str(job["case"]), job["attempts"][-1]["variant"], rate, build_of(job, day)


def page(found: Sequence[Rate]) -> Iterator[str]:
    """The whole page."""
    yield "# Whole models: NVIDIA H200, driver NVIDIA 580.159.04\n"
    builds = [build for *_, build in found]
    for text in (_OURS, _TIMED, said_of_builds(builds)):
        yield from (*wrap(text, 92), "")
    rows: Iterator[Row] = (
        ((case, variant, f"{rate:.0f}"), [build]) for case, variant, rate, build in found
    )
    yield from table_of_builds(["case", "variant", "tokens/s"], rows, max(builds))


def main(arguments: Sequence[str]) -> None:
    found = [rate for path in map(Path, arguments) for rate in rates(path)]
    print("\n".join(page(found)))


if __name__ == "__main__":
    main(sys.argv[1:])
