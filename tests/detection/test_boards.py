"""What an export may say to a board: names of bounded size, and rates that are numbers."""

from __future__ import annotations

import json
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exported import sealed
from vkbench_db.errors import ImportRefused
from vkbench_detection.board.index import Index, Stamp, open_index
from vkbench_detection.board.reading import read_sections
from vkbench_detection.board.roofs import read_roofs, settle_roofs

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks/board.py"))
LONG = "x" * 1_000_000
STAMP = Stamp(size=0, changed=0)
Job = dict[str, Any]


def change_jobs(number: int, change: Callable[[Job], object]) -> list[str]:
    """The export of a lab whose jobs were changed, closed again as a forger would."""
    lines = []
    for line in BENCHMARK["make_export"](number, 4):
        record = json.loads(line)
        if "job" in record:
            change(record["job"])
        lines.append(json.dumps(record) + "\n")
    return sealed(lines)


def change_attempts(field: str, value: object) -> Callable[[Job], object]:
    return lambda job: [attempt.update({field: value}) for attempt in job["attempts"]]


def change_timings(field: str, value: object) -> Callable[[Job], object]:
    return lambda job: [timing.update({field: value}) for timing in job["timings"]]


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    with open_index(tmp_path / "board.sqlite") as opened:
        yield opened


@pytest.mark.parametrize(
    "change",
    [
        change_attempts("environment", LONG),
        change_attempts("kernel_sha", LONG),
        change_attempts("variant", LONG),
        lambda job: job.update(bundle=LONG),
        lambda job: job.update(variant=LONG),
        lambda job: job.update(verdict=job["verdict"] | {"path": LONG}),
    ],
)
@pytest.mark.parametrize("timings", [1, 0])
def test_a_name_of_a_megabyte_is_refused_even_of_jobs_without_timings(
    change: Callable[[Job], object], timings: int
) -> None:
    def damage(job: Job) -> None:
        change(job)
        job["timings"] = job["timings"][:timings]

    with pytest.raises(ImportRefused, match=r"line \d+: a name has over 1000 bytes"):
        list(read_sections(change_jobs(0, damage)))


def test_of_warnings_only_what_a_board_reads_is_kept() -> None:
    numbers = iter(range(1000))

    def warn(job: Job) -> None:
        for timing in job["timings"]:
            timing["warnings"] = [f"not cold {next(numbers)}", f"throttled {next(numbers)}"]

    [[_, plain], _] = read_sections(change_jobs(0, change_timings("warnings", [])))
    [[_, warned], _] = read_sections(change_jobs(0, warn))
    assert plain
    assert warned
    assert count_kinds(warned.values()) == count_kinds(plain.values())
    assert {kind.apart.name for bunch in warned.values() for kind in bunch.kinds} == {"THROTTLED"}


def count_kinds(bunches: Any) -> list[int]:
    return [len(bunch.kinds) for bunch in bunches]


def test_a_run_of_too_many_names_is_refused(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vkbench_detection.board.packing.MOST_WORDS", 2)
    with pytest.raises(ImportRefused, match="a run has over 2 names"):
        index.add("lab.jsonl", STAMP, change_jobs(0, lambda job: None))


def test_environments_that_no_line_tells_are_not_kept() -> None:
    numbers = iter(range(1000))

    def leave(job: Job) -> None:
        change_attempts("environment", f"unknown {next(numbers)}")(job)

    [[section, _], _] = read_sections(change_jobs(0, leave))
    assert not section.drivers


@pytest.mark.parametrize("too_short", [1e-300, 1e-289])
def test_a_rate_that_no_device_has_is_no_roof(index: Index, too_short: float) -> None:
    for lab, seconds in ((0, (too_short, 1e-3)), (10, (too_short,))):
        add_calibrations(index, lab, seconds)
    settle_roofs(index)
    [roofs] = read_roofs(index).values()
    assert roofs.matrices == {"matrix_f16_f32": pytest.approx(2**62 / 1e-3)}


def add_calibrations(index: Index, lab: int, seconds: tuple[float, ...]) -> None:
    left = iter(seconds * 4)

    def calibrate(job: Job) -> None:
        job["case"] = "matrix_rate/f16/n1000"
        change_attempts("variant", "matrix_f16_f32")(job)
        timing = job["timings"][0] | {"metric": "hot", "seconds": next(left), "flops": 2**62}
        job["timings"] = [timing]

    index.add(f"lab-{lab}.jsonl", STAMP, change_jobs(lab, calibrate))
