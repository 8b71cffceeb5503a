"""mul_mat_id: chosen experts' matrices times the vectors of many tokens, tile by tile."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vkbench.case import Case, parse
from vkbench.device import DeviceFacts
from vkbench_shaders import formats
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.kernel import Check, Forms, Kernel, Launch, Problem, Work, grid
from vkbench_shaders.kernels.matrices import experts, products, tiles
from vkbench_shaders.kernels.matrices.cooperative import expert_product, expert_tiles
from vkbench_shaders.kernels.shared.cooperative.tiles import no_tiles

_BUSY = 4  # pairs of an expert that has its own workgroups for them, in those of an average one


def sizes(problem: Problem) -> tuple[int, int, int]:
    """Rows and columns of the product of an average expert, and how many experts there are."""
    e, u, m, n, _ = (problem.shape[dim] for dim in experts.DIMS)
    return m, -(-n * u // e), e


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    e, u, m, n, k = (problem.shape[dim] for dim in experts.DIMS)
    _, average, _ = sizes(problem)
    tile = tiles.choose(problem, device, *sizes(problem))
    tiles_m, depth = -(-m // tile.m), -(-min(n, _BUSY * average) // tile.n)
    groups = grid(tiles_m * e, depth)
    return Launch(
        groups=groups,
        push={
            "m": m,
            "k": k,
            "pairs": n * u,
            "sharing": u if experts.is_single(problem) else 1,
            "tiles_m": tiles_m,
            "tiles": tiles_m * e,
            "groups_x": groups[0],
            "groups_z": depth,
            **tiles.places(problem),
        },
        constants=tile.constants(problem),
    )


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot multiply it tile by tile, or None."""
    if (tile := problem.params["tile"]) in expert_tiles.NAMES:
        return no_tiles(tile)
    return tiles.refuses(problem, device)


_SHAPES = (
    "e1_u1_m1_n1_k256",
    "e4_u2_m33_n37_k256/routing=skewed",
    "e3_u3_m5_n2_k4096",
    "e8_u2_m31_n29_k512/layout=strided,x=expert",
)
_BYTES = _SHAPES[1::2]  # x in q8_1; experts are found as with f32
_MORE = (
    *(f"e4_u2_m{tile.m + 1}_n{tile.n + 1}_k256/tile={tile.name}" for tile in tiles.TILES),
    "e5_u4_m7_n101_k256/routing=skewed,x=expert",
    "e64_u2_m3_n5_k1024",
    "e16_u1_m3_n131_k256/routing=skewed,tile=128x16",
    "e2_u1_m2_n3_k14336",
)
_MORE_FOR = ("f32", "q4_0", "q4_K")
# one expert has more pairs than a tile, another one none; neither m nor k is whole tiles
_COOPERATIVE = tuple(
    f"e5_u2_m{m}_n{tile.pairs + 5}_k256/{how},tile={tile.name}"
    for tile in expert_tiles.TILES
    for m, how in ((tile.rows + 5, "routing=skewed"), (tile.rows - 4, "layout=strided,x=expert"))
)
_WHOLE = ("e3_u2_m128_n21_k256",)  # rows that need no packing where they are f16 or bf16
_COOPERATIVE_FOR = ("f16", "q4_0", "iq2_xs")
_RAGGED = ("e3_u2_m13_n17_k37", "e4_u1_m34_n19_k97/layout=strided,x=expert")  # plain rows, any k
_TIMED = tuple(
    f"e{e}_u{u}_m{m}_n{n}_k{k}"
    for e, u, m, k in ((128, 8, 768, 2048), (32, 4, 1792, 2048))
    for n in (8, 32, 512)
)
_TIMED_FOR = ("f16", "q4_0", "q8_0", "q4_K", "q6_K", "iq2_xs", "mxfp4")
_VECTORS = ("f32", "q8_1")


def _cases(fmt: str, x: str, shapes: Iterable[str]) -> Iterator[Case]:
    if products.accepts({"weights": fmt, "x": x}):
        yield from (parse(f"mul_mat_id/{products.type_part(fmt, x)}/{shape}") for shape in shapes)


def _checked_cases() -> Iterator[Case]:
    for fmt in products.WEIGHTS:
        more = _MORE if fmt in _MORE_FOR else ()
        cooperative = _COOPERATIVE if fmt in _COOPERATIVE_FOR else ()
        plain = (*_RAGGED, *_WHOLE) if fmt in formats.PLAIN else ()
        yield from _cases(fmt, "f32", (*_SHAPES, *more, *cooperative, *plain))
        yield from _cases(fmt, "q8_1", (*_BYTES, *more))


def _timed_cases() -> Iterator[Case]:
    for fmt in _TIMED_FOR:
        for x in _VECTORS:
            yield from _cases(fmt, x, _TIMED)


MUL_MAT_ID = Kernel(
    name="mul_mat_id",
    description="Multiplies the vectors of many tokens with the experts that each one uses.",
    group="matmul",
    dims=experts.DIMS,
    bindings=experts.bindings(_VECTORS),
    params={**experts.PARAMS, "tile": tiles.TILE.with_choices(*expert_tiles.NAMES)},
    tuning=tiles.tuning(sizes),
    forms=Forms(layout=experts.layout, infer=experts.infer, accepts=products.accepts),
    variants=(
        *expert_product.variants(),
        *tiles.variants("mul_mat_id", launch, refuses),
    ),
    inputs=experts.inputs,
    check=Check(reference=experts.reference, deviations=experts.deviations, rows="m"),
    work=Work(flops=experts.flops, bytes_moved=experts.bytes_moved),
    cases=CaseList(_checked_cases),
    timed=CaseList(_timed_cases),
)
