"""What a package makes of a format that was planted in it; prints it as JSON.

    PYTHONPATH=COPY python planted_format.py FORMAT FOLDER

FOLDER gets a bundle of the format's units, on the code path that runs everywhere.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from vkbench.settings import settings
from vkbench_cli.show.grid import formats_table, grid_table
from vkbench_scheduler.planning.plan import tasks
from vkbench_scheduler.planning.selection import Selection
from vkbench_scheduler.planning.suites import SUITES, Suite
from vkbench_shaders.bundle import PROBES, BundleStore, unit_of
from vkbench_shaders.catalogue import KERNELS
from vkbench_shaders.compile import build
from vkbench_shaders.compile.compiler import Unit
from vkbench_shaders.compile.tree import TREE
from vkbench_shaders.families import formats_page
from vkbench_shaders.kernel import Kernel


def main() -> None:
    """Look everywhere."""
    fmt, folder = sys.argv[1], Path(sys.argv[2])
    kernels = {kernel.name: kernel for kernel in KERNELS}
    chosen = sorted({*units(KERNELS, fmt), *PROBES})
    bundle = build.compile_units(TREE, chosen, folder.name)
    bundle.save(folder)
    BundleStore(settings().cache / "bundles").put(bundle)
    said = {
        "kernels": [name for name, kernel in kernels.items() if types_of(kernel, fmt)],
        "grid": list(grid_table([], {fmt}, set(kernels)).rows),
        "sizes": list(formats_table({fmt}).rows),
        "suites": {suite.name: jobs(suite, fmt) for suite in SUITES},
        "page": [line for line in formats_page().splitlines() if line.startswith(f"| {fmt} |")],
        "bundle": bundle.sha,
        "units": sorted(set(bundle.entries) - {probe.key for probe in PROBES}),
    }
    print(json.dumps(said))


def types_of(kernel: Kernel, fmt: str) -> list[dict[str, str]]:
    """The sets of formats in which a kernel has the format."""
    return [types for types in kernel.type_choices() if fmt in types.values()]


def units(kernels: tuple[Kernel, ...], fmt: str) -> list[Unit]:
    """The units of a format, each by the last code path, which runs everywhere."""
    return sorted(
        {
            unit_of(kernel.variants_for(types)[-1], types)
            for kernel in kernels
            for types in types_of(kernel, fmt)
        }
    )


def jobs(suite: Suite, fmt: str) -> int:
    """How many tasks of a suite are about the format."""
    return sum(fmt in task.case.name.split("/")[1] for task in tasks(suite, Selection()))


if __name__ == "__main__":
    main()
