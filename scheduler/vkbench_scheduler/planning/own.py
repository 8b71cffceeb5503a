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
    """What can be chosen of a kernel."""
    return OwnCases(
        kernel=kernel.name,
        cases=tuple(case.name for case in kernel.cases if not _is_seeded(kernel, case.name)),
        seeded=tuple(case.name for case in kernel.cases if _is_seeded(kernel, case.name)),
        timed=tuple(case.name for case in kernel.cases if case.is_timed),
        variants=tuple(variant.name for variant in outline_kernel(kernel).variants),
        track=kernel.name if kernel.shadows else "",
    )


def on_its_track(selection: Selection) -> Selection:
    """A selection whose run joins no history of the catalogue's, if it is of a shadow."""
    own = selection.own
    if own and own.track and selection.track == MAIN:
        return replace(selection, track=own.track)
    return selection


def chosen_of(own: OwnCases, selection: Selection) -> list[tuple[Case, Mode, str]]:
    """Case, mode and variant of each job that a device gets."""
    what, known = f"case of {own.kernel}", (*own.cases, *own.seeded)
    chosen = [names.pick(name, known, what) for name in selection.cases] or own.cases
    found = [
        (parse(case), mode, variant)
        for mode, cases in _cases_of_modes(own, selection.mode)
        for case, variant in product(cases, _variants(own, selection.variant))
        if case in chosen
    ]
    if not found:
        raise NothingToDo(f"{own.kernel} declares no case to be timed")
    return found


def _cases_of_modes(own: OwnCases, asked: Mode) -> list[tuple[Mode, Sequence[str]]]:
    """The modes that a mode stands for, and the cases that they are for."""
    known = (*own.cases, *own.seeded)
    each: list[tuple[Mode, Sequence[str]]] = [(mode, known) for mode in CHECKS]
    each.append((Mode.PERFORMANCE, own.timed))
    wanted = (Mode.CORRECTNESS, Mode.PERFORMANCE) if asked is Mode.BOTH else (asked,)
    return [(mode, cases) for mode, cases in each if mode in wanted]


def _is_seeded(kernel: OwnKernel, case: str) -> bool:
    """Whether a case has other inputs than those it has by itself."""
    return without_seed(case)[1] > 0 and SEED not in kernel.params


def _variants(own: OwnCases, asked: str) -> Sequence[str]:
    if asked.casefold() == ALL:
        return own.variants
    if asked.casefold() == AUTO:
        return (AUTO,)
    return (names.pick(asked, own.variants, f"variant of {own.kernel}"),)
