"""Git repositories that tests make."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> None:
    someone = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(folder), *someone, *words], check=True, capture_output=True)


def commit(folder: Path, subject: str) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "--quiet", "-m", subject)
