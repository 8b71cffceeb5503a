"""What this kernel has to contain a process with."""

from __future__ import annotations

import platform
from dataclasses import dataclass

from vkbench.errors import VkbenchError
from vkbench.process import system
from vkbench.settings import Sandbox
from vkbench_worker.containment import landlock, seccomp, user


class NotContained(VkbenchError):
    """VKBENCH_SANDBOX=require, and this kernel cannot contain what loads a driver."""


@dataclass(frozen=True, kw_only=True)
class Support:
    """The parts that a kernel has; a part that it has is in force in every contained process."""

    landlock: int  # version of its interface, 0: none
    seccomp: bool
    own_user: bool  # root runs the worker, and another user what is contained

    @property
    def parts(self) -> str:
        """What is in force, for people."""
        parts = [f"Landlock {self.landlock}"] if self.landlock else []
        parts += ["seccomp"] if self.seccomp else []
        parts += ["a user of its own"] if self.own_user else []
        return ", ".join([*parts, *(["limits", "no new privileges"] if system.IS_LINUX else ())])

    @property
    def lacks(self) -> tuple[str, ...]:
        """What a contained process could still do, and why; the gravest first."""
        lacking = []
        if not self.landlock:
            lacking.append("it reads and writes all files of its user: no Landlock (Linux 5.13)")
        if not self.seccomp:
            lacking.append(
                "it may connect to the network, change modes and owners of files, and call all of"
                f" the kernel: no seccomp filters for {platform.machine()}"
            )
        if self.landlock < landlock.SCOPE_ABI and not self.own_user:
            lacking.append(
                "it may send signals to its user's processes: no Landlock 6 (Linux 6.12)"
            )
        if not self.own_user:
            lacking.append("it may slow other processes of its user, who is the worker's too")
        return tuple(lacking)

    @property
    def is_enough(self) -> bool:
        """Whether files, network and calls are guarded."""
        return self.landlock > 0 and self.seccomp


def support() -> Support:
    """What the running kernel has: nothing, unless it is Linux."""
    if not system.IS_LINUX:
        return Support(landlock=0, seccomp=False, own_user=False)
    return Support(
        landlock=landlock.version(), seccomp=seccomp.is_supported(), own_user=user.can_change()
    )


def in_force(sandbox: Sandbox) -> str:
    """What contains a process here, for people."""
    return "off" if sandbox is Sandbox.OFF else support().parts


def require_support(sandbox: Sandbox) -> Support:
    """What the running kernel has; NotContained where VKBENCH_SANDBOX asks for more."""
    kernel = support()
    if sandbox is Sandbox.REQUIRE and not kernel.is_enough:
        raise NotContained(
            "VKBENCH_SANDBOX=require, but this kernel does not contain what loads a driver:"
            f" {kernel.lacks[0]}"
        )
    return kernel
