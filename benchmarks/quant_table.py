"""A page of what suite quant-perf found, from its exported JSONL, beside other people's figures.

    cd docs/results
    python ../../benchmarks/quant_table.py ggml-vulkan-h200.csv h200-*.jsonl > h200-quant-perf.md

The first file has columns format, n1_us, n512_us: MUL_MAT of m 4096 and k 14336.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from vkbench_shaders import catalogue, formats
from vkbench_shaders.kernel import Problem

COLUMNS = (1, 2, 3, 4, 5, 8)
VEC = "mul_mat_vec/{}/m4096_n{}_k14336"
MAT = "mul_mat/{}/m4096_n512_k14336"
MODELS = ("e128_u8_m768_n{}_k2048", "e32_u4_m1792_n{}_k2048")


@dataclass(frozen=True, kw_only=True)
class Found:
    """One timed case."""

    variant: str
    hot: float  # seconds
    cold: float


Results = Mapping[str, Found]


def read(paths: Iterable[Path]) -> tuple[Results, str]:
    """Timed cases by name, the last of each, and a line about the device and its environment."""
    found: dict[str, Found] = {}
    about: dict[str, Mapping[str, object]] = {}
    for line in chain.from_iterable(path.read_text().splitlines() for path in paths):
        record = json.loads(line)
        about |= {kind: record[kind] for kind in ("device", "environment") if kind in record}
        job = record.get("job")
        if job and job["state"] == "passed" and job.get("timings"):
            times = {timing["metric"]: timing["seconds"] for timing in job["timings"]}
            variant = job["attempts"][-1]["variant"]
            found[job["case"]] = Found(variant=variant, hot=times["hot"], cold=times["cold"])
    facts = about["environment"]["facts"]
    assert isinstance(facts, dict)
    driver = f"{facts['driver']} {facts['driver_version']}"
    return found, f"{about['device']['name']}, driver {driver}, {len(found)} cases"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a Markdown table; all columns but the first to the right."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'|'.join(['---'] + ['--:'] * (len(head) - 1))}|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def micro(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1e6:.1f}"


def hot(results: Results, name: str) -> float | None:
    return results[name].hot if name in results else None


def posed(name: str) -> Problem:
    return catalogue.problem(name)


def with_x(fmt: str, x: str) -> str:
    return fmt if x == "f32" else f"{fmt}:x={x}"


def vec_rows(
    results: Results, others: Mapping[str, Mapping[str, float]]
) -> Iterator[Sequence[str]]:
    """n 1, hot and cold, by both kinds of vectors, beside the other's."""
    for fmt in (*formats.PLAIN, *formats.WEIGHTS):
        plain, blocks = (results.get(VEC.format(with_x(fmt, x), 1)) for x in ("f32", "q8_1"))
        if not plain:
            continue
        best = min(plain, blocks or plain, key=lambda found: found.hot)
        rate = posed(VEC.format(fmt, 1)).bytes_moved / best.hot / 1e9
        theirs = others.get(fmt, {}).get("n1_us")
        yield (
            fmt,
            micro(plain.hot),
            micro(plain.cold),
            micro(blocks and blocks.hot),
            micro(blocks and blocks.cold),
            f"{rate:.0f}",
            f"{theirs:.1f}" if theirs else "",
            f"{theirs / (plain.hot * 1e6):.2f}" if theirs else "",
            f"{theirs / (best.hot * 1e6):.2f}" if theirs else "",
        )


def columns_rows(results: Results) -> Iterator[Sequence[str]]:
    for fmt in (*formats.PLAIN, *formats.WEIGHTS):
        for x in ("f32", "q8_1"):
            times = [hot(results, VEC.format(with_x(fmt, x), n)) for n in COLUMNS]
            if any(times):
                yield (f"{fmt}, {x}", *map(micro, times))


def mat_rows(
    results: Results, others: Mapping[str, Mapping[str, float]]
) -> Iterator[Sequence[str]]:
    for fmt in (*formats.PLAIN, *formats.WEIGHTS):
        plain, blocks = (hot(results, MAT.format(with_x(fmt, x))) for x in ("f32", "q8_1"))
        if plain is None:
            continue
        flops, theirs = posed(MAT.format(fmt)).flops, others.get(fmt, {}).get("n512_us")
        yield (
            fmt,
            micro(plain),
            f"{flops / plain / 1e12:.1f}",
            micro(blocks),
            f"{flops / blocks / 1e12:.1f}" if blocks else "",
            f"{theirs:.0f}" if theirs else "",
        )


def expert_rows(results: Results) -> Iterator[Sequence[str]]:
    for fmt in (*formats.PLAIN, *formats.WEIGHTS):
        names = [
            f"{kernel}/{with_x(fmt, x)}/{model.format(n)}"
            for kernel, n in (("mul_mat_vec_id", 1), ("mul_mat_id", 512))
            for model in MODELS
            for x in ("f32", "q8_1")
        ]
        if any(name in results for name in names):
            yield (fmt, *(micro(hot(results, name)) for name in names))


def other_rows(results: Results) -> Iterator[Sequence[str]]:
    for name, found in results.items():
        if not name.startswith("mul_mat"):
            rate = posed(name).bytes_moved / found.hot / 1e9
            yield (name, micro(found.hot), micro(found.cold), f"{rate:.0f}")


def page(results: Results, about: str, others: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """The whole page."""
    yield f"# Suite quant-perf: {about}\n"
    yield "Microseconds of one launch, the barrier behind it included; GPU timestamps, medians."
    yield "Every output was judged right. ggml-vulkan's figures are of another run, on such a"
    yield "GPU with that driver: test-backend-ops, x of f32, which it quantises where that pays.\n"
    yield "## mul_mat_vec, m 4096 n 1 k 14336\n"
    head = (
        "weights|x f32 hot|cold|x q8_1 hot|cold|best GB/s|ggml|f32 is faster by|best is faster by"
    )
    yield from table(head.split("|"), vec_rows(results, others))
    yield "\n## mul_mat_vec, m 4096 k 14336, by columns, hot\n"
    yield from table(["weights, x", *(f"n {n}" for n in COLUMNS)], columns_rows(results))
    yield "\n## mul_mat, m 4096 n 512 k 14336, hot\n"
    head = "weights|x f32|TFLOP/s|x q8_1|TOP/s|ggml (cooperative matrices)"
    yield from table(head.split("|"), mat_rows(results, others))
    yield "\n## Experts, hot\n"
    models = ["128/8/768/2048 f32", "q8_1", "32/4/1792/2048 f32", "q8_1"]
    head = ["weights", *(f"n 1, {model}" for model in models), *(f"n 512, {m}" for m in models)]
    yield from table(head, expert_rows(results))
    yield "\n## Rows and blocks\n"
    yield from table(["case", "hot", "cold", "GB/s"], other_rows(results))


def main(arguments: Sequence[str]) -> None:
    results, about = read(map(Path, arguments[1:]))
    with Path(arguments[0]).open() as file:
        others = {
            row["format"]: {key: float(row[key]) for key in ("n1_us", "n512_us")}
            for row in csv.DictReader(file)
        }
    print("\n".join(page(results, about, others)))


if __name__ == "__main__":
    main(sys.argv[1:])
