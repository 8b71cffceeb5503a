"""Products with a few vectors whose workgroups make blocks of 32 rows of y, in teams of threads.

A team walks along k for four rows at a time. See slang/matrices/teams.slang.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Param, Problem, Push, Settings, Tuning, grid
from vkbench_shaders.kernels.matrices import products

BLOCK: Final = 32  # rows of y a workgroup, and numbers of a block of q8_1
ADDING: Final = "mul_mat_vec_add_q8_1"
_PASSES = BLOCK // products.ROWS  # of a team, for as many rows
_TEAMS = (32, 64, 128)  # threads
_SIZES = (128, 256, 512, 1024)  # of workgroups
_UNITS = (1, 2)  # blocks that a thread takes at a time
_LIKELY_TEAMS = {1: 64, 2: 32}  # by the rows of weights for each of y, as on an H200
_MANY = 256  # workgroups: where there are more, smaller ones are faster
_LIKELY_SIZE, _LIKELY_IN_MANY = 512, 256  # threads of a workgroup
_WIDE_BITS = 7.0  # of a weight, from which on two blocks take too many registers
_MOST_KEPT = 4096  # sums in shared memory: 16 KiB, which every device has
_LEAST_SUBGROUP = 8  # threads: CPU drivers with fewer take long to compile code for several blocks


def _halves(problem: Problem) -> int:
    """Rows of weights for each row of y."""
    return problem.layout("weights").shape[0] // problem.shape["m"]


def _units(problem: Problem) -> tuple[int, ...]:
    """How many blocks a thread may take at a time; first what should be the fastest."""
    if problem.shape["k"] // BLOCK % 2:
        return _UNITS[:1]
    fmt = problem.format("weights")
    wide = 8 * fmt.bytes / fmt.elements >= _WIDE_BITS or problem.kernel.name == ADDING
    return _UNITS if wide else _UNITS[::-1]


def _kept(problem: Problem, device: DeviceFacts, team: int) -> int:
    """Sums that a workgroup keeps: of each row and column, and of squares, a number a subgroup."""
    slots = team // min(device.subgroup_size, _LEAST_SUBGROUP, team)
    return (BLOCK * _halves(problem) + products.ROWS) * products.columns(problem) * slots


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Teams that find room, in workgroups of as many teams as there are rows for them to share."""
    most = device.limits.get("max_workgroup_invocations", _SIZES[0])
    most_teams = _PASSES * _halves(problem)
    teams = [team for team in _TEAMS if device.subgroup_size <= team]
    teams = [team for team in teams if _kept(problem, device, team) <= _MOST_KEPT]
    many = problem.shape["m"] // BLOCK > _MANY
    likely_team = _LIKELY_TEAMS[_halves(problem)]
    likely_size = _LIKELY_IN_MANY if many else _LIKELY_SIZE

    def unlikely(found: Mapping[str, int]) -> tuple[float, float]:
        """How far workgroups and teams are from what should be the fastest."""
        return (
            abs(log2(found["threads"] / likely_size)),
            abs(log2(found["team"] / likely_team)),
        )

    found = [
        {"team": team, "threads": size, "units": units}
        for units in _units(problem)
        for team in teams
        for size in _SIZES
        if team <= size <= min(most, team * most_teams)
    ]
    return [dict(each) for each in sorted(found, key=unlikely)]


def _settings(problem: Problem, device: DeviceFacts) -> tuple[int, int, int]:
    """Threads of a team, of a workgroup, and blocks a thread; those of a case may be 0, for any."""
    asked = {name: int(problem.params[name]) for name in SPEED}
    for found in candidates(problem, device):
        if all(not wanted or found[name] == wanted for name, wanted in asked.items()):
            return int(found["team"]), int(found["threads"]), int(found["units"])
    team = asked["team"] or max(_TEAMS[0], device.subgroup_size)
    return team, asked["threads"] or _SIZES[0], asked["units"] or _UNITS[0]


def refuses_teams(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device has no launch of teams, if it has none."""
    if device.subgroup_size < _LEAST_SUBGROUP:
        return f"is for subgroups of {_LEAST_SUBGROUP} threads or more"
    team, threads, units = _settings(problem, device)
    if {"team": team, "threads": threads, "units": units} not in candidates(problem, device):
        return f"has no room for teams of {team} in workgroups of {threads}, {units} blocks each"
    return products.refuses(problem, device)


def launch(push: Push, fast: bool, problem: Problem, device: DeviceFacts) -> Launch:
    """Of teams, or with all threads as one team where that is not `fast`."""
    m, n, k = (problem.shape[dim] for dim in "mnk")
    columns = products.columns(problem)
    team, threads, units = _settings(problem, device) if fast else (_SIZES[0], _SIZES[0], 1)
    constants = {
        "THREADS": threads,
        "COLUMNS": columns,
        "TEAM": team,
        "UNITS": units,
        "WORDS": products.in_words(problem),
        "FOUND": _kept(problem, device, team if fast else 1),
    }
    if not fast:
        constants["PARTIAL"] = products.ROWS * threads
    if "norm" in problem.params:
        constants["NORMED"] = problem.params["norm"] == "rms"
    groups = grid(-(-m // BLOCK), depth=-(-n // columns))
    given: Push = {"m": m, "n": n, "k": k, "groups_x": groups[0], **push}
    if "eps" in problem.params:
        given = {**given, "eps": float(problem.params["eps"]) + 0.0}  # never -0
    row = problem.layout("weights").strides[0] * problem.item_bytes("weights")
    return Launch(groups=groups, push={**given, "bytes": row}, constants=constants)


SPEED: Final = {
    "team": Param(
        default=0,
        choices=(0, *_TEAMS),
        description="threads that walk along a row; 0: what should be fastest",
    ),
    "threads": Param(
        default=0,
        choices=(0, *_SIZES),
        description="threads of a workgroup; 0: what should be fastest",
    ),
    "units": Param(
        default=0,
        choices=(0, *_UNITS),
        description="blocks that a thread takes at a time; 0: what should be fastest",
    ),
}
TUNING: Final = Tuning(params=tuple(SPEED), candidates=candidates)
