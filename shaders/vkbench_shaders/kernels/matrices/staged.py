"""Products via q8_1 whose workgroups round the vectors themselves, into shared memory.

That makes one launch of two, and each block of x is read once for all rows of a workgroup. The
workgroups are larger, and consist of teams: see slang/matrices/mul_mat_vec_staged.slang.

Timed on an H100 (m 4096, n 1, k 14336, 10 to 17 formats) and not faster: loading weights a step
early, decoded or as words; touching their memory before vectors are rounded; rounding by eight
lanes a block; threads that keep a block of x each and walk down all rows. Rounding takes 2.1 us.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Param, Problem, Settings, Stage, grid
from vkbench_shaders.kernels.matrices import products, subgroups

MODULE: Final = "mul_mat_vec_staged"
ENTRY: Final = "mul_mat_vec_rounding"
BEFORE, INSIDE = "before", "inside"
FEATURES: Final = ("int_dot", "subgroup_arithmetic")
_SIZES = (512, 256)  # of workgroups
_TEAMS = (64, 32, 128)  # threads
_UNITS = (1, 2)  # blocks that a thread takes at a time
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
_FULL = 512  # threads of a multiprocessor, as large workgroups leave it
_MOST_PASSES = 16
# Where nothing was measured: what was the fastest on an H200 at m 4096, n 1, k 14336.
_TEAMS_OF_A_WORKGROUP = 8
_USUAL_TEAMS = (64, 32)
_LEAST_BUSY = 3 / 4  # of the multiprocessors, where one launch is faster than two
# Where it is not one: 16 bytes of q4_0 have one scale and leave registers for a second block; four
# of tq2_0 share their bytes.
_AT_ONCE = {"q4_0": 2, "tq2_0": 4}

# Of a path that runs by its name alone: no case sets them, for `auto` would have to skip it.
OF_A_NAMED_PATH: Final = ("rounding", "units")
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
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a product is shared out."""

    threads: int
    team: int
    units: int
    passes: int  # times that a team takes its rows

    @property
    def height(self) -> int:
        """Rows of a workgroup."""
        return self.passes * products.ROWS * (self.threads // self.team)


def _blocks(problem: Problem) -> int:
    """Of a vector."""
    return problem.shape["k"] // products.QUANTISED_UNIT


def _sums(plan: Plan, problem: Problem, device: DeviceFacts) -> int:
    """That a workgroup keeps."""
    return plan.height * products.columns(problem) * (plan.team // subgroups.least_threads(device))


def _fits(plan: Plan, problem: Problem, device: DeviceFacts) -> bool:
    """Whether shared memory has room for the vectors."""
    table = _TABLES.get(problem.format("weights").grid, 0)
    vectors = _BLOCK * _blocks(problem) * products.columns(problem)
    needed = table + 4 * _sums(plan, problem, device) + vectors
    return needed <= device.limits.get("max_shared_bytes", 0)


def _passes(problem: Problem, device: DeviceFacts, threads: int, team: int) -> int:
    """So many that no multiprocessor has to wait for a second workgroup."""
    at_once = products.ROWS * (threads // team)
    places = device.compute_units * max(1, _FULL // threads)
    return max(1, min(_MOST_PASSES, -(-problem.shape["m"] // (at_once * places)))) if places else 1


def _planned(
    problem: Problem, device: DeviceFacts, threads: int, team: int, units: int
) -> Plan | None:
    """A plan with these threads of a workgroup and of a team, and units; None if none fits."""
    if device.subgroup_size > team or _blocks(problem) % units:
        return None
    for passes in (_passes(problem, device, threads, team), 1):
        plan = Plan(threads=threads, team=team, units=units, passes=passes)
        if _fits(plan, problem, device):
            return plan
    return None


def _usual_units(problem: Problem) -> int:
    return gcd(_AT_ONCE.get(problem.types["weights"], 1), _blocks(problem))


def _usual(problem: Problem, device: DeviceFacts) -> tuple[int, int, int] | None:
    """Threads, team and units, of teams whose threads all have a block; None if there are none."""
    units = _usual_units(problem)
    most = _blocks(problem) // units
    teams = (team for team in _USUAL_TEAMS if device.subgroup_size <= team <= most)
    team = next(teams, 0)
    return (_TEAMS_OF_A_WORKGROUP * team, team, units) if team else None


def _plans(problem: Problem, device: DeviceFacts) -> Iterator[Plan]:
    """All that a device has room for, the likeliest first."""
    if not set(FEATURES) <= set(device.features) or device.subgroup_size < subgroups.FEWEST:
        return
    usual = _usual(problem, device)
    others = product(_SIZES, _TEAMS, dict.fromkeys((_usual_units(problem), *_UNITS)))
    most = device.limits.get("max_workgroup_invocations", 0)
    for sizes in dict.fromkeys((usual, *others) if usual else others):
        if sizes[0] <= most and (plan := _planned(problem, device, *sizes)):
            yield plan


def pays(problem: Problem, device: DeviceFacts) -> bool:
    """Whether one launch should be faster than two.

    Every workgroup rounds the whole vector. That costs less than a launch where a GPU has about as
    many workgroups as multiprocessors, each with many rows, and all threads of a team have a block.
    """
    if problem.shape["n"] > 1 or device.type == "cpu" or not device.compute_units:
        return False
    plan = next(_plans(problem, device), None)
    if plan is None or (plan.threads, plan.team, plan.units) != _usual(problem, device):
        return False
    return -(-problem.shape["m"] // plan.height) >= _LEAST_BUSY * device.compute_units


def _settings(plan: Plan) -> Settings:
    return {
        "rounding": INSIDE,
        "threads": plan.threads,
        "team": plan.team,
        "units": plan.units,
    }


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """All that a device has room for, the likeliest first."""
    return [_settings(plan) for plan in _plans(problem, device)]


def _plan_of(problem: Problem, device: DeviceFacts) -> Plan | None:
    """The likeliest plan with the settings asked for, if there is one and it should be taken."""
    rounding = problem.params["rounding"] or (INSIDE if pays(problem, device) else BEFORE)
    if rounding == BEFORE:
        return None
    asked = {name: problem.params[name] for name in ("threads", "team", "units")}
    for plan in _plans(problem, device):
        found = _settings(plan)
        if all(not wanted or found[name] == wanted for name, wanted in asked.items()):
            return plan
    return None


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot round vectors inside workgroups where it is asked to, or None."""
    if problem.params["rounding"] != INSIDE or _plan_of(problem, device):
        return None
    if device.subgroup_size < subgroups.FEWEST:
        return f"rounding={INSIDE} is for subgroups of {subgroups.FEWEST} threads or more"
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
            "ALIGNED": products.aligned(problem),
            "UNITS": plan.units,
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
