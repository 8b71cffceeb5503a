"""A step of Muon: the momentum of a matrix, made nearly orthogonal, is what its parameters move by.

Newton and Schulz's iteration of odd quintics brings all singular values near 1 in five rounds, each
of three products in f32. It works on the shorter side: a matrix that is higher than wide is turned.

The iteration grows what is small by up to 3.4445^5 = 485, errors of f32 with it: of matrices of
random numbers the update's NMSE is 3e-12 at worst, of one with 4 of 64 directions 5e-10. Cases have
random matrices, and parameters as small as the step, beside which it has to be right.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from vkbench.case import Case, Value, parse
from vkbench.device import DeviceFacts
from vkbench_shaders.case_list import CaseList
from vkbench_shaders.inputs import data
from vkbench_shaders.kernel import (
    Array,
    Arrays,
    Check,
    Forms,
    Kernel,
    Launch,
    Memory,
    Param,
    Problem,
    Stage,
    Work,
    grid,
    too_large,
)
from vkbench_shaders.kernels.shared import dense
from vkbench_shaders.kernels.shared.portable import portable
from vkbench_shaders.kernels.training import optimisers
from vkbench_shaders.tuning.rates import busy

ROUNDS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # of x, x^3 and x^5
EPSILON = 1e-7  # beside the norm

_THREADS = 256
_GROUPS = 512  # at most, where elements are gone through
_EACH = 8  # elements a thread, where there are few
# of products: 8 x 8 numbers a thread
_TILES = tuple(tile for tile in dense.TILES if (tile.block_m, tile.block_n) == (8, 8))


@dataclass(frozen=True, kw_only=True)
class MuonPlan:
    """Sizes and places in scratch, in numbers: X and the next X, X X', and the polynomial of it."""

    across: int  # the short side, filled up
    along: int  # the long one
    is_turned: bool

    @property
    def x(self) -> tuple[int, int]:
        return 0, self.across * self.along

    @property
    def gram(self) -> int:
        return 2 * self.across * self.along

    @property
    def polynomial(self) -> int:
        return self.gram + self.across**2

    @property
    def partials(self) -> int:
        return self.polynomial + self.across**2

    @property
    def bytes(self) -> int:
        return 4 * (self.partials + _GROUPS)

    @property
    def groups(self) -> int:
        return min(_GROUPS, -(-self.across * self.along // (_THREADS * _EACH)))


def plan(problem: Problem) -> MuonPlan:
    m, n = problem.shape.values()
    short, long = (-(-side // 4) * 4 for side in sorted((m, n)))
    return MuonPlan(across=short, along=long, is_turned=m > n)


def launch(problem: Problem, device: DeviceFacts) -> tuple[Launch, ...]:
    planned = plan(problem)
    return (
        _elements(problem, planned, "muon_momentum"),
        _elements(problem, planned, "muon_normalise"),
        *chain.from_iterable(_round(planned, device, number) for number in range(ROUNDS)),
        _elements(problem, planned, "muon_update"),
    )


def _elements(problem: Problem, planned: MuonPlan, entry: str) -> Launch:
    m, n = problem.shape.values()
    momentum, rate, decay = (
        optimisers.number(problem, name) for name in ("momentum", "rate", "decay")
    )
    push = {
        "rows": m,
        "columns": n,
        "across": planned.across,
        "along": planned.along,
        "is_turned": planned.is_turned,
        "partials": planned.partials,
        "groups": planned.groups,
        "result": planned.x[ROUNDS % 2],
        "momentum": momentum,
        "nesterov": momentum if problem.params["nesterov"] else 0.0,
        "rate": rate * stretch(m, n),
        "kept": 1 - rate * decay,
    }
    groups, constants = (planned.groups, 1, 1), {"THREADS": _THREADS}
    return Launch(groups=groups, push=push, constants=constants, entry=entry)


def _round(planned: MuonPlan, device: DeviceFacts, number: int) -> tuple[Launch, ...]:
    """A = X X', B = b A + c A A, X' = a X + B X: the products by columns of symmetric ones."""
    a, b, c = QUINTIC
    x, made = planned.x[number % 2], planned.x[1 - number % 2]
    short, long = planned.across, planned.along
    gram, polynomial = planned.gram, planned.polynomial
    return (
        _product(device, (short, short, long), (x, x, gram, gram), (long, 1), (1.0, 0.0)),
        _product(device, (short, short, short), (gram, gram, polynomial, gram), (short, 1), (c, b)),
        _product(device, (short, long, short), (polynomial, x, made, x), (1, long), (1.0, a)),
    )


def _product(
    device: DeviceFacts,
    sizes: tuple[int, int, int],
    places: tuple[int, int, int, int],
    strides: tuple[int, int],
    factors: tuple[float, float],
) -> Launch:
    """C = factor A B + share D; strides are those of B, from column to column and along k."""
    m, n, _ = sizes
    tile = min(_TILES, key=lambda tile: _time(tile, device, m, n))
    tiles_m = -(-m // tile.m)
    groups = grid(tiles_m * -(-n // tile.n))
    push = {
        **dict(zip("mnk", sizes, strict=True)),
        **dict(zip("abcd", places, strict=True)),
        "b_row": strides[0],
        "b_k": strides[1],
        "tiles_m": tiles_m,
        "groups_x": groups[0],
        "factor": factors[0],
        "share": factors[1],
    }
    constants = tile.constants | {"B_ALONG": strides[1] == 1}
    return Launch(groups=groups, push=push, constants=constants, entry="muon_product")


def _time(tile: dense.Tile, device: DeviceFacts, m: int, n: int) -> float:
    """About how long a product of these sizes takes, for each number along k."""
    groups = -(-m // tile.m) * -(-n // tile.n)
    return max(groups, busy(device, tile.at_once)) * tile.m * tile.n / tile.share


def stretch(m: int, n: int) -> float:
    """How much longer the step of a matrix is that is higher than wide."""
    return float(max(1.0, m / n) ** 0.5)


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    most, needed = device.limits.get("max_storage_range"), plan(problem).bytes
    if most is not None and needed > most:
        return f"scratch has {needed} bytes, the device binds {most} at most"
    return too_large(problem, device)


def inputs(problem: Problem) -> dict[str, Array]:
    """Parameters as large as the step where that is 1, so that it is not lost among them."""
    made = {name: data.uniform(problem, name, -1.0, 1.0) for name in "gm"}
    return {"x": data.uniform(problem, "x", -0.05, 0.05), **made}


def reference(problem: Problem, inputs: Arrays, rows: Array | None) -> dict[str, Array]:
    x, g, m = (optimisers.read_numbers(problem, inputs, name) for name in "xgm")
    momentum, rate, decay = (
        optimisers.number(problem, name) for name in ("momentum", "rate", "decay")
    )
    mean = momentum * m + g
    update = orthogonal(g + momentum * mean if problem.params["nesterov"] else mean)
    moved = x * (1 - rate * decay) - rate * stretch(*x.shape) * update
    return {"next_x": moved, "next_m": mean}


def orthogonal(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A matrix with its singular vectors and singular values between 0.7 and 1.2 or so."""
    a, b, c = QUINTIC
    is_turned = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_turned else matrix
    x = x / (np.linalg.norm(x) + EPSILON)
    for _ in range(ROUNDS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if is_turned else x


def flops(problem: Problem) -> int:
    short, long = sorted(problem.shape.values())
    return ROUNDS * 2 * (2 * short * short * long + short**3)


def _case(shape: str, **params: Value) -> Case:
    return Case(kernel="muon", format="f32", shape=parse(f"muon/f32/{shape}").shape, params=params)


_SHAPES = (
    *("m1_n1", "m1_n5", "m5_n1", "m3_n7", "m7_n3", "m16_n16", "m64_n64", "m33_n65"),
    *("m65_n33", "m100_n10", "m130_n70", "m71_n259"),
)

MUON = Kernel(
    name="muon",
    description="A step of Muon: x' = x (1 - rate decay) - rate O, O the nearly orthogonal update.",
    group="optimiser",
    dims=("m", "n"),
    bindings=optimisers.bindings("m", ("m", "n")),
    params={
        "rate": Param(default=0.02, description=optimisers.RATE.description),
        "momentum": Param(default=0.95, description="part of m that stays"),
        "nesterov": Param(
            default=1, choices=(0, 1), description="whether the update looks a step ahead"
        ),
        "decay": optimisers.DECAY,
    },
    forms=Forms(accepts=optimisers.accepts),
    variants=(
        portable(
            "muon",
            launch,
            "f32",
            entry="muon_momentum",
            arguments=lambda types: (types["g"],),
            refuses=refuses,
            more=(
                Stage(entry="muon_normalise"),
                Stage(entry="muon_product", module="muon_product"),
                Stage(entry="muon_update", arguments=lambda types: (types["x"],)),
            ),
            own=Memory(scratch=lambda problem, device: (plan(problem).bytes,)),
        ),
    ),
    inputs=inputs,
    check=Check(reference=reference),
    work=Work(flops=flops),
    cases=CaseList(
        lambda: (
            *(_case(shape) for shape in _SHAPES),
            *(_case(shape, rate=1.0) for shape in ("m64_n64", "m130_n70", "m71_n259")),
            _case("m33_n65", rate=1.0, momentum=0.5, nesterov=0, decay=0.1),
            _case("m65_n33", rate=1.0, nesterov=0),
            parse("muon/bf16/m33_n65/rate=1.0"),
            parse("muon/bf16:g=bf16/m65_n33/rate=1.0"),
        )
    ),
    timed=CaseList(lambda: (_case("m1024_n1024"), _case("m4096_n1024"), _case("m1024_n4096"))),
)
