"""Products via q8_1 whose workgroups round the vectors themselves, into shared memory.

That makes one launch of two, and each block of x is read once for all rows of a workgroup. The
workgroups are larger, and consist of teams: see slang/matrices/mul_mat_vec_staged.slang.

On an H100 (m 4096, n 1, k 14336) a launch takes 2.7 us, and reading and rounding x 1.9: all
workgroups read all of x, 7 MB, from the cache that they share. Not faster there: loading weights a
step early, decoded or as words; touching their memory before vectors are rounded; threads that keep
a block of x each and walk down all rows; teams of 16 threads with four blocks each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import gcd
from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Param, Problem, Settings, Stage, grid
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.tuning.thresholds import ByteProducts, thresholds

MODULE: Final = "mul_mat_vec_staged"
ENTRY: Final = "mul_mat_vec_rounding"
BEFORE, INSIDE = "before", "inside"
FEATURES: Final = ("int_dot", "subgroup_arithmetic", "subgroup_shuffle")
_SIZES = (1024, 512, 256)  # of workgroups
_TEAMS = (128, 64, 32)  # threads
_SHARES = ((1, 2), (2, 1), (1, 4), (2, 2))  # blocks that a thread takes at a time, of so many rows
_UNITS = sorted({units for units, _ in _SHARES})
_ROWS = sorted({rows for _, rows in _SHARES})
_BLOCK = 40  # bytes of a block of x in shared memory
_TABLES = {  # bytes that formats' tables take in shared memory
    "IQ1_S": 8192,
    "IQ2_S": 8192,
    "IQ2_XS": 4096,
    "IQ2_XXS": 2048,
    "IQ3_S": 2048,
    "IQ3_XXS": 1024,
    "IQ4_NL": 1024,
}

# Of a path that runs by its name alone: no case sets them, for `auto` would have to skip it.
OF_A_NAMED_PATH: Final = ("rounding", "units", "team_rows")
PARAMS: Final[Mapping[str, Param]] = {
    "rounding": Param(
        default="",
        choices=("", BEFORE, INSIDE),
        description="where via_q8_1 rounds vectors: in a launch before the product, or inside "
        "the product's workgroups; empty: what should be fastest",
    ),
    "team": Param(
        default=0,
        choices=(0, *sorted(_TEAMS)),
        description="threads that share rows, where vectors are rounded inside and in variant "
        "teams; 0: what should be fastest",
    ),
    "units": Param(
        default=0,
        choices=(0, *_UNITS, 4),
        description="blocks that a thread takes at a time; 0: what should be fastest",
    ),
    "team_rows": Param(
        default=0,
        choices=(0, *_ROWS),
        description="rows of weights that a team takes at a time, where vectors are rounded "
        "inside; 0: what should be fastest",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a product is shared out."""

    threads: int
    team: int
    units: int
    rows: int  # that a team takes at a time
    passes: int = 1  # times that it does

    @property
    def height(self) -> int:
        """Rows of a workgroup."""
        return self.passes * self.rows * (self.threads // self.team)


def _blocks(problem: Problem) -> int:
    """Quantised blocks of a vector."""
    return problem.shape["k"] // products.QUANTISED_UNIT


def _sums(plan: Plan, problem: Problem, device: DeviceFacts) -> int:
    """Sums that a workgroup keeps."""
    return plan.height * products.columns(problem) * (plan.team // products.least_threads(device))


def _fits(plan: Plan, problem: Problem, device: DeviceFacts) -> bool:
    """Whether shared memory has room for the vectors."""
    table = _TABLES.get(problem.format("weights").grid, 0)
    vectors = _BLOCK * _blocks(problem) * products.columns(problem)
    needed = table + 4 * _sums(plan, problem, device) + vectors
    return needed <= device.limits.get("max_shared_bytes", 0)


def _passes(plan: Plan, problem: Problem, device: DeviceFacts) -> int:
    """Passes of a workgroup: so many that no multiprocessor waits for a second workgroup."""
    measured = thresholds(device, ByteProducts)
    places = device.compute_units * max(1, measured.unit_threads // plan.threads)
    passes = -(-problem.shape["m"] // (plan.height * places)) if places else 1
    return max(1, min(measured.most_passes, passes))


def _fitting(plan: Plan, problem: Problem, device: DeviceFacts) -> Plan | None:
    """The plan with as many passes as should be fastest, or with one; None if neither fits."""
    if device.subgroup_size > plan.team or _blocks(problem) % plan.units:
        return None
    plans = (replace(plan, passes=passes) for passes in (_passes(plan, problem, device), 1))
    return next((possible for possible in plans if _fits(possible, problem, device)), None)


def _usual_units(problem: Problem, device: DeviceFacts) -> int:
    """Two blocks where neighbours have bytes or scales in common, or take few registers."""
    in_pairs = thresholds(device, ByteProducts).in_pairs
    return gcd(2 if problem.types["weights"] in in_pairs else 1, _blocks(problem))


def _usual_height(problem: Problem, device: DeviceFacts) -> int:
    """Rows of a workgroup: as many as leave workgroups for all multiprocessors."""
    measured = thresholds(device, ByteProducts)
    busy = measured.least_busy * device.compute_units
    heights = (height for height in measured.heights if problem.shape["m"] / height >= busy)
    return next(heights, measured.heights[-1])


def _usual(problem: Problem, device: DeviceFacts) -> Plan | None:
    """Teams as large as blocks and the workgroup allow; None if it has no room for the fewest."""
    units, height = _usual_units(problem, device), _usual_height(problem, device)
    full = thresholds(device, ByteProducts).unit_threads
    most = min(full, device.limits.get("max_workgroup_invocations", _SIZES[-1]))
    most_team = max(_blocks(problem) // units, device.subgroup_size)
    shares = [rows for blocks, rows in _SHARES if blocks == units]
    for rows, team in product(shares, _TEAMS):
        plan = Plan(threads=height // rows * team, team=team, units=units, rows=rows)
        if device.subgroup_size <= team <= most_team and plan.threads <= most:
            return plan
    return None


def _plans(problem: Problem, device: DeviceFacts) -> Iterator[Plan]:
    """All settings that a device has room for, the likeliest first."""
    if not set(FEATURES) <= set(device.features) or device.subgroup_size < products.LEAST_SUBGROUP:
        return
    others = (
        Plan(threads=threads, team=team, units=units, rows=rows)
        for threads, team, (units, rows) in product(_SIZES, _TEAMS, _SHARES)
    )
    usual = _usual(problem, device)
    most = device.limits.get("max_workgroup_invocations", 0)
    for possible in dict.fromkeys((usual, *others) if usual else others):
        if possible.threads <= most and (plan := _fitting(possible, problem, device)):
            yield plan


def pays(problem: Problem, device: DeviceFacts) -> bool:
    """Whether one launch should be faster than two: for all vectors that find room it is.

    Every workgroup rounds all vectors, which takes less time than a launch: on an H100 one is 1.03
    (m 14336, n 8, k 4096) to 1.8 times (m 512, n 1, k 2048) as fast.
    """
    if problem.shape["n"] > products.MOST_COLUMNS:  # each group of columns would round its own
        return False
    if device.type == "cpu" or not device.compute_units:
        return False
    usual, likeliest = _usual(problem, device), next(_plans(problem, device), None)
    return usual is not None and likeliest is not None and replace(likeliest, passes=1) == usual


def _settings(plan: Plan) -> Settings:
    return {
        "rounding": INSIDE,
        "threads": plan.threads,
        "team": plan.team,
        "units": plan.units,
        "team_rows": plan.rows,
    }


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """All settings that a device has room for, the likeliest first."""
    return [_settings(plan) for plan in _plans(problem, device)]


def _plan_of(problem: Problem, device: DeviceFacts) -> Plan | None:
    """The likeliest plan with the settings asked for, if there is one and it should be taken."""
    rounding = problem.params["rounding"] or (INSIDE if pays(problem, device) else BEFORE)
    if rounding == BEFORE:
        return None
    named = {name: problem.params[name] for name in ("threads", "team", "units", "team_rows")}
    for plan in _plans(problem, device):
        planned = _settings(plan)
        if all(not value or planned[name] == value for name, value in named.items()):
            return plan
    return None


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot round vectors inside workgroups where it is asked to, or None."""
    if problem.params["rounding"] != INSIDE or _plan_of(problem, device):
        return None
    if device.subgroup_size < products.LEAST_SUBGROUP:
        return f"rounding={INSIDE} is for subgroups of {products.LEAST_SUBGROUP} threads or more"
    if lacking := set(FEATURES) - set(device.features):
        return f"rounding={INSIDE} needs {', '.join(sorted(lacking))}"
    return (
        f"rounding={INSIDE} does not go with these settings, or needs more shared memory than "
        f"the device's {device.limits.get('max_shared_bytes', 0)} bytes"
    )


def launch(plain: Launch, problem: Problem, device: DeviceFacts) -> Launch | None:
    """The product in place of a plain one and of the launch before it, or None."""
    plan = _plan_of(problem, device)
    return _launch(plan, plain, problem, device) if plan else None


def _launch(plan: Plan, plain: Launch, problem: Problem, device: DeviceFacts) -> Launch:
    columns = products.columns(problem)
    groups = grid(-(-problem.shape["m"] // plan.height), depth=plain.groups[2])
    return Launch(
        groups=groups,
        entry=ENTRY,
        push={**plain.push, "groups_x": groups[0]},
        constants={
            "THREADS": plan.threads,
            "COLUMNS": columns,
            "ALIGNED": products.are_rows_aligned(problem),
            "UNITS": plan.units,
            "TEAM_ROWS": plan.rows,
            "WORDS": products.in_words(problem),
            "TEAM": plan.team,
            "FOUND": _sums(plan, problem, device),
            "HEIGHT": plan.height,
            "BLOCKS": _blocks(problem),
            "STAGED": _blocks(problem) * columns,
            "WIDE_STAGED": 2 * _blocks(problem) * columns,
        },
    )


STAGE: Final = Stage(
    entry=ENTRY,
    module=MODULE,
    arguments=lambda types: (types["weights"], types["x"]),
)
