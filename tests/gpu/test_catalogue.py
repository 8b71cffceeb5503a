"""Every code path of the catalogue is right on the CPU drivers, one case for each set of formats.

What takes the time is the drivers' compilers: there are some 660 paths, and nearly every shape of
one is a program of its own. So a path runs the next case of its formats' list, contiguous and
strided ones by turns and other ones on the other driver; formats of weights meet every layout and
kernels every value of their parameters. So do kernels that read no blocks, with the cases of their
formats: their paths take other cases than their neighbours, and together they run more of the list
than they would if each ran the same two. Each empty array runs on one path; on all of them it is
run without a driver by `tests/worker/test_execute.py`.

The drivers share the work. Of a kernel that reads blocks one driver runs every set of formats on
every path: lavapipe, but SwiftShader for attention, which lavapipe takes five seconds a case to
compile. The other driver adds its own compiler and subgroup size: there each format of weights
takes one path, and a path that had no turn runs one case. So it does on both drivers in the kernels
of `joined_vec.py`, which share the code that reads blocks: of two such kernels behind each other,
one takes the one path and one the other.
Of other kernels SwiftShader, which is slower, runs one case a path, and neither empty arrays nor
tiles and threads by name, which change the speed alone. Every case on every path is what `vkbench
run --suite quant` and `--suite transformer` run.

All that is half an hour of a core, and CI may be three times as slow. So of kernels all of whose
paths were right before with the very same launches, CI runs a fifth, another one whenever code of
the worker or the kernels changes; of other kernels, and elsewhere, all run. CONTRIBUTING says how
the kernels get into the list of those.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import cycle, groupby, islice
from math import inf
from pathlib import Path as FilePath

import pytest

from verified_kernels import digest_kernels, read_verified, write_verified
from vkbench.case import Value
from vkbench.job import Job, Mode, Outcome
from vkbench_shaders.bundle import Bundle
from vkbench_shaders.catalogue import KERNELS, problem
from vkbench_shaders.formats import format_named
from vkbench_shaders.kernel import Kernel, Problem
from vkbench_shaders.kernels.matrices.vectors import staged
from vkbench_shaders.kernels.matrices.vectors.joined_vec import JOINED_VEC
from vkbench_shaders.kernels.shared.cooperative.tiles import EXACT_NAMES, NAMES
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.vulkan.device import VulkanDevice

ROOT = FilePath(__file__).parents[2]
PARTS = 10  # of the paths of verified kernels, of which CI runs one

Path = tuple[Problem, str]  # and the variant's name
Types = Mapping[str, str]
FEW = 12  # paths of a kernel that reads no blocks: of fewer, each runs more cases than one
NUMBERS = ("fp64", "int64")  # features that a path needs for its numbers, however it computes


@dataclass(frozen=True)
class Sweep:
    """How much a driver runs."""

    start: int  # another one gives other cases
    plain: int  # cases on each path of a kernel that reads no blocks and has few paths
    has_empty: bool  # whether such a kernel runs its empty arrays
    has_tuned: bool  # whether kernels run every value of the parameters that change the speed alone
    whole: Callable[[Kernel], bool]  # whether a kernel that reads blocks runs every set of formats
    every: Callable[[Kernel], int] = lambda kernel: (
        1
    )  # else, one of how many formats of weights in blocks


class Cases:
    """A kernel's cases by formats and layout, taken in turn."""

    def __init__(self, kernel: Kernel, start: int) -> None:
        self._taken = dict.fromkeys(layouts(kernel), start)
        self._by_types: dict[str, dict[Value | None, list[Problem]]] = {}
        for case in kernel.cases:
            posed = Problem(kernel, case)
            found = self._by_types.setdefault(str(posed.types), {})
            found.setdefault(posed.params.get("layout"), []).append(posed)

    def next(self, types: Types, layout: Value | None) -> Problem:
        """The next one of these formats, in this layout where there is one."""
        found = self._by_types[str(types)]
        layout = layout if layout in found else next(iter(found))
        self._taken[layout] += 1
        return found[layout][self._taken[layout] % len(found[layout])]


def layouts(kernel: Kernel) -> tuple[Value | None, ...]:
    return kernel.params["layout"].choices if "layout" in kernel.params else (None,)


def reads_blocks(kernel: Kernel) -> bool:
    return any(format_named(fmt).quantised for b in kernel.bindings for fmt in b.types)


def by_weights(kernel: Kernel) -> list[list[Types]]:
    """The kernel's sets of formats, those of one format of weights together."""
    first = kernel.bindings[0].name
    return [list(group) for _, group in groupby(kernel.type_choices(), lambda t: t[first])]


def sampled(groups: list[list[Types]], every: int) -> list[list[Types]]:
    """One of so many; and all of weights without blocks, for which other code is."""
    return [
        group
        for place, group in enumerate(groups)
        if place % every == 0 or not any(format_named(fmt).quantised for fmt in group[0].values())
    ]


def turns(kernel: Kernel, sweep: Sweep) -> Iterator[Path]:
    """The cases that a driver runs."""
    if not reads_blocks(kernel):
        yield from plain_turns(kernel, sweep)
        return
    cases = Cases(kernel, sweep.start)
    for number, group in enumerate(sampled(by_weights(kernel), sweep.every(kernel))):
        paths = [(types, variant.name) for types in group for variant in kernel.variants_for(types)]
        turns_of_group = max(len(paths), len(layouts(kernel)))
        if not sweep.whole(kernel):
            paths = [paths[(number + KERNELS.index(kernel)) % len(paths)]]
            turns_of_group = 1
        for turn in range(turns_of_group):
            types, variant = paths[turn % len(paths)]
            kind = sweep.start + number + turn
            yield cases.next(types, layouts(kernel)[kind % len(layouts(kernel))]), variant


def plain_turns(kernel: Kernel, sweep: Sweep) -> Iterator[Path]:
    """Each path runs the next case of its formats' list, those of a kernel with few paths two."""
    listed = [Problem(kernel, case) for case in kernel.cases]
    paths = [(types, v.name) for types in kernel.type_choices() for v in kernel.variants_for(types)]
    count = max(len(paths), min(sweep.plain * len(paths), FEW))
    for number, (types, variant) in enumerate(islice(cycle(paths), count)):
        full = [posed for posed in listed if posed.types == types and not is_empty(posed)]
        step = max(1, len(full) // count)  # few turns take cases from all over the list
        yield full[(sweep.start + number * step) % len(full)], variant
    if sweep.has_empty:
        yield from empty_turns(listed)


def empty_turns(listed: list[Problem]) -> Iterator[Path]:
    """Each empty array on one path, with one set of formats after the other."""
    empty: dict[str, list[Problem]] = {}
    for posed in filter(is_empty, listed):
        empty.setdefault(form(posed), []).append(posed)
    for number, alike in enumerate(empty.values()):
        posed = alike[number % len(alike)]
        variants = posed.kernel.variants_for(posed.types)
        yield posed, variants[number % len(variants)].name


def is_empty(posed: Problem) -> bool:
    return 0 in posed.shape.values()


def form(posed: Problem) -> str:
    """A case whatever its formats."""
    return f"{posed.shape} {posed.params}"


def with_every_choice(kernel: Kernel, sweep: Sweep, paths: list[Path]) -> list[Path]:
    """And the first case of each value of a parameter that none of them has."""
    seen = {choice for posed, _ in paths for choice in posed.params.items()}
    for case in kernel.cases:
        posed = Problem(kernel, case)
        new = {(name, posed.params[name]) for name in every_choice(kernel, sweep)} - seen
        if new:
            seen |= new
            paths += [(posed, variant.name) for variant in kernel.variants_for(posed.types)]
    return paths


def with_every_variant(kernel: Kernel, paths: list[Path]) -> list[Path]:
    """And the first case of each code path without matrices that none of them has.

    Of a kernel that reads blocks: where each format of weights takes one path, a path that one
    format alone has may have no turn.
    """
    if not reads_blocks(kernel):
        return paths
    seen = {variant for _, variant in paths}
    for case in kernel.cases:
        posed = Problem(kernel, case)
        names = {variant.name for variant in kernel.variants_for(posed.types)} - seen
        seen |= names
        paths += [(posed, name) for name in sorted(names) if not name.startswith("coopmat")]
    return paths


def every_choice(kernel: Kernel, sweep: Sweep) -> dict[str, frozenset[Value]]:
    """The parameters of which a driver runs every value."""
    tuned = kernel.tuning.params if kernel.tuning and not sweep.has_tuned else ()
    named_alone = staged.OF_A_NAMED_PATH if kernel.name == "mul_mat_vec" else ()
    return {
        name: frozenset(param.choices) - (set(NAMES) - set(EXACT_NAMES))  # not by name alone
        for name, param in kernel.params.items()
        if param.choices and name not in (*tuned, *named_alone)
    }


def chosen(sweep: Sweep) -> dict[tuple[str, str], Path]:
    """Case and variant of all that a driver runs."""
    paths = [
        path
        for kernel in KERNELS
        for path in with_every_variant(
            kernel, with_every_choice(kernel, sweep, [*turns(kernel, sweep)])
        )
    ]
    return {(posed.case.name, variant): (posed, variant) for posed, variant in paths}


def is_attention(kernel: Kernel) -> bool:
    return kernel.group == "attention"


def one_of(kernel: Kernel) -> int:
    """SwiftShader takes seconds to compile code with barriers in loops."""
    return 6 if kernel in JOINED_VEC else 1


SWEEPS = {
    "lavapipe": Sweep(
        start=0,
        plain=2,
        has_empty=True,
        has_tuned=True,
        whole=lambda kernel: not is_attention(kernel) and kernel not in JOINED_VEC,
    ),
    "swiftshader": Sweep(
        start=1, plain=1, has_empty=False, has_tuned=False, whole=is_attention, every=one_of
    ),
}
LAVAPIPE, SWIFTSHADER = map(chosen, SWEEPS.values())


def find_part() -> int:
    """Which of PARTS of the verified kernels' paths a run in CI is about."""
    folders = (ROOT / "worker", ROOT / "shaders")
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    code = b"".join(path.read_bytes() for path in files)
    return int(sha256(code).hexdigest()[:8], 16) % PARTS


DIGESTS = digest_kernels([*LAVAPIPE.values(), *SWIFTSHADER.values()])
VERIFIED = read_verified() if os.environ.get("CI") else {}
PART = find_part()


def is_verified(kernel: Kernel) -> bool:
    return VERIFIED.get(kernel.name) == DIGESTS[kernel.name]


def test_what_is_left_to_later_changes_is_counted(renew: bool) -> None:
    if renew:
        write_verified(DIGESTS)
    total = len(LAVAPIPE) + len(SWIFTSHADER)
    count = len(due(LAVAPIPE)) + len(due(SWIFTSHADER))
    if not VERIFIED:
        assert count == total
        return
    changed = {kernel.name for kernel in KERNELS if not is_verified(kernel)}
    paths = [*LAVAPIPE.values(), *SWIFTSHADER.values()]
    anew = sum(posed.kernel.name in changed for posed, _ in paths)
    assert abs(count - anew - (total - anew) / PARTS) <= 2
    pytest.skip(
        f"{total - count} of {total} paths, all of verified kernels, are left to later changes; "
        f"{len(changed)} kernels changed since"
    )


def due(paths: Mapping[tuple[str, str], Path]) -> list[tuple[str, str]]:
    """The paths that this run is about."""
    verified = [key for key, (posed, _) in paths.items() if is_verified(posed.kernel)]
    left = {key for at, key in enumerate(verified) if at % PARTS != PART}
    return [key for key in paths if key not in left]


def each(every: Mapping[tuple[str, str], Path]) -> pytest.MarkDecorator:
    paths = due(every)
    ids = [f"{case}-{variant}" for case, variant in paths]
    return pytest.mark.parametrize(("case", "variant"), paths, ids=ids)


@pytest.mark.parametrize("driver", SWEEPS)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_what_is_chosen_is_something_of_everything(kernel: Kernel, driver: str) -> None:
    paths = {"lavapipe": LAVAPIPE, "swiftshader": SWIFTSHADER}[driver]
    ours = [path for path in paths.values() if path[0].kernel is kernel]
    ran = {(str(posed.types), variant) for posed, variant in ours}
    every = {
        (str(types), variant.name)
        for types in kernel.type_choices()
        for variant in kernel.variants_for(types)
    }
    if SWEEPS[driver].whole(kernel) or not reads_blocks(kernel):
        assert ran == every
    else:
        assert without_matrices(ran) == without_matrices(every)
    listed = [Problem(kernel, case) for case in kernel.cases]
    if SWEEPS[driver].has_empty and not reads_blocks(kernel):
        empty = {form(posed) for posed in listed if is_empty(posed)}
        assert empty == {form(posed) for posed, _ in ours if is_empty(posed)}
    kinds = {(posed.case.format, posed.params.get("layout")) for posed in listed}
    if SWEEPS[driver].whole(kernel) and any(format_named(fmt).quantised for fmt, _ in kinds):
        assert kinds == {(posed.case.format, posed.params.get("layout")) for posed, _ in ours}
    for name, choices in every_choice(kernel, SWEEPS[driver]).items():
        assert {posed.params[name] for posed, _ in ours} >= choices


def without_matrices(paths: set[tuple[str, str]]) -> set[str]:
    """The variants of a sweep but those that neither driver runs: see test_new_lavapipe.py."""
    return {variant for _, variant in paths if not variant.startswith("coopmat")}


def is_for_others(device: VulkanDevice, posed: Problem, variant: str) -> bool:
    """Whether a case asks for a tile of another variant, or for more threads than there may be."""
    is_tile = str(posed.params.get("tile")).startswith("coop_") != variant.startswith("coopmat")
    asked = posed.case.params
    takes_threads = posed.kernel not in JOINED_VEC or variant != "portable"  # that has its own
    most = device.facts.limits["max_workgroup_invocations"] if takes_threads else inf
    if posed.kernel.name == "mul_mat_vec" and variant != "teams":
        most = min(most, 256)
    too_many = int(asked.get("threads", 0)) > most
    return ("tile" in asked and is_tile) or too_many


def lacks(device: VulkanDevice, case: str, variant: str) -> str:
    """A feature that the device is without, of a path that is about nothing else."""
    kernel = problem(case).kernel
    requires = kernel.variant(variant).requires
    is_about = kernel.group == "calibrate" or {"coopmat", *NUMBERS} & {*requires}
    about = requires if is_about else ()
    return next((feature for feature in about if feature not in device.facts.features), "")


def check(device: VulkanDevice, bundle: Bundle, case: str, variant: str) -> None:
    # A CPU driver may compile for a minute where others use the cores too.
    job = Job(
        id=1,
        token=1,
        case=case,
        mode=Mode.CORRECTNESS,
        variant=variant,
        limit_seconds=1200,
    )
    result = execute(device, bundle, job)
    if lacking := lacks(device, case, variant):
        assert result.outcome is Outcome.SKIPPED
        assert lacking in result.reason
        return
    if (
        variant == "int_dot"
        and device.facts.subgroup_size < 8
        and "subgroups of 8" in result.reason
    ):
        assert result.outcome is Outcome.SKIPPED
        return
    if "are too wide for 4 lanes" in result.reason:
        posed = problem(case)
        assert (posed.kernel.name, variant) == ("flash_attn_token", "subgroup")
        assert device.facts.subgroup_size == 4
        assert posed.shape["d"] == 256
        assert result.outcome is Outcome.SKIPPED
        return
    if is_for_others(device, problem(case), variant):
        assert result.outcome is Outcome.SKIPPED
        known = "has no (tiles|room for teams) of|cannot have |is for subgroups"
        assert re.search(known, result.reason)
        return
    assert result.outcome is Outcome.PASSED, f"{result.reason} {result.verdict}"
    assert result.verdict
    assert result.verdict.compared == result.verdict.total


@each(LAVAPIPE)
def test_lavapipe_computes_it(
    lavapipe: VulkanDevice, bundle: Bundle, case: str, variant: str
) -> None:
    check(lavapipe, bundle, case, variant)


@each(SWIFTSHADER)
def test_swiftshader_computes_it(
    swiftshader: VulkanDevice, bundle: Bundle, case: str, variant: str
) -> None:
    check(swiftshader, bundle, case, variant)
