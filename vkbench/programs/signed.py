"""Signed builds: who hands a build in signs its program and its files by his SSH key.

`ssh-keygen` signs and checks, so that a host's policy is a file of public keys, as `git` has it,
and who takes over a host cannot sign for others. The hash of a build covers its files; what is
signed says also how its program is started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

from vkbench import decoding
from vkbench.errors import VkbenchError
from vkbench.programs.build import Build, BuildFile, NoBuild, check_build
from vkbench.programs.declaration import check_program
from vkbench.programs.places.place import MOST_SIGNED_BYTES, NotThere, Place, key_of_signed
from vkbench.programs.program import BUILT_IN, DRIVER, Program, check_driver_name, declare_driver
from vkbench.programs.ssh_keygen import run_ssh_keygen, sign_text

NAMESPACE: Final = "vkbench-build"  # no signature that was made for something else passes here
MOST_SIGNATURES: Final = 8


class NotSigned(VkbenchError):
    """Nobody who is allowed to has signed a build."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What is signed: a program as it was declared, and the files of one build of it."""

    program: Program
    files: tuple[BuildFile, ...]

    @property
    def build(self) -> Build:
        """The build that these files are."""
        name = self.program.description if self.program.name == DRIVER else ""
        return Build(program=self.program.name, files=self.files, name=name)


@dataclass(frozen=True, kw_only=True)
class SignedBuild:
    """What is signed, as text, and the SSH signatures of those who signed it."""

    text: str  # JSON of a `Declared`
    signatures: tuple[str, ...]

    @property
    def declared(self) -> Declared:
        """What is signed; NoBuild where it is not what this version can read."""
        try:
            declared = decoding.decode(self.text, Declared)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise NoBuild(f"what was signed is no build: {error}") from error
        check_build(declared.build)
        return replace(declared, program=_check_program(declared.program))


def _check_program(program: Program) -> Program:
    """A program as it was signed, within bounds; one that vkbench knows by itself is as it is."""
    if program.name == DRIVER:
        return declare_driver(check_driver_name(program.description))
    return BUILT_IN.get(program.name) or check_program(program)


def read_signed(data: bytes, sha: str) -> SignedBuild:
    """The signed build of this hash; NoBuild for anything else."""
    try:
        if len(data) > MOST_SIGNED_BYTES:
            raise NoBuild(f"what is signed of a build has over {MOST_SIGNED_BYTES >> 10} KiB")
        signed = decoding.decode(data, SignedBuild)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NoBuild(f"this is no signed build: {error}") from error
    if len(signed.signatures) > MOST_SIGNATURES:
        raise NoBuild(f"a build has at most {MOST_SIGNATURES} signatures")
    if signed.declared.build.sha != sha:
        raise NoBuild(f"what is signed is another build than {sha[:12]}")
    return signed


def get_signed(sha: str, place: Place) -> SignedBuild:
    """The signed build of a hash in a place; NotThere, or NoBuild where something else lies."""
    data = bytearray()
    with place.read(key_of_signed(sha)) as pieces:
        for piece in pieces:
            data += piece
            if len(data) > MOST_SIGNED_BYTES:
                break
    return read_signed(bytes(data), sha)


def sign_for(place: Place, program: Program, build: Build, key: Path) -> bytes:
    """What is to lie in a place of a build: who signed it before, and now the owner of a key."""
    try:
        known = get_signed(build.sha, place)
    except (NotThere, NoBuild):
        known = None
    return msgspec.json.encode(sign(program, build, key, known))


def sign(program: Program, build: Build, key: Path, known: SignedBuild | None) -> SignedBuild:
    """A build with a signature by an SSH key, beside those that the same words have already."""
    declared = Declared(program=program, files=tuple(sorted(build.files)))
    text = msgspec.json.encode(declared).decode()
    others = known.signatures if known and known.text == text else ()
    made = sign_text(text, key, NAMESPACE, f"a build by {key} (VKBENCH_BUILD_KEY)")
    kept = tuple(signature for signature in others if signature != made)
    return SignedBuild(text=text, signatures=(made, *kept)[:MOST_SIGNATURES])


def find_signer(signed: SignedBuild, allowed: Path) -> str:
    """Whose signature a file of public keys allows, as that file calls him; NotSigned if none."""
    with TemporaryDirectory(prefix="vkbench-") as folder:
        for signature in signed.signatures:
            place = Path(folder, "signature")
            place.write_text(signature)
            for name in _names_of_signer(place, allowed):
                about = ["-f", str(allowed), "-n", NAMESPACE, "-s", str(place)]
                command = ["-Y", "verify", "-I", name, *about]
                if run_ssh_keygen(command, signed.text).returncode == 0:
                    return name
    raise NotSigned("none of those whose keys are allowed has signed it")


def _names_of_signer(signature: Path, allowed: Path) -> Sequence[str]:
    """What a file of public keys calls who made a signature, whether or not it is right."""
    command = ["-Y", "find-principals", "-f", str(allowed), "-s", str(signature)]
    answer = run_ssh_keygen(command, "")
    return answer.stdout.splitlines() if answer.returncode == 0 else ()
