"""A runner whose jobs from number 1000 on run a kernel with some words of its SPIR-V changed.

Nothing checks the module before the driver gets it: it is the driver that a kernel attacks.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from hashlib import sha256
from random import Random

from vkbench.job import Job
from vkbench.result import Result
from vkbench_shaders.bundle import Bundle, Entry
from vkbench_worker.runner import main as runner
from vkbench_worker.runner.execute import execute
from vkbench_worker.runtime.device import Device

FIRST = 1000
_HEADER = 5  # words
_BOUND = 3  # the word of the header above all ids
_FUNCTION = 54  # OpFunction


@dataclass(frozen=True, kw_only=True)
class Mutated(Bundle):
    """A bundle with other code under the same names."""

    seed: int

    def entry(self, key: str) -> Entry:
        """Another hash, for a device keeps pipelines by it."""
        return replace(super().entry(key), sha256=sha256(self.code(key)).hexdigest())

    def code(self, key: str) -> bytes:
        """The code with a few changes."""
        return mutated(self.blobs[self.entries[key].sha256], Random(self.seed))


def mutated(code: bytes, chance: Random) -> bytes:
    """SPIR-V with other operands here and there, and rarely words doubled or left out.

    Drivers refuse most modules whose instructions end elsewhere; one that has other operands gets
    further, and may be compiled and run.
    """
    words = [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.choice(_operands(words))
        match chance.randrange(16):
            case 0:
                words[at] = chance.getrandbits(32)
            case 1:
                words.insert(at, words[at])
            case 2:
                del words[at]
            case 3 | 4 | 5 | 6:
                words[at] ^= 1 << chance.randrange(6)
            case _:
                words[at] = chance.randrange(1, words[_BOUND])
    return b"".join(word.to_bytes(4, "little") for word in words)


def _operands(words: list[int]) -> list[int]:
    """Where the operands of functions' instructions lie; of all, if there are none."""
    inside: list[int] = []
    outside: list[int] = []
    at = _HEADER
    while at < len(words):
        length, code = max(1, words[at] >> 16), words[at] & 0xFFFF
        found = inside if inside or code == _FUNCTION else outside
        found += range(at + 1, min(at + length, len(words)))
        at += length
    return inside or outside


def attempt(device: Device, bundle: Bundle, job: Job) -> Result:
    """Do a job, with a mutated kernel if its number says so."""
    if job.id >= FIRST:
        bundle = Mutated(text=bundle.text, blobs=bundle.blobs, seed=job.id)
    return execute(device, bundle, job)


if __name__ == "__main__":
    sys.exit(runner.main(attempt))
