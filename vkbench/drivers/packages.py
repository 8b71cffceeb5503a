"""Unpacks the drivers of another release of Debian, with all that they need, and installs nothing.

apt-get finds and fetches the packages with sources, lists and a status of its own, in a folder of
the cache; dpkg-deb unpacks them there. Among them are the release's C library and its loader, by
which the processes of such a driver are started where this machine's C library is older.
"""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

from vkbench.errors import UsageError, VkbenchError

PACKAGES: Final = ("mesa-vulkan-drivers", "libvulkan1")
_OTHERS: Final = ("libvulkan_", "libVkLayer_")  # drivers and layers
_KEYRING: Final = "/usr/share/keyrings/debian-archive-keyring.gpg"
_SUITE: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_BACKPORTS: Final = "-backports"  # at the end of a suite whose packages need those of another
_SECONDS: Final = 1800.0  # for one command
_LISTED: Final = "$(CODENAME) $(COMPONENT) $(REPO_URI)"
_SOURCE: Final = """\
Types: deb
URIs: {mirror}
Suites: {suites}
Components: main
Signed-By: {keyring}
"""


def unpack_release(suite: str, folder: Path, tell: Callable[[str], None]) -> Path:
    """The folder with the unpacked packages of a release, such as trixie, or bookworm-backports.

    They are fetched once; VkbenchError says what failed.
    """
    if not _SUITE.fullmatch(suite):
        raise UsageError(f"{suite[:60]!a} is no release of Debian: give its name, such as trixie")
    root = folder / suite
    if root.is_dir():
        return root
    mirror = _find_mirror()
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(mkdtemp(prefix=f".{suite}-", dir=folder))
    try:
        tell(f"fetching {' and '.join(PACKAGES)} of Debian {suite} from {mirror}")
        _fetch(suite, mirror, work)
        for package in sorted((work / "cache/archives").glob("*.deb")):
            _run(["dpkg-deb", "-x", str(package), str(work / "root")])
        (work / "root").rename(root)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return root


def list_manifests(root: Path) -> list[Path]:
    """The manifests of all drivers of unpacked packages."""
    return sorted((root / "usr/share/vulkan/icd.d").glob("*.json"))


def libraries_of(root: Path) -> list[Path]:
    """The libraries of unpacked packages that a driver may need, and the loader of programs."""
    machine = platform.machine()
    places = (f"usr/lib/{machine}-linux-gnu", f"lib/{machine}-linux-gnu")
    libraries = [path for place in places for path in sorted((root / place).glob("*.so*"))]
    return [path for path in libraries if _is_needed(path, root.resolve())]


def _is_needed(path: Path, root: Path) -> bool:
    place = path.resolve()
    is_other = path.name.startswith(_OTHERS)
    return not is_other and place.is_relative_to(root) and place.is_file()


def _find_mirror() -> str:
    """Where this system's own packages come from."""
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise UsageError("--packages are Debian's: this system has no apt-get and dpkg-deb")
    listed = _run(["apt-get", "indextargets", "--format", _LISTED, "Created-By: Packages"])
    mirrors = [words[2] for line in listed.splitlines() if len(words := line.split()) == 3]
    own = [mirror.rstrip("/") for mirror in mirrors if mirror.rstrip("/").endswith("/debian")]
    if not own:
        raise UsageError("--packages are Debian's, and apt's sources name no mirror of Debian")
    return own[0]


def _fetch(suite: str, mirror: str, work: Path) -> None:
    """Get the packages of a suite and all that they need, none of which is installed."""
    for name in ("sources", "lists/partial", "cache/archives/partial", "root"):
        (work / name).mkdir(parents=True)
    (work / "status").write_text("")
    suites = f"{suite.removesuffix(_BACKPORTS)} {suite}" if suite.endswith(_BACKPORTS) else suite
    source = _SOURCE.format(mirror=mirror, suites=suites, keyring=_KEYRING)
    (work / "sources/release.sources").write_text(source)
    own = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": str(work / "sources"),
        "Dir::State::lists": str(work / "lists"),
        "Dir::State::status": str(work / "status"),
        "Dir::Cache": str(work / "cache"),
        "APT::Sandbox::User": "root",
        "APT::Default-Release": suite,
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in own.items())]
    _run([*apt, "update", "--error-on=any"])
    _run([*apt, "install", "-y", "--download-only", "--no-install-recommends", *PACKAGES])


def _run(command: Sequence[str]) -> str:
    """What a command prints; VkbenchError with its first complaint if it fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        raise VkbenchError(f"{command[0]} failed: {error}") from error
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        complaint = next((line for line in words if line.startswith("E:")), words[-1])
        raise VkbenchError(f"{command[0]} failed: {complaint}")
    return done.stdout
