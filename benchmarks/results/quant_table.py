"""The page of what suite quant-perf found, from its export."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from textwrap import wrap

from timings import (
    Found,
    Machine,
    Results,
    Row,
    builds_of,
    micro,
    named,
    posed,
    read,
    said_of_builds,
    table_of_builds,
)

from vkbench_shaders import formats

COLUMNS = (1, 2, 3, 4, 5, 8)
VEC = "mul_mat_vec/{}/m4096_n{}_k14336"
MAT = "mul_mat/{}/m4096_n512_k14336"
MODELS = ("e128_u8_m768_n{}_k2048", "e32_u4_m1792_n{}_k2048")
ALL = (*formats.PLAIN, *formats.WEIGHTS)
_ABOUT = (
    "How fast are products, and copies of rows and blocks, in each format of weights on this GPU? "
    "Times are medians of one launch in microseconds, by the GPU's timestamps, with the barrier "
    "behind it. Every output was judged right. x is what the weights are multiplied by. In columns "
    "`x f32` it comes as f32. In columns `x q8_1` it was rounded to blocks of bytes (q8_1) before, "
    "by a launch of its own that is not in the time; the first two tables show what that launch "
    "took, and the sum of both as `q8_1 in all`."
)


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


def whole_rows(results: Results, name: str) -> Iterator[Row]:
    """A product of every format from f32 vectors to the result, by each of our ways."""
    for fmt in ALL:
        plain, blocks = both(results, name, fmt)
        if plain:
            rounding = by_name(results, name, fmt)
            cells = (
                fmt,
                micro(plain.hot),
                micro(rounding and rounding.hot),
                micro(blocks and blocks.hot),
                micro(blocks and blocks.quantising),
                micro(blocks and blocks.whole),
            )
            yield cells, builds_of((plain, rounding, blocks))


def vec_rows(results: Results) -> Iterator[Row]:
    """n 1, hot and cold, by both kinds of vectors."""
    for fmt in ALL:
        plain, blocks = both(results, VEC.format("{}", 1), fmt)
        if plain:
            best = min(plain, blocks or plain, key=lambda timing: timing.hot)
            rate = posed(best.case).bytes_moved / best.hot / 1e9
            taken = (micro(at) for timing in (plain, blocks) for at in _both_times(timing))
            yield (fmt, *taken, f"{rate:.0f}"), builds_of((plain, blocks))


def _both_times(timing: Found | None) -> tuple[float | None, float | None]:
    return (timing.hot, timing.cold) if timing else (None, None)


def columns_rows(results: Results) -> Iterator[Row]:
    for fmt in ALL:
        for x in ("f32", "q8_1"):
            timings = [results.get(VEC.format(with_x(fmt, x), n)) for n in COLUMNS]
            if any(timings):
                yield (f"{fmt}, {x}", *map(_hot, timings)), builds_of(timings)
        timings = [results.get(named(VEC.format(fmt, n), "via_q8_1")) for n in COLUMNS]
        if any(timings):
            yield (f"{fmt}, via_q8_1", *map(_hot, timings)), builds_of(timings)


def _hot(timing: Found | None) -> str:
    return micro(timing and timing.hot)


def rate_rows(results: Results) -> Iterator[Row]:
    for fmt in ALL:
        plain, blocks = both(results, MAT, fmt)
        if plain:
            flops = posed(plain.case).flops
            rates = (
                f"{flops / timing.hot / 1e12:.1f}" if timing else "" for timing in (plain, blocks)
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
        timings = [results.get(name) for name in names]
        if any(timings):
            yield (fmt, *map(_hot, timings)), builds_of(timings)


def other_rows(results: Results) -> Iterator[Row]:
    for name, timing in results.items():
        if not name.startswith("mul_mat"):
            rate = posed(timing.case).bytes_moved / timing.hot / 1e9
            yield (name, micro(timing.hot), micro(timing.cold), f"{rate:.0f}"), [timing.build]


def _weight_bytes(fmt: str) -> float:
    """Bytes of the weights of 4096 rows of 14336 numbers."""
    return 4096 * 14336 * formats.format_named(fmt).bits / 8


def page(results: Results, machine: Machine) -> Iterator[str]:
    """The whole page."""
    cases = len({timing.case for timing in results.values()})
    yield f"# Suite quant-perf: {machine}, {cases} cases\n"
    sizes = {fmt: _weight_bytes(fmt) for fmt in ALL}
    too_large = [fmt for fmt, size in sizes.items() if size > machine.cache_bytes]
    yield from (*wrap(_ABOUT, 92), "")
    caches = (
        "Hot launches follow each other on the same numbers. The caches of this GPU hold "
        f"{machine.cache_bytes / 1e6:.0f} MB, and weights that fit stay there from one launch to "
        f"the next. At n 1 only the weights of {', '.join(too_large) or 'no format'} are larger, "
        "so that their hot times include reading memory; for all others look at `cold`. Other "
        "programs on the same kernels: [ggml](h100-ggml.md), [torch](h100-torch.md)."
    )
    yield from (*wrap(caches, 92), "")
    builds = [timing.build for timing in results.values()]
    newest = max(builds)
    yield from (*wrap(said_of_builds(builds), 92), "")
    head = ["weights", "x f32", "by name", "x q8_1 alone", "quantising x", "q8_1 in all"]
    yield "## mul_mat_vec from f32 vectors to f32 results, m 4096 n 1 k 14336\n"
    yield "By name: `via_q8_1`, which rounds x to bytes within the product's workgroups. `auto`"
    yield "never takes it.\n"
    yield from table_of_builds(head, whole_rows(results, VEC.format("{}", 1)), newest)
    yield "\n## mul_mat from f32 vectors to f32 results, m 4096 n 512 k 14336\n"
    yield "On matrix units (cooperative matrices) with operands rounded to f16, summed up in f32."
    yield "Weights are decoded to f16 first, which counts. By name: `coopmat` where the weights are"
    yield "f32 and `coopmat_to_bf16` where they are bf16, because they round what `auto` keeps."
    yield "q8_1 vectors are multiplied by integer dot products.\n"
    yield from table_of_builds(head, whole_rows(results, MAT), newest)
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
    print("\n".join(page(*read(map(Path, arguments)))))


if __name__ == "__main__":
    main(sys.argv[1:])
