"""Kernels all of whose paths were right on the CPU drivers, each by a digest of what it launches.

`verified_kernels.json` beside this file names them. A kernel of another digest, one whose code,
constants, groups or cases are others, is verified again as a whole.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from vkbench_shaders.bundle import packaged
from vkbench_shaders.kernel import Problem
from vkbench_worker.runner.variants import choose, plan
from vkbench_worker.runtime.errors import Unsupported
from vkbench_worker.runtime.null import NullDevice

FILE = Path(__file__).with_suffix(".json")
FEATURES = (  # of the CPU drivers, between them
    *("fp16", "fp64", "int64", "int_dot", "subgroup_arithmetic", "subgroup_basic"),
    *("subgroup_shuffle", "timeline"),
)


def read_verified() -> Mapping[str, str]:
    """Digests of the verified kernels, by name."""
    verified: Mapping[str, str] = json.loads(FILE.read_text())
    return verified


def digest_kernels(paths: Iterable[tuple[Problem, str]]) -> dict[str, str]:
    """A digest of each kernel's launches, on these of its paths."""
    launches: dict[str, list[str]] = defaultdict(list)
    facts = NullDevice(features=FEATURES).facts
    for posed, variant in paths:
        launches[posed.kernel.name].append(f"{posed.case.name} {variant}")
        try:
            planned = plan(packaged(), choose(posed, variant, facts), facts)
        except Unsupported:  # no CPU driver runs it
            continue
        launches[posed.kernel.name] += [
            f"{program.sha} {packed.groups} {packed.push.hex()} {packed.constants}"
            for program, packed in planned.passes
        ]
    return {
        name: sha256("\n".join(sorted(lines)).encode()).hexdigest()[:16]
        for name, lines in launches.items()
    }


def write_verified(digests: Mapping[str, str]) -> None:
    """Write which kernels are verified."""
    FILE.write_text(json.dumps(digests, indent=0, sort_keys=True) + "\n")
