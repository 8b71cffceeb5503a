"""The end of a run: its table, a line of counts, and the exit code of its worst result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from shlex import quote

from vkbench.case import with_seed, without_seed
from vkbench.errors import EXIT_OK, NothingToDo, VkbenchError, WrongResult
from vkbench.job import FINISHED, TRIED_STATES, JobState, Mode
from vkbench.words.units import count_of
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import tell
from vkbench_db.ask import queries
from vkbench_db.ask.results import ResultFilter, ResultRow, read_revisions_of
from vkbench_db.ask.results import results as read_results
from vkbench_db.database import Database
from vkbench_detection.steps import Detected
from vkbench_tables.batches import table_of_batches
from vkbench_tables.results import rows_of, table
from vkbench_tables.table import Cell

MOST_REASONS = 5  # why jobs were skipped, that are told one by one
UNSCREENED = (
    "new timings were not screened for regressions, because scipy is not installed: "
    "`pip install 'vkbench[detection]'`, or `vkbench import` them on a host that has it"
)


def conclude(database: Database, run: int, output: Output, *, all_rows: bool = False) -> int:
    """Print a run's results on stdout and its counts on stderr; says the exit code."""
    return conclude_all(database, [run], output, all_rows=all_rows)


def conclude_all(
    database: Database, runs: Sequence[int], output: Output, *, all_rows: bool = False
) -> int:
    """Print the results of runs as one table, and a line of counts each; says the exit code."""
    with database.reading() as tx:
        of_each = [read_results(tx, ResultFilter(run=run), limit=None) for run in runs]
        results = [result for newest_first in of_each for result in newest_first]
        made_of = read_revisions_of(tx, results)
        rows = [row for newest in of_each for row in rows_of(by_device(newest), made_of)]
        counts = {run: queries.find_run(tx, str(run)).progress.counts for run in runs}
    total = sum(map(Counter, counts.values()), Counter[JobState]())
    brief = not (all_rows or output.json or output.csv)
    if brief and any(row["mode"] == Mode.BATCH for row in rows):
        return _conclude_batches(rows, counts, output)
    shown = telling(rows) if brief else rows
    show(table(shown, hidden=("finished_at",)), output)
    hidden = [] if len(shown) == len(rows) else [row for row in rows if not _is_telling(row)]
    for line in reasons([row for row in hidden if row["verdict"] == JobState.SKIPPED]):
        tell(line)
    for line in repeats(results):
        tell(line)
    for run, ended in counts.items():
        states = Counter(row["verdict"] for row in hidden if row["run"] == run)
        skipped = states.pop(JobState.SKIPPED, 0)
        tell(summary(run, ended, states.total(), skipped))
    return exit_code(total)


def _conclude_batches(
    rows: Sequence[Mapping[str, Cell]],
    counts: Mapping[int, Mapping[JobState, int]],
    output: Output,
) -> int:
    """Like `conclude` for checks of batches: a row per kernel and code path."""
    show(table_of_batches(rows), output)
    for line in reasons([row for row in rows if row["verdict"] == JobState.SKIPPED]):
        tell(line)
    for run, ended in counts.items():
        tell(summary(run, ended))
        if ended.get(JobState.WRONG):
            tell(f"`vkbench results --run {run} --state wrong` says what differs")
    return exit_code(sum(map(Counter, counts.values()), Counter[JobState]()))


def by_device(newest_first: Sequence[ResultRow]) -> Sequence[ResultRow]:
    """Results device by device, each device's in the order in which they ended."""
    first = {row.device: row.job for row in sorted(newest_first, key=lambda row: -row.job)}
    ended = list(reversed(newest_first))
    return sorted(ended, key=lambda row: first[row.device])


def print_counts(database: Database, run: int) -> int:
    """Print a run's counts alone, on stderr; says the exit code."""
    with database.reading() as tx:
        counts = queries.find_run(tx, str(run)).progress.counts
    tell(summary(run, counts, 0))
    return exit_code(counts)


def telling(rows: Sequence[Mapping[str, Cell]]) -> Sequence[Mapping[str, Cell]]:
    """The rows to show by default: timings and failures; all rows if there are neither."""
    return [row for row in rows if _is_telling(row)] or rows


def _is_telling(row: Mapping[str, Cell]) -> bool:
    return bool(row["hot_seconds"]) or row["verdict"] not in (JobState.PASSED, JobState.SKIPPED)


def reasons(skipped: Sequence[Mapping[str, Cell]]) -> Iterator[str]:
    """Why jobs were skipped, each reason once with their number: `9 skipped: it needs coopmat`."""
    counts = Counter(str(row["reason"]) for row in skipped)
    for reason, count in counts.most_common(MOST_REASONS):
        yield f"{count} skipped: {reason}"
    others = counts.total() - sum(count for _, count in counts.most_common(MOST_REASONS))
    if others:
        yield f"{others} skipped for other reasons"


def summary(
    run: int, counts: Mapping[JobState, int], hidden_checks: int = 0, hidden_skips: int = 0
) -> str:
    """One line: `run 3: 40 passed, 1 wrong (28 passed checks not shown: --all)`."""
    ends = ", ".join(f"{counts[state]} {state}" for state in FINISHED if counts.get(state))
    hidden = [count_of(hidden_checks, "passed check")] if hidden_checks else []
    hidden += [f"{hidden_skips} skipped"] if hidden_skips else []
    more = f" ({' and '.join(hidden)} not shown: --all)" if hidden else ""
    return f"run {run}: {ends or 'no job ended'}{more}"


def findings(detected: Detected) -> Iterator[str]:
    """One line per kind of finding in the new results, or why they were not screened."""
    if detected.suspects:
        suspects = count_of(len(detected.suspects), "job")
        yield (
            f"{suspects} faster than the device can be, which count nowhere: check them again "
            "with other inputs, by --case NAME/seed=1"
        )
    if detected.suspected:
        suspected = f"{count_of(len(detected.suspected), 'change')} suspected"
        yield f"{suspected}: `vkbench regressions suspected`"
    if detected.opened:
        opened = f"{count_of(len(detected.opened), 'regression')} opened"
        yield f"{opened}: `vkbench regressions ls`"
    if detected.is_unscreened:
        yield UNSCREENED


def exit_code(counts: Mapping[JobState, int]) -> int:
    """The exit code of the worst result."""
    if counts.get(JobState.WRONG):
        return WrongResult.exit_code
    if counts.get(JobState.FAILED):
        return VkbenchError.exit_code
    return EXIT_OK if counts.get(JobState.PASSED) else NothingToDo.exit_code


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
