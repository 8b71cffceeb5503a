"""Plans the jobs of a kernel that a user declares: cases to check, and cases to time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from vkbench.case import SEED, Case, parse, without_seed
from vkbench.errors import NothingToDo
from vkbench.job import CHECKS, MAIN, Mode
from vkbench.words import names
from vkbench_scheduler.planning.selection import ALL, AUTO, OwnCases, Selection
from vkbench_shaders.own.posing import outline_kernel
from vkbench_shaders.own.records import OwnKernel


def cases_of(kernel: OwnKernel) -> OwnCases:
    """The cases and variants of a declared kernel that a selection can choose."""
    return OwnCases(
        kernel=kernel.name,
        cases=tuple(case.name for case in kernel.cases if not _is_seeded(kernel, case.name)),
        seeded=tuple(case.name for case in kernel.cases if _is_seeded(kernel, case.name)),
        timed=tuple(case.name for case in kernel.cases if case.is_timed),
        variants=tuple(variant.name for variant in outline_kernel(kernel).variants),
        track=kernel.name if kernel.shadows else "",
    )


def on_its_track(selection: Selection) -> Selection:
    """The selection, kept off the catalogue's history if its kernel shadows another."""
    own = selection.own
    if own and own.track and selection.track == MAIN:
        return replace(selection, track=own.track)
    return selection


def chosen_of(own: OwnCases, selection: Selection) -> list[tuple[Case, Mode, str]]:
    """The case, mode and variant of each job per device."""
    what, known = f"case of {own.kernel}", (*own.cases, *own.seeded)
    chosen = [names.pick(name, known, what) for name in selection.cases] or own.cases
    jobs = [
        (parse(case), mode, variant)
        for mode, cases in _cases_of_modes(own, selection.mode)
        for case, variant in product(cases, _variants(own, selection.variant))
        if case in chosen
    ]
    if not jobs:
        raise NothingToDo(f"{own.kernel} declares no case to be timed")
    return jobs


def _cases_of_modes(own: OwnCases, chosen: Mode) -> list[tuple[Mode, Sequence[str]]]:
    """The single modes that a mode stands for, each with its cases."""
    known = (*own.cases, *own.seeded)
    by_mode: list[tuple[Mode, Sequence[str]]] = [(mode, known) for mode in (*CHECKS, Mode.COMPILE)]
    by_mode.append((Mode.PERFORMANCE, own.timed))
    modes = (Mode.CORRECTNESS, Mode.PERFORMANCE) if chosen is Mode.BOTH else (chosen,)
    return [(mode, cases) for mode, cases in by_mode if mode in modes]


def _is_seeded(kernel: OwnKernel, case: str) -> bool:
    """Whether a case's name has a seed that is no parameter of the kernel."""
    return without_seed(case)[1] > 0 and SEED not in kernel.params


def _variants(own: OwnCases, variant: str) -> Sequence[str]:
    if variant.casefold() == ALL:
        return own.variants
    if variant.casefold() == AUTO:
        return (AUTO,)
    return (names.pick(variant, own.variants, f"variant of {own.kernel}"),)
