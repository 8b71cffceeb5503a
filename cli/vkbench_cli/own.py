"""The kernel of one's own that `--kernel-file` names, compiled once a command."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vkbench.case import parse_shape
from vkbench.user import user_name

if TYPE_CHECKING:
    from vkbench_scheduler.planning.selection import OwnCases
    from vkbench_shaders.own.building import Built


@cache
def built(
    path: Path, shapes: tuple[str, ...], seeds: tuple[int, ...] = (), *, batches: bool = False
) -> Built:
    """The kernel that a file declares, with its cases or those of other shapes, and more of them.

    Those are the cases with other inputs, by seeds, and the parts of their batches.
    """
    from vkbench_shaders.own.building import build

    return build(path, user_name(), [parse_shape(text) for text in shapes], seeds, batches=batches)


def cases_of(kernel: Built | None) -> OwnCases | None:
    """What can be chosen of a kernel."""
    from vkbench_scheduler.planning.own import cases_of as declared

    if kernel is None:
        return None
    found = declared(kernel.kernel)
    cases, seeded = (
        tuple(name for name in names if name not in kernel.parts)
        for names in (found.cases, found.seeded)
    )
    return replace(found, cases=cases, seeded=seeded)
