"""Errors that reach a person: one sentence each, with the exit code of the command that meets them.

    VkbenchError            4   the work could not be done
    ├── UsageError          2   the request makes no sense: fix the words
    │   └── UnknownName     2   no such kernel, format, device, suite, ...: the nearest are named
    ├── WrongResult         3   a kernel computed something else than its reference
    ├── WaitTimeout         5   the jobs go on, the waiting ended
    ├── NothingToDo         7   the request is fine and selects nothing
    └── ServiceUnreachable  8   Redis, the database, or a scheduler cannot be reached

An error raised without a message shows its docstring.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_REGRESSION = 1
EXIT_INTERRUPTED = 130

LISTED_BY = {  # where no known name is near, and there are too many to name
    "baseline": "vkbench baseline ls",
    "build": "vkbench program build ls",
    "bundle": "vkbench bundle ls",
    "device": "vkbench devices",
    "format": "vkbench kernels --grid",
    "kernel": "vkbench kernels",
    "model": "vkbench model ls",
    "program": "vkbench program ls",
    "regression": "vkbench regressions ls",
    "run": "vkbench jobs",
    "run or baseline": "vkbench jobs",
    "schedule": "vkbench schedule ls",
    "token": "vkbench token ls",
}


class VkbenchError(Exception):
    """The work could not be done."""

    exit_code = 4

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or " ".join((type(self).__doc__ or "").split()))


class UsageError(VkbenchError):
    """The request is invalid."""

    exit_code = 2


class UnknownName(UsageError):
    """Nothing has the name that was asked for."""

    def __init__(
        self, what: str, name: str, near: tuple[str, ...] = (), known: tuple[str, ...] = ()
    ) -> None:
        hint = listed = ""
        if near:
            hint = f"; did you mean {_either(near)}?"
        elif known:
            hint = f"; there is {_either(known)}"
        elif what in LISTED_BY:
            listed = f"; `{LISTED_BY[what]}` lists what there is"
        self.unlisted = f"unknown {what} '{name}'{hint}"  # for a database that has none
        super().__init__(self.unlisted + listed)
        self.near = near
        self.typed = name


class WrongResult(VkbenchError):
    """A kernel's output differs from its reference."""

    exit_code = 3


class WaitTimeout(VkbenchError):
    """The time limit for waiting passed; the jobs continue."""

    exit_code = 5


class NothingToDo(VkbenchError):
    """Nothing matches what was asked for."""

    exit_code = 7


class ServiceUnreachable(VkbenchError):
    """A service that this command needs cannot be reached."""

    exit_code = 8


def _either(names: tuple[str, ...]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"
