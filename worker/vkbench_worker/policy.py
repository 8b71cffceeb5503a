"""The policy of a host: whose bundles its devices run, and whose builds of programs.

VKBENCH_BUNDLES is `any`, `packaged` (what came with the installed package, no other), or a file
with the SHA-256 of each bundle that may run beside it, one a line; # begins a comment.

Builds are native code, and a stronger right. VKBENCH_BUILDS is `none`, or a file of the public SSH
keys whose owners' builds run here, one a line, as ssh-keygen reads it ("allowed signers").
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from vkbench.errors import VkbenchError
from vkbench.programs.signed import NotSigned, SignedBuild, find_signer
from vkbench.settings import ANY, NONE, PACKAGED
from vkbench_shaders.bundle import packaged_sha

_HASH: Final = re.compile("[0-9a-f]{64}")


class BundleForbidden(VkbenchError):
    """This host does not run the bundle."""


class BuildForbidden(VkbenchError):
    """This host does not run the build."""


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


def check_builds_run(policy: str) -> None:
    """Raise BuildForbidden where the policy allows no builds, whoever signed them."""
    if policy == NONE:
        raise BuildForbidden("this host runs no builds of programs (VKBENCH_BUILDS)")


def describe_builds(policy: str) -> str:
    """Whose builds run here, in words; BuildForbidden where a policy's file lets nobody in."""
    if policy == NONE:
        return "none run here (VKBENCH_BUILDS)"
    path = Path(policy).expanduser()
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BuildForbidden(f"{path} (VKBENCH_BUILDS) cannot be read: {error}") from error
    owners = dict.fromkeys(line.split()[0] for line in lines if line.strip() and line[0] != "#")
    if not owners:
        raise BuildForbidden(f"{path} (VKBENCH_BUILDS) has no key")
    return f"those run here that one of {', '.join(owners)} signed ({path})"


def check_build(policy: str, sha: str, signed: SignedBuild) -> str:
    """Who signed a build, as the policy calls him; BuildForbidden unless it allows him to."""
    check_builds_run(policy)
    path = Path(policy).expanduser()
    try:
        with path.open("rb"):
            return find_signer(signed, path)
    except OSError as error:
        reason = f"{path} (VKBENCH_BUILDS) cannot be read: {error.strerror}"
    except NotSigned:
        reason = f"no key in {path} (VKBENCH_BUILDS) has signed it"
    except VkbenchError as error:
        reason = str(error)
    raise BuildForbidden(f"this host does not run build {sha[:12]}: {reason}")


def state_of(policy: str) -> object:
    """What changes with a policy's file, so that a change counts at once."""
    if policy in (ANY, PACKAGED, NONE):
        return policy
    try:
        state = Path(policy).expanduser().stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size, state.st_ino


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
