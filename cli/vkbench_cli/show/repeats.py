"""Cases that were tried with several inputs in a run and were not right with some of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from vkbench.case import with_seed, without_seed
from vkbench.job import TRIED_STATES, JobState, Mode

if TYPE_CHECKING:
    from vkbench_db.ask.queries import ResultRow

_BAD = (JobState.WRONG, JobState.FAILED)
_MOST_SEEDS = 12  # that a line names


def repeats(results: Iterable[ResultRow]) -> Iterator[str]:
    """A line for each case of several jobs on a device of which some were bad.

    `mul_mat/f32/m4_n1_k8, auto: wrong in 7 of 10, with seeds 0, 1, 4; --case NAME runs one again`
    """
    jobs = {row.job: row for row in results}
    groups: dict[tuple[str, ...], list[ResultRow]] = defaultdict(list)
    for row in sorted(jobs.values(), key=lambda row: row.job):
        if row.state in TRIED_STATES and row.state != JobState.SKIPPED:
            base, _ = without_seed(row.case_name)
            groups[row.device, base, row.mode, row.variant].append(row)
    devices = {device for device, *_ in groups}
    for (_, base, mode, variant), rows in groups.items():
        if len(rows) > 1 and (bad := [row for row in rows if row.state in _BAD]):
            where = f" on {bad[0].device_name}" if len(devices) > 1 else ""
            timed = ", timed" if mode == Mode.PERFORMANCE else ""
            yield f"{base}, {variant}{timed}{where}: {_how_often(bad, len(rows))}"


def _how_often(bad: Sequence[ResultRow], total: int) -> str:
    counts = Counter(row.state for row in bad)
    often = " and ".join(f"{state} in {counts[state]}" for state in _BAD if counts[state])
    seeds = sorted({without_seed(row.case_name)[1] for row in bad})
    named = ", ".join(map(str, seeds[:_MOST_SEEDS]))
    more = f" and {len(seeds) - _MOST_SEEDS} more" if len(seeds) > _MOST_SEEDS else ""
    base, _ = without_seed(bad[0].case_name)
    again = f"--case {quote(with_seed(base, seeds[0]))}"
    word = "seed" if len(seeds) == 1 else "seeds"
    return f"{often} of {total}, with {word} {named}{more}; `{again}` has the inputs of one"
