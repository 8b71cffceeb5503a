"""Products via q8_1 whose workgroups keep the vectors in shared memory: larger ones, in teams.

Either a launch before rounds the vectors, and workgroups copy them, or each workgroup rounds them
for itself, in the only launch. See slang/matrices/mul_mat_vec_staged.slang.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from vkbench.device import NVIDIA, DeviceFacts
from vkbench_shaders.kernel import Launch, Param, Problem, Settings, Stage, grid
from vkbench_shaders.kernels.matrices import products

MODULE: Final = "mul_mat_vec_staged"
NONE, COPIED, ROUNDED = "none", "copied", "rounded"
FEATURES: Final = ("int_dot", "subgroup_arithmetic")
LEAST_SUBGROUP: Final = 8  # threads: CPU drivers with fewer take long to compile several blocks
_SIZES = (256, 512, 1024)  # of workgroups
_TEAMS = (32, 64, 128)  # threads
_UNITS = (1, 2, 4)  # blocks that a thread takes at a time
_BLOCK = 40  # bytes of a block of x in shared memory
_COPIED_BYTES, _COPIED_SCALES = 4, 2  # halves of blocks, and scales, that a thread copies at most
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

PARAMS: Final[Mapping[str, Param]] = {
    "staging": Param(
        default="",
        choices=("", NONE, COPIED, ROUNDED),
        description="how via_q8_1 brings vectors into shared memory: not at all, copied, or "
        "rounded there; empty: what should be fastest",
    ),
    "team": Param(
        default=0,
        choices=(0, *_TEAMS),
        description="threads that share rows, where vectors are staged; 0: what should be fastest",
    ),
    "units": Param(
        default=0,
        choices=(0, *_UNITS),
        description="blocks that a thread takes at a time; 0: what should be fastest",
    ),
    "ahead": Param(
        default="",
        choices=("", "yes", "no"),
        description="whether weights are loaded before vectors are staged; empty: what should be "
        "fastest",
    ),
}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a product with staged vectors is shared out."""

    staging: str
    threads: int
    team: int
    units: int
    ahead: bool
    chunk: int  # blocks of each column that are in shared memory at a time
    chunks: int
    passes: int  # times that a team takes its rows

    @property
    def height(self) -> int:
        """Rows of a workgroup."""
        return self.passes * products.ROWS * (self.threads // self.team)


def blocks(problem: Problem) -> int:
    """Of a vector."""
    return problem.shape["k"] // products.QUANTISED_UNIT


def _least_lanes(device: DeviceFacts) -> int:
    """Of a subgroup; some drivers run smaller ones than they report."""
    if device.vendor_id == NVIDIA:
        return device.subgroup_size
    return min(device.subgroup_size, LEAST_SUBGROUP)


def _kept(problem: Problem, device: DeviceFacts, height: int, team: int) -> int:
    """Sums that a workgroup keeps."""
    return height * products.columns(problem) * (team // _least_lanes(device))


def _room(problem: Problem, device: DeviceFacts, kept: int) -> int:
    """Blocks of each column for which there is shared memory."""
    table = _TABLES.get(problem.format("weights").grid, 0)
    free = device.limits.get("max_shared_bytes", 0) - table - kept * 4
    return free // (_BLOCK * products.columns(problem))


def _chunk(problem: Problem, room: int, step: int) -> int:
    """Blocks a chunk: all, or about as many in each, of which every thread has as many; else 0."""
    every = blocks(problem)
    if every <= room:
        return every
    rounds, most = -(-every // step), room // step
    return -(-rounds // -(-rounds // most)) * step if most > 0 else 0


def _passes(problem: Problem, device: DeviceFacts, threads: int, team: int) -> int:
    """So many that no multiprocessor has to wait for a second workgroup."""
    at_once = products.ROWS * (threads // team)
    places = device.compute_units * max(1, _FULL // threads)
    return max(1, min(_MOST_PASSES, -(-problem.shape["m"] // (at_once * places)))) if places else 1


def _planned(
    problem: Problem, device: DeviceFacts, staging: str, sizes: tuple[int, int, int], ahead: bool
) -> Plan | None:
    """A plan with these threads of a workgroup and of a team, and units; None if none fits."""
    threads, team, units = sizes
    if team > threads or device.subgroup_size > team or blocks(problem) % units:
        return None
    for passes in dict.fromkeys((_passes(problem, device, threads, team), 1)):
        kept = _kept(problem, device, passes * products.ROWS * (threads // team), team)
        room = min(_room(problem, device, kept), _most_loaded(problem, staging, threads))
        chunk = _chunk(problem, room, team * units)
        if chunk and (passes == 1 or chunk >= blocks(problem)):
            return Plan(
                staging=staging,
                threads=threads,
                team=team,
                units=units,
                ahead=ahead,
                chunk=chunk,
                chunks=-(-blocks(problem) // chunk),
                passes=passes,
            )
    return None


def _most_loaded(problem: Problem, staging: str, threads: int) -> int:
    """Blocks of each column for which threads have registers, where they load all at once."""
    if staging == ROUNDED:
        return blocks(problem)
    halves, scales = _COPIED_BYTES * threads // 2, _COPIED_SCALES * threads
    return min(halves, scales) // products.columns(problem)


def _plans(problem: Problem, device: DeviceFacts) -> Iterator[Plan]:
    most = device.limits.get("max_workgroup_invocations", 0)
    has_features = set(FEATURES) <= set(device.features)
    if not has_features or device.subgroup_size < LEAST_SUBGROUP:
        return
    for staging in (ROUNDED, COPIED):
        for threads in (size for size in _SIZES if size <= most):
            for team in _TEAMS:
                for units in _UNITS:
                    for ahead in (True, False):
                        sizes = (threads, team, units)
                        if plan := _planned(problem, device, staging, sizes, ahead):
                            yield plan


def _settings(plan: Plan) -> Settings:
    return {
        "staging": plan.staging,
        "threads": plan.threads,
        "team": plan.team,
        "units": plan.units,
        "ahead": "yes" if plan.ahead else "no",
    }


def candidates(problem: Problem, device: DeviceFacts) -> list[Settings]:
    """All that a device has room for."""
    return [_settings(plan) for plan in _plans(problem, device)]


def plan_of(problem: Problem, device: DeviceFacts) -> Plan | None:
    """The first plan with the settings asked for, if vectors shall be staged and one fits."""
    if problem.params.get("staging", "") in ("", NONE):
        return None
    asked = {name: problem.params[name] for name in ("threads", *PARAMS)}
    for plan in _plans(problem, device):
        found = _settings(plan)
        if all(not wanted or found[name] == wanted for name, wanted in asked.items()):
            return plan
    return None


def refuses(problem: Problem, device: DeviceFacts) -> str | None:
    """Why a device cannot stage vectors as it is asked to, or None."""
    staging = problem.params.get("staging", "")
    if staging in ("", NONE) or plan_of(problem, device):
        return None
    if device.subgroup_size < LEAST_SUBGROUP:
        return f"staging={staging} is for subgroups of {LEAST_SUBGROUP} threads or more"
    if lacking := set(FEATURES) - set(device.features):
        return f"staging={staging} needs {', '.join(sorted(lacking))}"
    return (
        f"has no room for staging={staging} with these settings: shared memory is "
        f"{device.limits.get('max_shared_bytes', 0)} bytes"
    )


def launch(plain: Launch, problem: Problem, device: DeviceFacts) -> tuple[Launch, bool] | None:
    """The product in place of a plain one, and whether it rounds the vectors; or None."""
    plan = plan_of(problem, device)
    return (_launch(plan, plain, problem, device), plan.staging == ROUNDED) if plan else None


def _launch(plan: Plan, plain: Launch, problem: Problem, device: DeviceFacts) -> Launch:
    columns = products.columns(problem)
    groups = grid(-(-problem.shape["m"] // plan.height), depth=plain.groups[2])
    return Launch(
        groups=groups,
        entry=f"mul_mat_vec_{plan.staging}",
        push={**plain.push, "groups_x": groups[0]},
        constants={
            "THREADS": plan.threads,
            "COLUMNS": columns,
            "ALIGNED": products.aligned(problem),
            "UNITS": plan.units,
            "WORDS": products.in_words(problem),
            "TEAM": plan.team,
            "FOUND": _kept(problem, device, plan.height, plan.team),
            "HEIGHT": plan.height,
            "CHUNK": plan.chunk,
            "STAGED": plan.chunk * columns,
            "WIDE_STAGED": 2 * plan.chunk * columns,
            "CHUNKS": plan.chunks,
            "PASSES": plan.passes,
            "AHEAD": plan.ahead,
        },
    )


STAGES: Final = (
    Stage(
        entry="mul_mat_vec_copied",
        module=MODULE,
        arguments=lambda types: (types["weights"],),
    ),
    Stage(
        entry="mul_mat_vec_rounded",
        module=MODULE,
        arguments=lambda types: (types["weights"], types["x"]),
    ),
)
