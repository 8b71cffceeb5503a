"""A product by cooperative matrices: its tiles, its parts of k, and its launches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vkbench.device import DeviceFacts
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Launch, Problem, Stage, grid
from vkbench_shaders.kernels.shared import dense
from vkbench_shaders.kernels.shared.cooperative.panels import EIGHT, Factor, Lies
from vkbench_shaders.kernels.shared.cooperative.tiles import (
    NAMES,
    ROUNDS,
    STEP,
    TILES,
    Tile,
    binds_too_much,
    lacks,
    no_tiles,
)
from vkbench_shaders.kernels.shared.limits import fits_shared, too_much_shared
from vkbench_shaders.tuning.rates import busy, rates_of
from vkbench_shaders.tuning.thresholds import MatrixProducts, thresholds

_SPLITS = (1, 2, 4, 8)


@dataclass(frozen=True, kw_only=True)
class Product:
    """What is multiplied: y = left right^T; the factors stand in bindings 0 and 1."""

    left: Factor
    right: Factor
    left_binding: int
    results: dict[str, int]  # the shaders' Results
    y_wide: bool
    element: str  # f16 or bf16
    sums: str  # f32 or f16
    tile: str  # asked for; "auto"
    split: int  # asked for; 0: as many parts of k as help

    @classmethod
    def of_vectors(cls, problem: Problem, sums: str, weights: Factor, matrices: int) -> Product:
        """y = x weights^T, so many of them: rows of y are vectors."""
        m, n = problem.shape["m"], problem.shape["n"]
        y = problem.layout("y")
        row = y.strides[-2]
        sizes = {"m": n, "n": m, "matrices": matrices}
        return cls(
            left=Factor.of_rows(problem, "x", n, matrices),
            right=weights,
            left_binding=1,
            results={**sizes, "first": y.offset, "row": row, "matrix": n * row},
            y_wide=all(number % 4 == 0 for number in (m, y.offset, row)),
            element=element(problem.types),
            sums=sums,
            tile=str(problem.params.get("tile", "auto")),
            split=0,
        )

    @property
    def factors(self) -> tuple[Factor, Factor]:
        """The two factors in the order of their bindings."""
        pair = (self.left, self.right)
        return pair if self.left_binding == 0 else (pair[1], pair[0])

    def side(self, factor: Factor, tile: Tile) -> int:
        """Rows of a factor that a tile takes."""
        return tile.m if factor is self.left else tile.n

    def lies(self, factor: Factor, tile: Tile, device: DeviceFacts) -> Lies:
        """How tiles read a factor: the larger one of f32 where it lies, if they read it seldom."""
        side = self.side(factor, tile)
        lies = factor.lies(self.element, side)
        other = self.right if factor is self.left else self.left
        limits = thresholds(device, MatrixProducts)
        few = min(limits.in_place_rows, factor.rows - 1)
        is_fit = other.rows <= few and side <= limits.in_place_side
        if lies is Lies.PANELS and is_fit and factor.rounds_in_place(self.element, side):
            return Lies.NUMBERS
        return lies

    def is_packed(self, factor: Factor, tile: Tile, device: DeviceFacts) -> bool:
        """Whether a factor is packed before it is multiplied."""
        return self.lies(factor, tile, device) is Lies.PANELS


Pose = Callable[[Problem, str], Product]  # what a case multiplies, with the format of its sums


def weights_stages(module: str, entries: Iterable[str]) -> Iterator[Stage]:
    """Entry points of a shader module that are made for each format of weights."""
    for entry in entries:
        yield Stage(entry=entry, module=module, arguments=lambda types: (types["weights"],))


def tiles(product: Product, device: DeviceFacts) -> list[Tile]:
    """The tiles of what was asked for, of which a device has the matrices and the room."""
    listed = _list_tiles(product, device)
    return [tile for tile in listed if fits_shared(_shared_bytes(tile, product), device)]


def _list_tiles(product: Product, device: DeviceFacts) -> list[Tile]:
    """The tiles of what was asked for, of which a device has the matrices."""
    return [
        tile
        for tile in TILES
        if product.sums in tile.costs
        and product.tile in ("auto", tile.name)
        and tile.shape.feature(product.element, product.sums) in device.features
    ]


def _shared_bytes(tile: Tile, product: Product) -> int:
    return 16 * tile.shared_eights(product.sums)


def refuses(product: Product, device: DeviceFacts) -> str | None:
    """Why a device cannot multiply it, or None."""
    if product.tile not in ("auto", *NAMES):
        return no_tiles(product.tile)
    if not (listed := _list_tiles(product, device)):
        return lacks(device, product.element, product.sums, product.tile)
    if not tiles(product, device):
        least = min(_shared_bytes(tile, product) for tile in listed)
        return too_much_shared(
            least, device.limits["max_shared_bytes"], f"a tile of {listed[0].name}"
        )
    if reason := why_pointless(product):
        return reason
    _, cut = choose(product, device)
    return too_much(product, cut, scratch(product, device), device)


def why_pointless(product: Product) -> str | None:
    """Why no tile should multiply it, or None."""
    if product.left.steps == 0 or 0 in (product.left.rows, product.right.rows):
        return "has nothing to multiply"
    if product.left.rows * product.right.rows * product.results["matrices"] == 1:
        return ROUNDS
    return None


def too_much(
    product: Product, cut: dense.Cut, scratch: Sequence[int], device: DeviceFacts
) -> str | None:
    """Why a device cannot hold a product's scratch or launch all its parts, or None."""
    if reason := binds_too_much(device, scratch):
        return reason
    if product.results["matrices"] * cut.parts > (1 << 16) - 1:
        return f"{product.results['matrices']} matrices in {cut.parts} parts are too many groups"
    return None


@dataclass(frozen=True, kw_only=True)
class Way:
    """A tile and a cut of k."""

    tile: Tile
    cut: dense.Cut
    split: int  # parts that the cut was asked to have


def choose(product: Product, device: DeviceFacts) -> tuple[Tile, dense.Cut]:
    """The tile and the cut of k that were asked for, or those that should be fastest."""
    best = ways(product, device)[0]
    return best.tile, best.cut


def ways(product: Product, device: DeviceFacts) -> list[Way]:
    """The tiles and cuts that a product leaves open, the one that should be fastest first."""
    by_cut: dict[tuple[Tile, dense.Cut], Way] = {}
    least_part = thresholds(device, MatrixProducts).least_part
    for tile in tiles(product, device):
        for parts in (product.split,) if product.split else _SPLITS:
            cut = dense.Cut.into(parts, product.left.numbers, STEP)
            if cut.parts == 1 or product.split or cut.part >= least_part:
                by_cut.setdefault((tile, cut), Way(tile=tile, cut=cut, split=parts))
    return sorted(by_cut.values(), key=lambda way: _time(product, device, way.tile, way.cut))


def _time(product: Product, device: DeviceFacts, tile: Tile, cut: dense.Cut) -> float:
    """Time by which tiles and cuts are ordered: rounds of tiles on a busy GPU, and adding parts."""
    m, n = (-(-factor.rows // side) for factor, side in _sides(product, tile))
    groups = m * n * product.results["matrices"] * cut.parts
    at_once = busy(device, tile.resident)
    rounds = -(-groups // at_once) * tile.m * tile.n * tile.resident / (128 * 128)
    adding = 0.1 * groups + _beyond_caches(product, device, cut)
    sums = adding / at_once if cut.parts > 1 else 0.0
    placed = [(product.lies(factor, tile, device), side) for factor, side in _sides(product, tile)]
    costs = thresholds(device, MatrixProducts)
    more = sum(costs.row_cost * side for lies, side in placed if lies is Lies.ROWS)
    if any(lies is Lies.NUMBERS for lies, _ in placed):
        more += costs.rounding_cost * (tile.m + tile.n)
    packs = _rounds_of(_packed_bytes(product, tile, device), device, cut) / at_once
    return ((rounds + sums) * tile.costs[product.sums] * (1 + more) + packs) * cut.part


def _beyond_caches(product: Product, device: DeviceFacts, cut: dense.Cut) -> float:
    """What sums cost that no cache holds: memory has each once written and once read."""
    moved = 4 * cut.parts * product.left.rows * product.right.rows * product.results["matrices"]
    return _rounds_of(2 * moved, device, cut) if 0 < device.llc_bytes < moved else 0.0


def _packed_bytes(product: Product, tile: Tile, device: DeviceFacts) -> int:
    """What packing moves that another tile of the product may not need: numbers of f32 or f16."""
    return sum(
        factor.rows * factor.numbers * factor.matrices * (2 + format_named(factor.fmt).bytes)
        for factor in product.factors
        if product.is_packed(factor, tile, device) and not factor.quantised
    )


def _rounds_of(moved: int, device: DeviceFacts, cut: dense.Cut) -> float:
    """Rounds of one workgroup that take as long as memory has for so many bytes."""
    rates = rates_of(device)
    flops = thresholds(device, MatrixProducts).rate_over_fma * rates.fma * rates.compute_units
    return moved / rates.memory_bytes * flops / (2 * 128 * 128 * cut.part)


def _sides(product: Product, tile: Tile) -> tuple[tuple[Factor, int], ...]:
    return ((product.left, tile.m), (product.right, tile.n))


def scratch(product: Product, device: DeviceFacts) -> tuple[int, ...]:
    """Bytes of sums over parts of k, and of the panels of both factors."""
    tile, cut = choose(product, device)
    return (
        sums_bytes(product, cut),
        *(
            factor.panel_bytes(product.side(factor, tile))
            if product.is_packed(factor, tile, device)
            else 0
            for factor in product.factors
        ),
    )


def sums_bytes(product: Product, cut: dense.Cut) -> int:
    """Bytes of sums over parts of k, which wait in scratch."""
    sizes = product.results
    return 4 * cut.parts * sizes["matrices"] * sizes["m"] * sizes["n"] if cut.parts > 1 else 0


def launches(product: Product, device: DeviceFacts) -> tuple[Launch, ...]:
    """Pack what does not lie as the product reads it, multiply, and add up the parts of k."""
    tile, cut = choose(product, device)
    packs = [
        factor.pack("ab"[binding], product.side(factor, tile))
        for binding, factor in enumerate(product.factors)
        if product.is_packed(factor, tile, device)
    ]
    sums = dense.sums(product.results, cut, y_wide=product.y_wide)
    return (*packs, _multiply(product, tile, cut, device), *sums)


def _multiply(product: Product, tile: Tile, cut: dense.Cut, device: DeviceFacts) -> Launch:
    tiles_m, tiles_n = (-(-factor.rows // side) for factor, side in _sides(product, tile))
    left, right = (product.lies(each, tile, device) for each in (product.left, product.right))
    groups = grid(tiles_m * tiles_n, product.results["matrices"] * cut.parts)
    return Launch(
        groups=groups,
        push={
            "y": product.results,
            "steps": product.left.steps,
            "part": cut.part // STEP,
            "tiles_m": tiles_m,
            "groups_x": groups[0],
            "left": _place(product, product.left, tile, left),
            "right": _place(product, product.right, tile, right),
        },
        constants={
            "THREADS": tile.subgroups * device.subgroup_size,
            "SHARED": tile.shared_eights(product.sums),
            "LEFT": product.left_binding,
            "LEFT_LIES": left,
            "RIGHT_LIES": right,
            "Y_WIDE": product.y_wide,
            "SPLIT": cut.parts > 1,
            "SUMS_WIDE": product.results["n"] % 4 == 0,
        },
        entry=tile.entry,
    )


def _place(product: Product, factor: Factor, tile: Tile, lies: Lies) -> dict[str, int]:
    """The shaders' Factor: in eights, of the factor or of its panels."""
    if lies is not Lies.PANELS:
        line = factor.k if lies is Lies.COLUMNS else factor.row
        at_once = 4 if lies is Lies.NUMBERS else EIGHT
        return {
            "first": factor.first // at_once,
            "line": line // at_once,
            "step": STEP * factor.k // at_once,
            "matrix": factor.matrix // at_once,
            **factor.batches,
        }
    panel = factor.padded_rows(product.side(factor, tile)) * (STEP // EIGHT)
    return {
        "first": 0,
        "line": 0,
        "step": panel,
        "matrix": panel * factor.steps,
        **factor.batches,
    }


def element(types: Mapping[str, str]) -> str:
    """What is multiplied: bf16 where the first factor has it, f16 otherwise."""
    first = next(iter(types.values()))
    return "bf16" if first == "bf16" else "f16"
