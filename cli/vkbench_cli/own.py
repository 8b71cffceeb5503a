"""The kernel of one's own that `--kernel-file` names, compiled once a command."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from vkbench.case import parse_shape
from vkbench.user import user_name

if TYPE_CHECKING:
    from vkbench_scheduler.planning.selection import OwnCases
    from vkbench_shaders.own.building import Built


@cache
def built(path: Path, shapes: tuple[str, ...], seeds: tuple[int, ...] = ()) -> Built:
    """The kernel that a file declares, with its cases or those of other shapes, for seeds too."""
    from vkbench_shaders.own.building import build

    return build(path, user_name(), [parse_shape(text) for text in shapes], seeds)


def cases_of(kernel: Built | None) -> OwnCases | None:
    """What can be chosen of a kernel."""
    from vkbench_scheduler.planning.own import cases_of as declared

    return declared(kernel.kernel) if kernel else None
