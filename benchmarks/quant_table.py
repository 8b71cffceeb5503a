"""A page of what suite quant-perf found, from its exported JSONL, beside other people's figures.

    cd docs/results
    python ../../benchmarks/quant_table.py ggml-vulkan-h200.csv h200-*.jsonl > h200-quant-perf.md

The first file has columns format, n1_us, n512_us: MUL_MAT of m 4096 and k 14336.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from textwrap import wrap

from timings import (
    Build,
    Found,
    Results,
    Row,
    builds_of,
    faster_by,
    micro,
    named,
    posed,
    read,
    said_of_builds,
    table_of_builds,
    times,
)

from vkbench_shaders import formats

COLUMNS = (1, 2, 3, 4, 5, 8)
VEC = "mul_mat_vec/{}/m4096_n{}_k14336"
MAT = "mul_mat/{}/m4096_n512_k14336"
MODELS = ("e128_u8_m768_n{}_k2048", "e32_u4_m1792_n{}_k2048")
ALL = (*formats.PLAIN, *formats.WEIGHTS)
Others = Mapping[str, Mapping[str, float]]  # by format: n1_us, n512_us


def with_x(fmt: str, x: str) -> str:
    return fmt if x == "f32" else f"{fmt}:x={x}"


def both(results: Results, name: str, fmt: str) -> tuple[Found | None, Found | None]:
    """A product with f32 vectors and with q8_1 vectors."""
    plain, blocks = (results.get(name.format(with_x(fmt, x))) for x in ("f32", "q8_1"))
    return plain, blocks


def by_name(results: Results, name: str, fmt: str) -> Found | None:
    """A product with f32 vectors by the code path that rounds them, or the weights."""
    if name.startswith("mul_mat_vec/"):
        path = "via_q8_1"
    else:
        path = "coopmat_to_bf16" if fmt == "bf16" else "coopmat"
    return results.get(named(name.format(fmt), path))


def faster(results: Results, name: str, fmt: str, theirs: float) -> float | None:
    """Their microseconds over those of the best of our ways to do a product."""
    ways = (*both(results, name, fmt), by_name(results, name, fmt))
    return faster_by(theirs / 1e6, ways)


def compared_rows(results: Results, name: str, theirs: Mapping[str, float]) -> Iterator[Row]:
    """A product of every format from f32 vectors to the result, beside the other's time."""
    for fmt in ALL:
        plain, blocks = both(results, name, fmt)
        if plain:
            other, rounding = theirs.get(fmt), by_name(results, name, fmt)
            ratio = faster(results, name, fmt, other) if other else None
            cells = (
                fmt,
                micro(plain.hot),
                micro(rounding and rounding.hot),
                micro(blocks and blocks.hot),
                micro(blocks and blocks.quantising),
                micro(blocks and blocks.whole),
                f"{other:.1f}" if other else "",
                times(ratio),
            )
            yield cells, builds_of((plain, rounding, blocks))


def on_the_whole(results: Results, name: str, theirs: Mapping[str, float]) -> str:
    """The geometric mean of the ratios, the least and the largest."""
    found = {fmt: faster(results, name, fmt, us) for fmt, us in theirs.items()}
    ratios = {fmt: ratio for fmt, ratio in found.items() if ratio is not None}
    if not ratios:
        return "No ratio: the export holds no time of quantising these vectors."
    least, most = (choose(ratios, key=ratios.__getitem__) for choose in (min, max))
    return (
        f"Over {len(ratios)} of {len(theirs)} formats ours is faster by"
        f" {geometric_mean(ratios.values()):.2f} (geometric mean), from {ratios[least]:.2f}"
        f" ({least}) to {ratios[most]:.2f} ({most})."
    )


def compared(
    results: Results, name: str, theirs: Mapping[str, float], newest: Build
) -> Iterator[str]:
    """The lines of a comparison, with what both sides include."""
    yield "Includes, on both sides: all from f32 vectors to f32 results in memory. Where ours takes"
    yield "q8_1 vectors, the time of quantising them is added, from the same runs; without that"
    yield "time there is no ratio. ggml-vulkan quantises inside its time where that pays. Ours is"
    yield "the fastest of its ways.\n"
    head = "weights|x f32|by name|x q8_1 alone|quantising x|q8_1 in all|ggml|faster by"
    yield from table_of_builds(head.split("|"), compared_rows(results, name, theirs), newest)
    yield f"\n{on_the_whole(results, name, theirs)}"


def vec_rows(results: Results) -> Iterator[Row]:
    """n 1, hot and cold, by both kinds of vectors."""
    for fmt in ALL:
        plain, blocks = both(results, VEC.format("{}", 1), fmt)
        if plain:
            best = min(plain, blocks or plain, key=lambda found: found.hot)
            rate = posed(best.case).bytes_moved / best.hot / 1e9
            taken = (micro(at) for found in (plain, blocks) for at in _both_times(found))
            yield (fmt, *taken, f"{rate:.0f}"), builds_of((plain, blocks))


def _both_times(found: Found | None) -> tuple[float | None, float | None]:
    return (found.hot, found.cold) if found else (None, None)


def columns_rows(results: Results) -> Iterator[Row]:
    for fmt in ALL:
        for x in ("f32", "q8_1"):
            found = [results.get(VEC.format(with_x(fmt, x), n)) for n in COLUMNS]
            if any(found):
                yield (f"{fmt}, {x}", *map(_hot, found)), builds_of(found)
        for path in ("via_q8_1", "coopmat_fragments"):
            found = [results.get(named(VEC.format(fmt, n), path)) for n in COLUMNS]
            if any(found):
                yield (f"{fmt}, {path}", *map(_hot, found)), builds_of(found)


def _hot(found: Found | None) -> str:
    return micro(found and found.hot)


def rate_rows(results: Results) -> Iterator[Row]:
    for fmt in ALL:
        plain, blocks = both(results, MAT, fmt)
        if plain:
            flops = posed(plain.case).flops
            rates = (
                f"{flops / found.hot / 1e12:.1f}" if found else "" for found in (plain, blocks)
            )
            yield (fmt, *rates), builds_of((plain, blocks))


def expert_rows(results: Results) -> Iterator[Row]:
    for fmt in ALL:
        names = [
            f"{kernel}/{with_x(fmt, x)}/{model.format(n)}"
            for kernel, n in (("mul_mat_vec_id", 1), ("mul_mat_id", 512))
            for model in MODELS
            for x in ("f32", "q8_1")
        ]
        found = [results.get(name) for name in names]
        if any(found):
            yield (fmt, *map(_hot, found)), builds_of(found)


def other_rows(results: Results) -> Iterator[Row]:
    for name, found in results.items():
        if not name.startswith("mul_mat"):
            rate = posed(found.case).bytes_moved / found.hot / 1e9
            yield (name, micro(found.hot), micro(found.cold), f"{rate:.0f}"), [found.build]


def page(results: Results, about: str, others: Others) -> Iterator[str]:
    """The whole page."""
    yield f"# Suite quant-perf: {about}\n"
    yield "Microseconds of one launch, the barrier behind it included; GPU timestamps, medians."
    yield "Every output was judged right. A column `x q8_1` is of vectors that are q8_1 already:"
    yield "quantising them is a launch of its own, and counts only in the two comparisons, by its"
    yield "time in the same runs.\n"
    builds = [found.build for found in results.values()]
    newest = max(builds)
    yield from (*wrap(said_of_builds(builds), 92), "")
    yield "ggml-vulkan's figures are of another run, on such a GPU with that driver:"
    yield "test-backend-ops perf, the mean of many equal products by the host's clock. All times of"
    yield "comparisons are hot: whatever fits the 60 MB of the H200's caches stays there, on both"
    yield "sides. At n 1 that is every quantised format (q8_0 only just), not f32, f16 and bf16.\n"
    n1, n512 = ({fmt: us[key] for fmt, us in others.items()} for key in ("n1_us", "n512_us"))
    yield "## mul_mat_vec beside ggml-vulkan, m 4096 n 1 k 14336\n"
    yield "By name: `via_q8_1`, which rounds x to bytes, as ggml-vulkan does, within the product's"
    yield "workgroups. `auto` never takes it.\n"
    yield from compared(results, VEC.format("{}", 1), n1, newest)
    yield "\n## mul_mat beside ggml-vulkan, m 4096 n 512 k 14336\n"
    yield "Both work on matrix units (cooperative matrices) with operands rounded to f16."
    yield "ggml-vulkan sums up in f16, ours in f32. Ours first decodes the weights to f16, which"
    yield "counts. By name: `coopmat` where the weights are f32 and `coopmat_to_bf16` where they"
    yield "are bf16, because they round what `auto` keeps. q8_1 vectors are multiplied by integer"
    yield "dot products.\n"
    yield from compared(results, MAT, n512, newest)
    yield "\n## mul_mat_vec, m 4096 n 1 k 14336\n"
    head = "weights|x f32 hot|cold|x q8_1 hot|cold|best GB/s"
    yield from table_of_builds(head.split("|"), vec_rows(results), newest)
    yield "\n## mul_mat_vec, m 4096 k 14336, by columns, hot\n"
    yield from table_of_builds(
        ["weights, x", *(f"n {n}" for n in COLUMNS)], columns_rows(results), newest
    )
    yield "\n## mul_mat, m 4096 n 512 k 14336, hot\n"
    yield from table_of_builds(
        ["weights", "x f32 TFLOP/s", "x q8_1 TOP/s"], rate_rows(results), newest
    )
    yield "\n## Experts, hot\n"
    models = ["128/8/768/2048 f32", "q8_1", "32/4/1792/2048 f32", "q8_1"]
    head_of_experts = [
        "weights",
        *(f"n 1, {model}" for model in models),
        *(f"n 512, {model}" for model in models),
    ]
    yield from table_of_builds(head_of_experts, expert_rows(results), newest)
    yield "\n## Rows and blocks\n"
    yield from table_of_builds(["case", "hot", "cold", "GB/s"], other_rows(results), newest)


def main(arguments: Sequence[str]) -> None:
    paths = [Path(argument) for argument in arguments[1:]]
    results, about = read(paths)
    with Path(arguments[0]).open() as file:
        others = {
            row["format"]: {key: float(row[key]) for key in ("n1_us", "n512_us")}
            for row in csv.DictReader(file)
        }
    print("\n".join(page(results, about, others)))


if __name__ == "__main__":
    main(sys.argv[1:])
