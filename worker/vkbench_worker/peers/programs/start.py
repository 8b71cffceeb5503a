"""Becomes a program of a build: the last step of a process that is contained already.

python -m vkbench_worker.containment.enter ... vkbench_worker.peers.programs.start PARENT FOLDER
WORD...
"""

from __future__ import annotations

import os
import sys

from vkbench.process import system
from vkbench_worker.protocol import FAILED_STATUS


def main() -> int:
    """Go into the build's folder and run its command; the exit status if that cannot be."""
    parent, folder, *words = sys.argv[1:]
    if not system.end_with(int(parent)):
        return FAILED_STATUS
    os.chdir(folder)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        print(f"cannot start {words[0]}: {error.strerror}", file=sys.stderr)
    return FAILED_STATUS


if __name__ == "__main__":
    sys.exit(main())
