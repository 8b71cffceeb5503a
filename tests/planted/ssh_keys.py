"""SSH keys of people who hand in builds, and files that allow them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from vkbench.programs.signed import NAMESPACE


def new_ssh_key(path: Path) -> Path:
    """A key without a passphrase; its public half lies beside it."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def allow(path: Path, keys: Mapping[str, Path]) -> Path:
    """A file that allows these people's keys to sign builds."""
    lines = [
        f'{name} namespaces="{NAMESPACE}" {key.with_suffix(".pub").read_text()}'
        for name, key in keys.items()
    ]
    path.write_text("".join(lines))
    return path
