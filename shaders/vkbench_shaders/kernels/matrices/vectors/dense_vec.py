"""Products of a dense matrix with a few vectors: which operand is it, and how it is read."""

from __future__ import annotations

from dataclasses import dataclass

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Problem, Push, grid
from vkbench_shaders.kernels.shared import dense
from vkbench_shaders.kernels.shared.dense import Cut, Operand
from vkbench_shaders.tuning.rates import busy

MOST_VECTORS = 4  # that a workgroup reads a matrix for
THREADS = 128
_ROWS = 4  # of the matrix a thread
_COLUMNS = 256  # of the matrix a workgroup, where columns are without gaps
_LEAST_LANES = 8  # threads a row
# where rows are without gaps, and where columns are
_GROUPS = {True: 4, False: 8}  # workgroups that keep a compute unit busy
_LEAST_PART = {True: 1024, False: 256}  # of k a workgroup


@dataclass(frozen=True, kw_only=True)
class Roles:
    """Which operand is the matrix; the other one holds vectors."""

    matrix: Operand
    rows: int  # of the matrix
    other: Operand
    vectors: int  # that a workgroup works on
    swapped: bool  # whether the matrix is b
    batched: bool  # whether its vectors are those of several matrices of y


def roles(problem: Problem) -> Roles | None:
    """How a product is one with a few vectors, or None if it is none."""
    a, b = (dense.operand(problem, name) for name in "ab")
    m, n = problem.shape["m"], problem.shape["n"]
    ways = ((a, m, b, n, False), (b, n, a, m, True))
    for matrix, rows, other, vectors, swapped in sorted(ways, key=lambda way: way[3]):
        if vectors == 1 or (vectors <= MOST_VECTORS and _goes_along(matrix)):
            served = (
                _count_served(problem, matrix, other) if vectors == 1 and _goes_along(matrix) else 1
            )
            return Roles(
                matrix=matrix,
                rows=rows,
                other=other,
                vectors=vectors * served,
                swapped=swapped,
                batched=served > 1,
            )
    return None


def _goes_along(matrix: Operand) -> bool:
    return matrix.along


def _count_served(problem: Problem, matrix: Operand, other: Operand) -> int:
    """Matrices of y that are made together because one matrix is for all of them."""
    together = matrix.serves if other.serves == 1 else 1
    fits = together <= MOST_VECTORS and problem.shape["b"] % together == 0
    return together if fits else 1


def cut(problem: Problem, device: DeviceFacts, roles: Roles) -> Cut:
    """Parts of k: as many as asked for, or as keep the device busy."""
    k, parts = problem.shape["k"], dense.asked_parts(problem)
    groups = max(1, _groups(problem, roles))
    usual = -(-busy(device, _GROUPS[roles.matrix.along]) // groups)
    return Cut.into(parts or max(1, min(usual, k // _LEAST_PART[roles.matrix.along])), k)


def lanes(problem: Problem, roles: Roles) -> int:
    """Threads that share rows: a power of two, so many that each has some numbers to add."""
    units = problem.shape["k"] // (8 if roles.matrix.wide else 2)
    most = THREADS
    while most > _LEAST_LANES and most > units:
        most //= 2
    return most


def _groups(problem: Problem, roles: Roles) -> int:
    """Workgroups for all rows of all matrices, over one part of k."""
    rows = THREADS // lanes(problem, roles) * _ROWS if roles.matrix.along else _COLUMNS
    return -(-roles.rows // rows) * _sets(problem, roles)


def _sets(problem: Problem, roles: Roles) -> int:
    return problem.shape["b"] // (roles.vectors if roles.batched else 1)


def launches(problem: Problem, device: DeviceFacts, roles: Roles) -> tuple[Launch, ...]:
    """Launches that make it: one, and one that adds up parts of k."""
    parted, sets = cut(problem, device, roles), _sets(problem, roles)
    groups_of_set = _groups(problem, roles) // max(1, sets)
    groups = grid(groups_of_set, sets * parted.parts)
    a, b = (roles.other, roles.matrix) if roles.swapped else (roles.matrix, roles.other)
    constants = {
        "THREADS": THREADS,
        "LANES": lanes(problem, roles),
        "VECTORS": roles.vectors,
        "SWAPPED": roles.swapped,
        "MATRIX_WIDE": roles.matrix.wide,
        "VECTOR_WIDE": _is_wide(roles.other),
        "BATCHED": roles.batched,
        "SPLIT": parted.parts > 1,
    }
    push: Push = {
        "y": dense.results(problem),
        "k": problem.shape["k"],
        "part": parted.part,
        "groups_x": groups[0],
        "rows": roles.rows,
        "a": a.push,
        "b": b.push,
    }
    entry = "matmul_rows" if roles.matrix.along else "matmul_columns"
    launch = Launch(groups=groups, push=push, constants=constants, entry=entry)
    return (launch, *dense.sums(dense.results(problem), parted, y_wide=dense.is_wide_y(problem)))


def _is_wide(vectors: Operand) -> bool:
    return vectors.along and vectors.wide
