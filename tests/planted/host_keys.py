"""Keys of several hosts that change as docs/howto/keys.md says, a step and a host at a time."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

from vkbench.messages.keys import new_keys
from vkbench.messages.signing import Role


class HostKeys:
    """The operator's folder of keys, and the copy that each host has of it."""

    def __init__(self, folder: Path, hosts: Sequence[str]) -> None:
        self._folder, self._operators = folder, folder / "operator"
        self._step = 0
        new_keys(self._operators)
        for host in hosts:
            self.copy_to(host)

    def of(self, host: str) -> Path:
        """The folder that a host reads when it starts."""
        return self._folder / host

    def copy_to(self, host: str) -> None:
        """Bring a host the folder as it is now."""
        shutil.copytree(self._operators, self.of(host), dirs_exist_ok=True)

    def take_step(self) -> int:
        """Change the operator's folder by the next of the three steps; says which that was."""
        self._step = self._step % 3 + 1
        if self._step == 1:  # a second key, which verifies only
            new_keys(self._operators, add=True)
        elif self._step == 2:  # the new key signs
            self._edit(lambda keys: keys[::-1])
        else:  # only the new key is left
            self._edit(lambda keys: keys[:1])
        return self._step

    def _edit(self, edit: Callable[[list[str]], list[str]]) -> None:
        for role in Role:
            path = self._operators / f"{role}.key"
            path.write_text("\n".join(edit(path.read_text().split())) + "\n")
