"""Users' own kernels: compiles what `--kernel-file` names, or reads them from a bundle."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vkbench.case import parse_shape
from vkbench.process.user import user_name

if TYPE_CHECKING:
    from vkbench_scheduler.planning.selection import OwnCases
    from vkbench_shaders.bundle import Bundle
    from vkbench_shaders.own.building import Built


@cache
def build_own(
    path: Path, shapes: tuple[str, ...], seeds: tuple[int, ...] = (), *, batches: bool = False
) -> Built:
    """The kernel that a file declares, with its cases or those of other shapes, and more of them.

    Those are the cases with other inputs, by seeds, and the parts of their batches.
    """
    from vkbench_shaders.own.building import build

    return build(path, user_name(), [parse_shape(text) for text in shapes], seeds, batches=batches)


def cases_of(bundle: Bundle | None, kernel: Built | None) -> OwnCases | None:
    """The cases that can be chosen of a bundle's declared kernel; None if it declares none.

    Of a kernel that was compiled just now, the parts of batches cannot.
    """
    from vkbench_scheduler.planning.own import cases_of as declared

    kernels = bundle.manifest.kernels if bundle else ()
    if not kernels:
        return None
    choices = declared(kernels[0])
    parts = kernel.parts if kernel else ()
    cases, seeded = (
        tuple(name for name in names if name not in parts)
        for names in (choices.cases, choices.seeded)
    )
    return replace(choices, cases=cases, seeded=seeded)
