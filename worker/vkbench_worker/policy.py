"""The policy of a host: whose bundles its devices run.

VKBENCH_BUNDLES is `any`, `packaged` (what came with the installed package, no other), or a file
with the SHA-256 of each bundle that may run beside it, one a line; # begins a comment.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from vkbench.errors import VkbenchError
from vkbench.settings import ANY, PACKAGED
from vkbench_shaders.bundle import packaged_sha

_HASH: Final = re.compile("[0-9a-f]{64}")


class BundleForbidden(VkbenchError):
    """This host does not run the bundle."""


def check(policy: str, sha: str) -> None:
    """Raise BundleForbidden unless the policy allows a bundle; "" is the packaged one."""
    if policy == ANY or sha in ("", packaged_sha()):
        return
    if policy == PACKAGED:
        raise BundleForbidden(
            f"bundle {sha[:12]}: this host runs the packaged bundle alone (VKBENCH_BUNDLES)"
        )
    if sha not in _read_hashes(Path(policy).expanduser()):
        raise BundleForbidden(f"bundle {sha[:12]}: {policy} (VKBENCH_BUNDLES) does not list it")


def _read_hashes(path: Path) -> frozenset[str]:
    """The hashes of a file; it is read again each time, so that a change counts at once."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BundleForbidden(f"VKBENCH_BUNDLES is a file that cannot be read: {error}") from error
    words = [line.split("#")[0].strip() for line in lines]
    for number, word in enumerate(words, 1):
        if word and not _HASH.fullmatch(word):
            raise BundleForbidden(f"line {number} of {path} (VKBENCH_BUNDLES) is no whole SHA-256")
    return frozenset(words)
