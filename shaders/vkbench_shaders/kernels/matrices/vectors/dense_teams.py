"""Products of dense weights and several vectors whose workgroups make many rows, in teams.

All teams of a workgroup walk along k in step, so that one reading of the vectors is for all its
rows. See slang/matrices/mul_mat_vec_teams.slang.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import log2
from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.formats import PLAIN
from vkbench_shaders.kernel import Choice, Launch, Param, Problem, Settings, Stage, Variant, grid
from vkbench_shaders.kernels.matrices import products
from vkbench_shaders.tuning.rates import busy

_MODULE = "mul_mat_vec_teams"
_ENTRIES = {4: "mul_mat_vec_fours", 8: "mul_mat_vec_eights"}  # by the rows of a team
_TEAMS = (32, 64, 128)  # threads
_SIZES = (32, 64, 128, 256, 512, 1024)  # of workgroups
_LIKELY_ROWS, _LIKELY_TEAM = 4, 64
_LOW, _HIGH = 16, 32  # rows of a workgroup that should be the fastest
_SHARE = 0.5  # bytes of x for one of weights, at most, that a cache of all workgroups has to bring
_FEWEST = 3  # vectors from which on that pays
_MANY = 4  # vectors above which narrow weights are best loaded a step early
_WIDE = 4  # bytes of weights that always are
_MOST_KEPT = 4096  # sums in shared memory: 16 KiB, which every device has

PARAMS: Final[Mapping[str, Param]] = {
    "rows": Param(
        default=0,
        choices=(0, *_ENTRIES),
        description="rows of weights that a team of variant teams takes; 0: what should be fastest",
    ),
    "ahead": Param(
        default="",
        choices=("", "yes", "no"),
        description="whether variant teams loads weights a step early; empty: what should be "
        "fastest",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a product is shared out."""

    rows: int  # of a team
    team: int  # threads
    threads: int  # of a workgroup
    ahead: bool  # whether weights are loaded a step early

    @property
    def height(self) -> int:
        """Rows of a workgroup, which share one reading of x."""
        return self.threads // self.team * self.rows

    @property
    def settings(self) -> Settings:
        """The plan as parameters of the kernel."""
        return {
            "rows": self.rows,
            "team": self.team,
            "threads": self.threads,
            "ahead": "yes" if self.ahead else "no",
        }


def _count_kept_sums(problem: Problem, device: DeviceFacts, plan: Plan) -> int:
    """Sums that a workgroup keeps: of each number, one of every subgroup of its team."""
    subgroups = plan.team // products.least_threads(device)
    return plan.height * products.columns(problem) * subgroups


def _plans(problem: Problem, device: DeviceFacts) -> Iterator[Plan]:
    """All plans that a device has room for."""
    most = device.limits.get("max_workgroup_invocations", _SIZES[2])
    for rows, team, threads, ahead in product(_ENTRIES, _TEAMS, _SIZES, (True, False)):
        plan = Plan(rows=rows, team=team, threads=threads, ahead=ahead)
        is_shared = device.subgroup_size <= team <= threads <= most
        if is_shared and _count_kept_sums(problem, device, plan) <= _MOST_KEPT:
            yield plan


def _groups(problem: Problem, height: int) -> int:
    columns = products.columns(problem)
    return -(-problem.shape["m"] // height) * -(-problem.shape["n"] // columns)


def _likely_height(problem: Problem, device: DeviceFacts) -> int:
    """Rows of a group: x is a small part of what it reads, and each compute unit has two groups."""
    vectors = products.columns(problem) * problem.item_bytes("x")
    is_high = vectors > _SHARE * _LOW * problem.item_bytes("weights")
    return _HIGH if is_high and _groups(problem, _HIGH) >= busy(device, 2) else _LOW


def _likely_team(problem: Problem) -> int:
    """Threads of a team: as many as have something to do."""
    units = problem.shape["k"] // products.PLAIN_UNIT
    return next((team for team in _TEAMS if units <= team < _LIKELY_TEAM), _LIKELY_TEAM)


def _loads_early(problem: Problem) -> bool:
    """On an H200 f16 takes 35 us with 4 vectors (early: 66), and 81 with 8 (early: 46)."""
    return problem.item_bytes("weights") >= _WIDE or products.columns(problem) > _MANY


def _order_plans(problem: Problem, device: DeviceFacts) -> list[Plan]:
    """Plans for a device, the one first that should be fastest; tuning finds which is."""
    height, team = _likely_height(problem, device), _likely_team(problem)

    def distance_from_likely(plan: Plan) -> float:
        sizes = abs(log2(plan.height / height)) + abs(log2(plan.team / team))
        return sizes + (plan.rows != _LIKELY_ROWS) + (plan.ahead != _loads_early(problem))

    return sorted(_plans(problem, device), key=distance_from_likely)


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Rows and threads of teams, and threads of workgroups."""
    return [plan.settings for plan in _order_plans(problem, device)]


def plan_of(problem: Problem, device: DeviceFacts) -> Plan:
    """The likeliest plan with the settings asked for."""
    plans = _order_plans(problem, device)

    def keeps(plan: Plan) -> bool:
        return all(problem.params[name] in (value, 0, "") for name, value in plan.settings.items())

    return next(filter(keeps, plans), plans[0])


def _refuses(problem: Problem, device: DeviceFacts) -> str | None:
    if not any(_plans(problem, device)):
        return f"has no room for teams of subgroups of {device.subgroup_size} threads"
    return products.refuses(problem, device)


def _suits(problem: Problem, device: DeviceFacts) -> bool:
    """Whether there are several vectors, and workgroups for all compute units."""
    is_busy = _groups(problem, _LOW) >= busy(device, 1)
    return problem.shape["n"] >= _FEWEST and products.are_rows_aligned(problem) and is_busy


def launch(problem: Problem, device: DeviceFacts) -> Launch:
    m, n = problem.shape["m"], problem.shape["n"]
    plan, columns = plan_of(problem, device), products.columns(problem)
    groups = grid(-(-m // plan.height), depth=-(-n // columns))
    return Launch(
        groups=groups,
        entry=_ENTRIES[plan.rows],
        push=products.sizes(problem, groups),
        constants={
            "THREADS": plan.threads,
            "COLUMNS": columns,
            "ALIGNED": products.are_rows_aligned(problem),
            "TEAM": plan.team,
            "HEIGHT": plan.height,
            "FOUND": _count_kept_sums(problem, device, plan),
            "AHEAD": plan.ahead,
        },
    )


VARIANT: Final = Variant(
    name="teams",
    module=_MODULE,
    entry=_ENTRIES[4],
    arguments=lambda types: (types["weights"], types["x"]),
    more=(Stage(entry=_ENTRIES[8], arguments=lambda types: (types["weights"], types["x"])),),
    launch=launch,
    arithmetic="f32",
    choice=Choice(candidates=candidates, suits=_suits),
    requires=("subgroup_arithmetic",),
    accepts=lambda types: types["weights"] in PLAIN and products.is_numbers(types),
    refuses=_refuses,
)
