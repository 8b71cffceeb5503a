"""The name of the user who runs this process."""

from __future__ import annotations

import os
from getpass import getuser


def user_name() -> str:
    """The name of the user, or their number where the system has no name for it."""
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return str(os.getuid())
