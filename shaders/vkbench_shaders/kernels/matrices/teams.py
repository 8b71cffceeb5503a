"""Products with a few vectors whose workgroups make blocks of 32 rows of y, in teams of threads.

A team walks along k for four rows at a time. See slang/matrices/teams.slang.
"""

from __future__ import annotations

from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Param, Problem, Push, Settings, Tuning, grid
from vkbench_shaders.kernels.matrices import products

BLOCK: Final = 32  # rows of y a workgroup, and numbers of a block of q8_1
_PASSES = BLOCK // products.ROWS  # of a team, for as many rows
_TEAMS = (32, 64, 128)  # threads
_SIZES = (128, 256, 512, 1024)  # of workgroups
_MOST_KEPT = 4096  # sums in shared memory: 16 KiB, which every device has
_LEAST_SUBGROUP = 8  # threads: CPU drivers with fewer take long to compile code for several blocks


def _halves(problem: Problem) -> int:
    """Rows of weights for each row of y."""
    return problem.layout("weights").shape[0] // problem.shape["m"]


def _at_once(problem: Problem) -> int:
    """Blocks that a thread takes at a time."""
    return 1 if problem.shape["k"] // BLOCK % 2 else 2


def _kept(problem: Problem, device: DeviceFacts, team: int) -> int:
    """Sums that a workgroup keeps: of each row and column, and of squares, a number a subgroup."""
    slots = team // min(device.subgroup_size, _LEAST_SUBGROUP, team)
    return (BLOCK * _halves(problem) + products.ROWS) * products.columns(problem) * slots


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Teams that find room, in workgroups of as many teams as there are rows for them to share."""
    most = device.limits.get("max_workgroup_invocations", _SIZES[0])
    most_teams = _PASSES * _halves(problem)
    steps = problem.shape["k"] // BLOCK // _at_once(problem)
    teams = [team for team in _TEAMS if device.subgroup_size <= team]
    teams = [team for team in teams if _kept(problem, device, team) <= _MOST_KEPT]
    return [
        {"team": team, "threads": size}
        for team in sorted(teams, key=lambda team: abs(2 * team - steps))
        for size in reversed(_SIZES)
        if team <= size <= min(most, team * most_teams)
    ]


def _settings(problem: Problem, device: DeviceFacts) -> tuple[int, int]:
    """Threads of a team and of a workgroup; those of a case may be 0, for any."""
    asked = {name: int(problem.params[name]) for name in ("team", "threads")}
    for found in candidates(problem, device):
        if all(not wanted or found[name] == wanted for name, wanted in asked.items()):
            return int(found["team"]), int(found["threads"])
    return asked["team"] or max(_TEAMS[0], device.subgroup_size), asked["threads"] or _SIZES[0]


def refuses_teams(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device has no launch of teams, if it has none."""
    if device.subgroup_size < _LEAST_SUBGROUP:
        return f"is for subgroups of {_LEAST_SUBGROUP} threads or more"
    team, threads = _settings(problem, device)
    if {"team": team, "threads": threads} not in candidates(problem, device):
        return f"has no room for teams of {team} in workgroups of {threads}"
    return products.refuses(problem, device)


def launch(push: Push, fast: bool, problem: Problem, device: DeviceFacts) -> Launch:
    """Of teams, or with all threads as one team where that is not `fast`."""
    m, n, k = (problem.shape[dim] for dim in "mnk")
    columns = products.columns(problem)
    team, threads = _settings(problem, device) if fast else (_SIZES[0], _SIZES[0])
    constants = {
        "THREADS": threads,
        "COLUMNS": columns,
        "TEAM": team,
        "UNITS": _at_once(problem) if fast else 1,
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
}
TUNING: Final = Tuning(params=tuple(SPEED), candidates=candidates)
