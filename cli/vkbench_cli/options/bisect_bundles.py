"""The bundles of `vkbench bisect --bundles`, and the case that they are asked."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from vkbench.case import is_own
from vkbench.errors import UsageError

if TYPE_CHECKING:
    from vkbench_db.database import Transaction
    from vkbench_shaders.bundle import Bundle
    from vkbench_shaders.kernel import Problem

PACKAGED: Final = "packaged"


def pose_case_to(bundles: Sequence[Bundle], case: str) -> Problem:
    """The problem of a case, which the first bundle that has it declares, or the catalogue."""
    from vkbench_shaders import catalogue
    from vkbench_shaders.own.posing import NotDeclared, pose_case

    for bundle in bundles:
        with suppress(NotDeclared):
            return pose_case(bundle, case)
    if is_own(case):
        raise UsageError(f"no bundle declares {case}: give --bundles, or --kernel-file")
    return catalogue.problem(case)


def choose_bundles(tx: Transaction, names: Sequence[str], good: str, bad: str) -> list[Bundle]:
    """The bundles of these names, from a good one to a bad one where these are named."""
    from vkbench_cli.bundles import bundle_named
    from vkbench_shaders.bundle import packaged

    named = [bundle_named(tx, "" if name == PACKAGED else name) or packaged() for name in names]
    first = _place(named, good) if good else 0
    last = _place(named, bad) if bad else len(named) - 1
    return named[first : last + 1]


def _place(bundles: Sequence[Bundle], word: str) -> int:
    places = [place for place, bundle in enumerate(bundles) if bundle.sha.startswith(word.lower())]
    if len(places) != 1:
        raise UsageError(f"'{word}' does not name one of --bundles")
    return places[0]
