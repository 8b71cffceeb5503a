"""The size of workgroups that a configuration runs a case with."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from vkbench.configuration import Configuration
from vkbench.device import DeviceFacts
from vkbench_shaders.catalogue import problem
from vkbench_shaders.launch import Launch

_THREADS: Final = "THREADS"  # specialisation constant


def threads_of(case: str, configuration: Configuration, device: DeviceFacts) -> int | None:
    """Threads of a workgroup in the first dispatch; None where the shader fixes them."""
    posed = replace(problem(case), settings=configuration.settings)
    launches = posed.kernel.variant(configuration.variant).launch(posed, device)
    first = launches if isinstance(launches, Launch) else launches[0]
    return first.constants.get(_THREADS)
