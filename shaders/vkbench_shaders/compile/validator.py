"""spirv-val, where it is installed: what it has against a module, asked once about each."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

SECONDS: Final = 60.0
_YOUNGER_THAN_THE_MODULE: Final = "Invalid capability operand"


@dataclass(frozen=True, kw_only=True)
class Validator:
    """A spirv-val; its process takes longer than its work, so what it finds valid is noted."""

    program: str
    version: str
    valid: Path  # has an empty file for each question that was answered well

    def complaint(self, code: bytes, target: str) -> str:
        """What it has against a module; "" if nothing."""
        key = hashlib.sha256(f"{self.version} {target} ".encode() + code).hexdigest()
        if (self.valid / key).exists():
            return ""
        command = [self.program, "--target-env", target, "-"]
        done = subprocess.run(
            command, input=code, capture_output=True, check=False, timeout=SECONDS
        )
        if done.returncode:
            output = (done.stdout + done.stderr).decode(errors="replace")
            return output or f"ends with {done.returncode}"
        with suppress(OSError):  # a contained process writes no notes that others would trust
            self.valid.mkdir(parents=True, exist_ok=True)
            (self.valid / key).touch()
        return ""


@cache
def find(cache_folder: Path, path: str | None = None) -> Validator | None:
    """The first spirv-val of a path, else of this process's; None where there is none that runs."""
    program = shutil.which("spirv-val", path=path)
    if not program:
        return None
    try:
        command = [program, "--version"]
        answer = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return Validator(program=program, version=answer.stdout, valid=cache_folder / "valid")


def objection(validator: Validator | None, code: bytes) -> str:
    """Why spirv-val refuses a module; "" if it does not, is missing, or is too old to know it."""
    if validator is None:
        return ""
    minor = code[5]
    try:
        complaint = validator.complaint(code, "vulkan1.3" if minor > 5 else "vulkan1.2")
        if complaint and minor <= 5:  # cooperative matrices want the newer one
            complaint = validator.complaint(code, "vulkan1.3")
    except (OSError, subprocess.SubprocessError) as error:
        return f"spirv-val gives no answer: {error}"
    if not complaint or _YOUNGER_THAN_THE_MODULE in complaint:
        return ""
    return complaint.strip().splitlines()[0]
