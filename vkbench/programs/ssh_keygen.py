"""Signatures by people's SSH keys: `ssh-keygen` makes them and checks them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from vkbench.errors import UsageError, VkbenchError

_SECONDS: Final = 60.0  # for ssh-keygen, which may ask for a passphrase
_KEY: Final = re.compile(r"with (\S+) key (SHA256:[A-Za-z0-9+/]+)\s*$")


class NoSuchSignature(VkbenchError):
    """A signature is not of this text."""


def sign_text(text: str, key: Path, namespace: str, what: str) -> str:
    """The signature of a text by a key; `what` says for people what cannot be signed."""
    made = run_ssh_keygen(["-Y", "sign", "-f", str(key), "-n", namespace], text)
    if made.returncode:
        raise UsageError(
            f"cannot sign {what}: {_last_line(made.stderr)}; `ssh-keygen -t ed25519` makes a key"
        )
    return made.stdout


def find_key(text: str, signature: str, namespace: str) -> str:
    """The kind and fingerprint of the key that signed a text; NoSuchSignature if none did."""
    with TemporaryDirectory(prefix="vkbench-") as folder:
        place = Path(folder, "signature")
        place.write_text(signature)
        words = ["-Y", "check-novalidate", "-n", namespace, "-s", str(place)]
        answer = run_ssh_keygen(words, text)
    named = _KEY.search(answer.stdout.strip())
    if answer.returncode or not named:
        raise NoSuchSignature("the signature is not of these lines")
    return f"{named[1]} {named[2]}"


def run_ssh_keygen(arguments: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    """What `ssh-keygen` answers to arguments and a text."""
    program = shutil.which("ssh-keygen")
    if not program:
        raise VkbenchError("ssh-keygen signs and checks, and is not installed (OpenSSH 8.2)")
    command = [program, *arguments]
    try:
        return subprocess.run(
            command, input=text, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (subprocess.TimeoutExpired, OSError, UnicodeError) as error:
        raise VkbenchError(f"ssh-keygen did not answer: {error}") from error


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it says nothing"])[-1]
