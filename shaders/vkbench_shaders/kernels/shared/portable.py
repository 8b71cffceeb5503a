"""The code path that every device runs: a kernel's last variant, and often its only one."""

from __future__ import annotations

from collections.abc import Callable

from vkbench.device import DeviceFacts
from vkbench_shaders.kernel import (
    Arguments,
    Launches,
    Memory,
    Problem,
    Refuses,
    Stage,
    Variant,
    too_large,
)


def portable(
    module: str,
    launch: Callable[[Problem, DeviceFacts], Launches],
    arithmetic: str,
    *,
    entry: str = "",
    arguments: Arguments = lambda types: (),
    refuses: Refuses = too_large,
    more: tuple[Stage, ...] = (),
    own: Memory = Memory(),  # noqa: B008
) -> Variant:
    """The variant `portable`, whose entry point has its module's name unless it says another."""
    return Variant(
        name="portable",
        module=module,
        entry=entry,
        arguments=arguments,
        launch=launch,
        arithmetic=arithmetic,
        more=more,
        own=own,
        refuses=refuses,
    )
