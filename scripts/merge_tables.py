"""Checks tuning tables that were sent in, and merges them into those that ship: `make tables FILE`.

All files are checked before the first is merged; where one is wrong, nothing is written. What
they say is judged right on their devices is judged once more on a device of this machine, if it has
one, by the kernels' smallest cases.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from vkbench.configuration import parse
from vkbench.device import DeviceFacts
from vkbench.errors import VkbenchError
from vkbench.process.plain_file import replace_file
from vkbench.words.units import count_of
from vkbench_local.machine import all_devices
from vkbench_scheduler.sent_tables import review
from vkbench_shaders.bundle import packaged
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_shaders.tuning.configurations import obstacle
from vkbench_shaders.tuning.merging import merge
from vkbench_shaders.tuning.tables import Table, encode, read

SHIPPED = Path(__file__).resolve().parents[1] / "shaders/vkbench_shaders/tuning"
VKBENCH = (sys.executable, "-c", "import sys; from vkbench_cli.main import main; sys.exit(main())")


def main() -> int:
    """Check the files, say what is wrong with them, and merge them if nothing is."""
    parser = argparse.ArgumentParser(prog="make tables", description="Merge tuning tables.")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--into", metavar="FOLDER", type=Path, default=SHIPPED)
    options = parser.parse_args()
    checked = [(path, *_check(path)) for path in options.files]
    if any(faults for *_, faults in checked):
        return _refuse(checked)
    judged = [(path, sent, list(_judge_here(path, sent))) for path, sent, _ in checked]
    if any(faults for *_, faults in judged):
        return _refuse(judged)
    for path, sent, _ in judged:
        _merge(path, sent, options.into)
    return 0


def _check(path: Path) -> tuple[Table, list[str]]:
    """A table without the cases that say nothing of the kernels here, and what is wrong with it."""
    try:
        table = read(path.read_bytes())
    except (OSError, VkbenchError) as error:
        return Table(), [f"it is no tuning table: {error}"]
    checked = review(table, packaged(), datetime.now(UTC).date())
    for case, why in checked.stale.items():
        print(f"{path}: {case} is left out: {why}")
    fresh = tuple(entry for entry in table.tuned if entry.case not in checked.stale)
    faults = [*checked.faults]
    if table.tuned and not fresh:
        faults.append("all its cases are of other kernels: tune again with this version")
    return replace(table, tuned=fresh), faults


def _refuse(checked: Sequence[tuple[Path, Table, list[str]]]) -> int:
    for path, _, faults in checked:
        for fault in faults:
            print(f"{path}: refused: {fault}", file=sys.stderr)
    print("nothing was merged", file=sys.stderr)
    return 1


def _judge_here(path: Path, table: Table) -> Iterator[str]:
    """What computes wrongly here, of the configurations that a device of this machine can run."""
    try:
        device = all_devices()[0]
    except VkbenchError as error:
        print(f"{path}: judged on its own device alone: {error}")
        return
    by_name: dict[str, list[str]] = {}
    for entry in table.tuned:
        if case := _small_case(entry.case, entry.configuration, device):
            by_name.setdefault(entry.configuration, []).append(case)
    for name, cases in by_name.items():
        yield from _run(name, cases, device)
    several = count_of(sum(map(len, by_name.values())), "case")
    print(f"{path}: {several} of {len(table.tuned)} judged on {device.name}, by small sizes")


def _small_case(case: str, configuration: str, device: DeviceFacts) -> str:
    """The smallest case of a kernel and its formats that a device runs so; "" if there is none."""
    posed, known = problem(case), parse(configuration)
    variant = posed.kernel.variant(known.variant)
    for small in posed.kernel.cases:
        alike = Problem(posed.kernel, small)
        configured = replace(alike, settings=posed.kernel.settings(known.settings))
        if alike.types == posed.types and not obstacle(configured, variant, device):
            return small.name
    return ""


def _run(configuration: str, cases: Sequence[str], device: DeviceFacts) -> Iterator[str]:
    with TemporaryDirectory() as folder:
        chosen = [word for case in dict.fromkeys(cases) for word in ("--case", case)]
        command = [*VKBENCH, "run", *chosen, "--variant", configuration, "--mode", "correctness"]
        where = ["--device", device.key, "--database", f"sqlite:///{folder}/judged.db", "--json"]
        done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
    rows = json.loads(done.stdout)["rows"] if done.stdout else []
    wrong = [row for row in rows if row["verdict"] != "passed"]
    for row in wrong:
        yield f"{row['case']} by {configuration} is {row['verdict']} on {device.name}"
    if not wrong and done.returncode:
        yield f"{configuration} does not run on {device.name}: {done.stderr.strip()}"


def _merge(path: Path, sent: Table, folder: Path) -> None:
    place = folder / f"{sent.device_class}.json"
    own = read(place.read_bytes()) if place.exists() else Table(device_class=sent.device_class)
    merged = merge(own, sent)
    replace_file(place, encode(merged.table), 0o666)
    kept = len(sent.tuned) - len(merged.new) - len(merged.changed)
    print(
        f"{path}: merged into {place}: {count_of(len(merged.new), 'new case')}, "
        f"{len(merged.changed)} changed, {kept} as before"
    )


if __name__ == "__main__":
    sys.exit(main())
