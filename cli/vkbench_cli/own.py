"""Kernels of one's own: compiled from what `--kernel-file` names, or declared by a bundle."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vkbench.case import parse_shape
from vkbench.user import user_name

if TYPE_CHECKING:
    from vkbench_scheduler.planning.selection import OwnCases
    from vkbench_shaders.bundle import Bundle
    from vkbench_shaders.own.building import Built


@cache
def built(path: Path, shapes: tuple[str, ...]) -> Built:
    """The kernel that a file declares, with its cases or those of other shapes."""
    from vkbench_shaders.own.building import build

    return build(path, user_name(), [parse_shape(text) for text in shapes])


def cases_of(bundle: Bundle | None) -> OwnCases | None:
    """What can be chosen of the kernel that a bundle declares; None where it declares none."""
    from vkbench_scheduler.planning.own import cases_of as declared

    kernels = bundle.manifest.kernels if bundle else ()
    return declared(kernels[0]) if kernels else None
