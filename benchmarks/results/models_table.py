"""The page of whole models, from exports of suite models."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from timings import (
    Build,
    Machine,
    Row,
    build_of,
    day_of,
    machine_of,
    read_exports,
    said_of_builds,
    table_of_builds,
)

from vkbench_shaders.models.cases import model_case

_OURS = (
    "How many tokens a second do whole models make on this GPU? All weights lie on the GPU, and "
    "one sequence is computed at a time. Logits were judged right before they were timed. A model "
    "has the shapes of the real one that its name says, and its mixture of formats; its weights "
    "are random. Models of the suite that are missing here were not measured."
)
_TIMED = (
    "A prompt's tokens are read at once up to the logits of the last one; a generation is timed at "
    "one token behind 127 others. By the device's timestamps. Beside llama.cpp, in turns on one "
    "GPU: [ggml](h100-ggml.md)."
)
Rate = tuple[str, str, float, Build]  # case, variant, tokens a second


def rates(records: Sequence[Mapping[str, Any]]) -> Iterator[Rate]:
    """The timings of an export that were judged right."""
    day = day_of(records)
    for job in (record["job"] for record in records if "job" in record):
        if job["state"] == "passed" and job.get("timings"):
            rate = model_case(job["case"]).timed / job["timings"][0]["seconds"]
            yield str(job["case"]), job["attempts"][-1]["variant"], rate, build_of(job, day)


def page(measured: Sequence[Rate], machine: Machine) -> Iterator[str]:
    """The whole page."""
    yield f"# Whole models: {machine}\n"
    builds = [build for *_, build in measured]
    for text in (_OURS, _TIMED, said_of_builds(builds)):
        yield from (*wrap(text, 92), "")
    rows: Iterator[Row] = (
        ((case, variant, f"{rate:.0f}"), [build]) for case, variant, rate, build in measured
    )
    yield from table_of_builds(["case", "variant", "tokens/s"], rows, max(builds))


def main(arguments: Sequence[str]) -> None:
    exports = list(read_exports(map(Path, arguments)))
    measured = [rate for records in exports for rate in rates(records)]
    print("\n".join(page(measured, machine_of(exports[-1]))))


if __name__ == "__main__":
    main(sys.argv[1:])
