"""Products with a few vectors whose workgroups make several rows of y, in teams of threads.

A team walks along k for four rows at a time. See slang/matrices/teams.slang.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log2
from typing import Final

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import Launch, Param, Problem, Push, Settings, Tuning, grid
from vkbench_shaders.kernels.matrices import products

BLOCK: Final = 32  # numbers of a block of q8_1, and the most rows of y a workgroup
_RUN = 8  # numbers whose squares are one sum, where they make no blocks: the fewest rows
_TEAMS = (32, 64, 128)  # threads
_SIZES = (128, 256, 512, 1024)  # of workgroups
_UNITS = (1, 2)  # blocks, or eights of numbers, that a thread takes at a time
# By the rows of weights for each of y. Of blocks they are what was fastest on an H200; of numbers,
# which were not timed there yet, what mul_mat_vec has, and half of it for twice the rows.
_LIKELY_TEAMS = {True: {1: 64, 2: 32}, False: {1: 128, 2: 64}}
_MANY = 256  # workgroups: where there are more, smaller ones are faster
_LIKELY_SIZE, _LIKELY_IN_MANY = 512, 256  # threads of a workgroup
_WIDE_BITS = 7.0  # of a weight, from which on two blocks take too many registers
_WIDE_NUMBERS = 2  # bytes of a weight without blocks, above which two eights take too many, too
_MOST_KEPT = 4096  # sums in shared memory: 16 KiB, which every device has


def run(problem: Problem) -> int:
    """Numbers whose squares are added up together."""
    return BLOCK if products.is_blocks(problem.types) else _RUN


def _halves(problem: Problem) -> int:
    """Rows of weights for each row of y."""
    return problem.layout("weights").shape[0] // problem.shape["m"]


def _height(problem: Problem, team: int, threads: int) -> int:
    """Rows of y a workgroup: a block; of numbers those that its teams make at once."""
    at_once = threads // team * products.ROWS // _halves(problem)
    return min(BLOCK, max(run(problem), at_once))


def _order(problem: Problem) -> tuple[int, ...]:
    """How many units a thread takes at a time: first what should be the fastest."""
    fmt = problem.format("weights")
    if not products.is_blocks(problem.types):
        return _UNITS if fmt.bytes > _WIDE_NUMBERS else _UNITS[::-1]
    wide = 8 * fmt.bytes / fmt.elements >= _WIDE_BITS or "residual" in problem.types
    return _UNITS if wide else _UNITS[::-1]


def _are_even(problem: Problem, team: int, units: int) -> bool:
    """Whether threads may take so many units at a time; of numbers, all take as many."""
    k = problem.shape["k"]
    if products.is_blocks(problem.types):
        return k // BLOCK % units == 0
    whole = products.are_rows_aligned(problem) and k // products.PLAIN_UNIT % (units * team) == 0
    return units == 1 or whole


def _count_kept_sums(
    problem: Problem, device: DeviceFacts, team: int, threads: int, height: int
) -> int:
    """Sums that a workgroup keeps: of rows a number a team's subgroup, of squares one of each."""
    least = min(products.least_threads(device), team)
    sums = height * _halves(problem) * (team // least) + threads // least
    return sums * products.columns(problem)


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """Teams that find room, in workgroups of as many teams as there are rows for them to share."""
    most = device.limits.get("max_workgroup_invocations", _SIZES[0])
    most_teams = BLOCK // products.ROWS * _halves(problem)
    teams = [team for team in _TEAMS if device.subgroup_size <= team]

    def fits(team: int, size: int, units: int) -> bool:
        is_shared = team <= size <= min(most, team * most_teams)
        height = _height(problem, team, size)
        has_room = _count_kept_sums(problem, device, team, size, height) <= _MOST_KEPT
        return is_shared and has_room and _are_even(problem, team, units)

    possible = [
        {"team": team, "threads": size, "units": units}
        for units in _order(problem)
        for team in teams
        for size in _SIZES
        if fits(team, size, units)
    ]
    return [dict(settings) for settings in sorted(possible, key=_distance_from_likely(problem))]


def _distance_from_likely(problem: Problem) -> Callable[[Mapping[str, int]], tuple[float, float]]:
    """How far workgroups and teams are from what should be the fastest."""
    is_blocks = products.is_blocks(problem.types)
    many = problem.shape["m"] // BLOCK > _MANY or not is_blocks
    size = _LIKELY_IN_MANY if many else _LIKELY_SIZE
    team = _LIKELY_TEAMS[is_blocks][_halves(problem)]
    return lambda found: (abs(log2(found["threads"] / size)), abs(log2(found["team"] / team)))


def _settings(problem: Problem, device: DeviceFacts) -> tuple[int, int, int]:
    """Threads of a team, of a workgroup, and blocks a thread; those of a case may be 0, for any."""
    named = {name: int(problem.params[name]) for name in SPEED}
    for settings in candidates(problem, device):
        if all(not value or settings[name] == value for name, value in named.items()):
            return int(settings["team"]), int(settings["threads"]), int(settings["units"])
    team = named["team"] or max(_TEAMS[0], device.subgroup_size)
    return team, named["threads"] or _SIZES[0], named["units"] or _UNITS[0]


def refuses_teams(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device has no launch of teams, if it has none."""
    if device.subgroup_size < products.LEAST_SUBGROUP and products.is_blocks(problem.types):
        return f"is for subgroups of {products.LEAST_SUBGROUP} threads or more"
    team, threads, units = _settings(problem, device)
    if {"team": team, "threads": threads, "units": units} not in candidates(problem, device):
        return f"has no room for teams of {team} in workgroups of {threads} with units={units}"
    return products.refuses(problem, device)


def launch(push: Push, fast: bool, problem: Problem, device: DeviceFacts) -> Launch:
    """A launch by teams, or by all threads as one team where teams are not `fast`."""
    m, n, k = (problem.shape[dim] for dim in "mnk")
    columns = products.columns(problem)
    team, threads, units = _settings(problem, device) if fast else (_SIZES[0], _SIZES[0], 1)
    height = _height(problem, team, threads)
    constants = {
        "THREADS": threads,
        "COLUMNS": columns,
        "TEAM": team,
        "UNITS": units,
        "ALIGNED": products.are_rows_aligned(problem),
        "WORDS": products.in_words(problem),
        "HEIGHT": height,
        "FOUND": _count_kept_sums(problem, device, *((team, threads) if fast else (1, 1)), height),
    }
    if not fast:
        constants["PARTIAL"] = products.ROWS * threads
    if "norm" in problem.params:
        constants["NORMED"] = problem.params["norm"] == "rms"
    groups = grid(-(-m // height), depth=-(-n // columns))
    given: Push = {"m": m, "n": n, "k": k, "groups_x": groups[0], **push}
    if "eps" in problem.params:
        eps = float(problem.params["eps"]) + 0.0  # never -0
        given = {**given, "runs": -(-k // run(problem)), "eps": eps}
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
        description=(
            "blocks, or eights of numbers, that a thread takes at a time; 0: what should be fastest"
        ),
    ),
}
TUNING: Final = Tuning(params=tuple(SPEED), candidates=candidates)
