"""Checks tuning tables that were sent in, and merges them into those that ship: `make tables FILE`.

All files are checked before the first is merged; where one is wrong, nothing is written. Each
configuration that wins is judged once more here, if a device of this machine can run it, by the
largest case that its kernel lists for these formats.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import prod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TextIO

from vkbench.bounds import UNSHOWN
from vkbench.configuration import parse
from vkbench.device import DeviceFacts
from vkbench.errors import VkbenchError
from vkbench.process.plain_file import replace_file
from vkbench.words.units import count_of
from vkbench_local.machine import all_devices
from vkbench_scheduler.sent_tables import review_table
from vkbench_shaders.bundle import packaged
from vkbench_shaders.catalogue import problem
from vkbench_shaders.kernel import Problem
from vkbench_shaders.tuning.configurations import obstacle
from vkbench_shaders.tuning.merging import merge_tables
from vkbench_shaders.tuning.tables import Table, digest_of, encode, read

SHIPPED = Path(__file__).resolve().parents[1] / "shaders/vkbench_shaders/tuning"
VKBENCH = (sys.executable, "-c", "import sys; from vkbench_cli.main import main; sys.exit(main())")


def main() -> int:
    """Check the files, say what is wrong with them, and merge them if nothing is."""
    parser = argparse.ArgumentParser(prog="make tables", description="Merge tuning tables.")
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--into", metavar="FOLDER", type=Path, default=SHIPPED)
    options = parser.parse_args()
    checked = [(path, *_check_file(path)) for path in options.files]
    if any(faults for *_, faults in checked):
        return _refuse_files(checked)
    judged = [(path, sent, list(_judge_here(path, sent))) for path, sent, _ in checked]
    if any(faults for *_, faults in judged):
        return _refuse_files(judged)
    for path, sent, _ in judged:
        _merge_file(path, sent, options.into)
    return 0


def _check_file(path: Path) -> tuple[Table, list[str]]:
    """A table without the cases that say nothing of the kernels here, and what is wrong with it."""
    try:
        data = path.read_bytes()
        table, digest = read(data), digest_of(data)
    except (OSError, ValueError, VkbenchError) as error:
        return Table(), [f"it is no tuning table: {error}"]
    checked = review_table(table, digest, packaged(), datetime.now(UTC).date())
    for case, why in checked.stale.items():
        _say(f"{path}: {case} is left out: {why}")
    fresh = tuple(entry for entry in table.tuned if entry.case not in checked.stale)
    faults = [*checked.faults]
    if table.tuned and not fresh:
        faults.append("all its cases are of other kernels: tune again with this version")
    return replace(table, tuned=fresh), faults


def _refuse_files(checked: Sequence[tuple[Path, Table, list[str]]]) -> int:
    for path, _, faults in checked:
        for fault in faults:
            _say(f"{path}: refused: {fault}", to=sys.stderr)
    print("nothing was merged", file=sys.stderr)
    return 1


def _judge_here(path: Path, table: Table) -> Iterator[str]:
    """What computes wrongly here, of the configurations that a device of this machine can run."""
    try:
        device = all_devices()[0]
    except VkbenchError as error:
        _say(f"{path}: judged on its own device alone: {error}")
        return
    by_name: dict[str, list[str]] = {}
    for entry in table.tuned:
        if case := _find_largest_case(entry.case, entry.configuration, device):
            by_name.setdefault(entry.configuration, []).append(case)
    skipped = 0
    for name, cases in by_name.items():
        skipped += yield from _judge_cases(name, cases, device)
    several = count_of(sum(map(len, by_name.values())) - skipped, "case")
    _say(
        f"{path}: {several} of {len(table.tuned)} judged on {device.name}, each by the largest "
        f"case that its kernel lists for these formats; {skipped} skipped there"
    )


def _find_largest_case(case: str, configuration: str, device: DeviceFacts) -> str:
    """The largest case listed of a kernel and its formats that a device runs so; "" if none is."""
    posed, known = problem(case), parse(configuration)
    variant = posed.kernel.variant(known.variant)
    settings = posed.kernel.settings(known.settings)
    fitting = []
    for listed in posed.kernel.cases:
        alike = Problem(posed.kernel, listed, settings)
        is_named = alike.named_settings == settings  # not other ones by the case itself
        if is_named and alike.types == posed.types and not obstacle(alike, variant, device):
            fitting.append(listed)
    largest = max(fitting, key=lambda listed: prod(listed.shape.values()), default=None)
    return largest.name if largest else ""


def _judge_cases(
    configuration: str, cases: Sequence[str], device: DeviceFacts
) -> Generator[str, None, int]:
    """What is wrong with a configuration's results on a device; returns how many cases it skips."""
    with TemporaryDirectory() as folder:
        chosen = [word for case in dict.fromkeys(cases) for word in ("--case", case)]
        command = [*VKBENCH, "run", *chosen, "--variant", configuration, "--mode", "correctness"]
        where = ["--device", device.key, "--database", f"sqlite:///{folder}/judged.db", "--json"]
        done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
    rows = json.loads(done.stdout)["rows"] if done.stdout else []
    wrong = [row for row in rows if row["verdict"] not in ("passed", "skipped")]
    for row in wrong:
        yield f"{row['case']} by {configuration} is {row['verdict']} on {device.name}"
    if len(rows) < len(set(cases)):
        yield f"{configuration} does not run on {device.name}: {' '.join(done.stderr.split())}"
    return sum(cases.count(row["case"]) for row in rows if row["verdict"] == "skipped")


def _merge_file(path: Path, sent: Table, folder: Path) -> None:
    place = folder / f"{sent.device_class}.json"
    own = read(place.read_bytes()) if place.exists() else Table(device_class=sent.device_class)
    merged = merge_tables(own, sent)
    replace_file(place, encode(merged.table), 0o666)
    kept = len(sent.tuned) - len(merged.new) - len(merged.changed)
    _say(
        f"{path}: merged into {place}: {count_of(len(merged.new), 'new case')}, "
        f"{len(merged.changed)} changed, {kept} as before"
    )


def _say(text: str, to: TextIO | None = None) -> None:
    """Print a line with texts of a stranger's file, whose control characters are not shown."""
    print(UNSHOWN.sub("?", text), file=to)


if __name__ == "__main__":
    sys.exit(main())
