"""A page of whole models, from exported JSONL, beside llama.cpp's figures.

    cd docs/results
    python ../../benchmarks/models_table.py llama-cpp-h200.csv models-h200.*.jsonl > h200-models.md

The first file has columns model, phase, tokens_per_second: what names of cases begin and end with.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap

from timings import Build, Row, build_of, day_of, said_of_builds, table_of_builds, times

from vkbench_shaders.models.cases import named

_OURS = (
    "Tokens a second of seeded weights, all on the GPU, one sequence; logits were judged right "
    "first. `m1b` has the shapes of Llama-3.2-1B, `m8b` those of Llama-3-8B, with all matrices in "
    "the format of the name; `mixtral8` is eight layers of Mixtral 8x7B in q4_K_M."
)
_BOTH = (
    "Includes, on both sides: a prompt's tokens read at once up to the logits of the last one, or "
    "one token behind 127 others. llama.cpp: its Vulkan backend (release v0.5.0, flash attention "
    "auto) on another day, on such a GPU with that driver, by the host's clock, with the host's "
    "work between tokens, the mean of 128 tokens. Ours: by the device's timestamps."
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


def row(found: Rate, others: Sequence[Mapping[str, str]]) -> Row:
    """A model's row, beside llama.cpp where that was asked for the same."""
    case, variant, rate, build = found
    model, phase = case.removeprefix("model/").split("/")[:2]
    theirs = [
        float(other["tokens_per_second"])
        for other in others
        if model.removeprefix("m").startswith(other["model"]) and phase == other["phase"]
    ]
    beside = (f"{theirs[0]:.0f}", times(rate / theirs[0])) if theirs else ("", "")
    return (case, variant, f"{rate:.0f}", *beside), [build]


def page(found: Sequence[Rate], others: Sequence[Mapping[str, str]]) -> Iterator[str]:
    """The whole page."""
    yield "# Whole models: NVIDIA H200, driver NVIDIA 580.159.04\n"
    builds = [build for *_, build in found]
    for text in (_OURS, _BOTH, said_of_builds(builds)):
        yield from (*wrap(text, 92), "")
    head = ["case", "variant", "tokens/s", "llama.cpp", "faster by"]
    yield from table_of_builds(head, (row(each, others) for each in found), max(builds))


def main(arguments: Sequence[str]) -> None:
    with Path(arguments[0]).open() as file:
        others = list(csv.DictReader(file))
    found = [rate for path in map(Path, arguments[1:]) for rate in rates(path)]
    print("\n".join(page(found, others)))


if __name__ == "__main__":
    main(sys.argv[1:])
