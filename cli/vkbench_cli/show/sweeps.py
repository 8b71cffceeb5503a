"""Sweeps as tables: a row a configuration, or side by side where one parameter is tuned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from vkbench.case import parse as parse_case
from vkbench.configuration import parse, text_of, variant_of
from vkbench.words.units import count_of
from vkbench_cli.show.printing import Output, show
from vkbench_cli.show.telling import tell
from vkbench_db.upkeep.tuning import keeps, trials
from vkbench_detection.tune.winners import Standing, Timed, standings
from vkbench_tables.table import Cell, Column, Rank, Table, ValueKind

if TYPE_CHECKING:
    from vkbench_db.ask.queries import RunRow
    from vkbench_db.database import Transaction
    from vkbench_db.upkeep.tuning import TunedRow

MOST_BESIDE = 12  # settings that are shown side by side

COLUMNS = (
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="key", hidden=True),
    Column(key="case", heading="case", rank=Rank.KEY),
    Column(key="variant", heading="variant"),
    Column(key="settings", heading="settings", rank=Rank.KEY),
    Column(key="configuration", heading="configuration", hidden=True),
    Column(key="hot_seconds", heading="hot", kind=ValueKind.SECONDS, rank=Rank.KEY),
    Column(key="hot_low_seconds", heading="hot low", hidden=True),
    Column(key="hot_high_seconds", heading="hot high", hidden=True),
    Column(key="rounds", heading="rounds", kind=ValueKind.COUNT, hidden=True),
    Column(key="speed", heading="speed", kind=ValueKind.NUMBER),
    Column(key="choice", heading="", rank=Rank.KEY),
    Column(key="remark", heading="remark", prose=True),
)
KNOWN = (
    Column(key="host", heading="host", lifted=True),
    Column(key="device_name", heading="device", lifted=True),
    Column(key="device", heading="key", hidden=True),
    Column(key="driver", heading="driver", lifted=True),
    Column(key="driver_version", heading="version", lifted=True),
    Column(key="case", heading="case", rank=Rank.KEY),
    Column(key="configuration", heading="fastest", rank=Rank.KEY),
    Column(key="seconds", heading="hot", kind=ValueKind.SECONDS),
    Column(key="estimated", heading="estimated"),
    Column(key="estimated_seconds", heading="hot", kind=ValueKind.SECONDS),
    Column(key="speed", heading="speed", kind=ValueKind.NUMBER),
    Column(key="run", heading="run", kind=ValueKind.ID),
    Column(key="measured_at", heading="measured", kind=ValueKind.TIME, rank=Rank.MINOR),
)

Place = tuple[str, str]  # device key and case


def show_sweep(tx: Transaction, run: RunRow, output: Output) -> None:
    """Print a sweep; as text, settings of a single parameter side by side."""
    jobs = trials(tx, run.id)
    names = {trial.device: trial.device_name for trial in jobs}
    by_place = standings(jobs)
    if output.json or output.csv:
        show(Table(columns=COLUMNS, rows=list(_rows(by_place, names))), output)
    else:
        _show_kernels(by_place, names, output)
    unkept = {
        case: standing for (_, case), standing in by_place.items() if not keeps(run.about, case)
    }
    if unkept:
        tell(_not_kept(unkept))


def _show_kernels(
    by_place: Mapping[Place, Standing], names: Mapping[str, str], output: Output
) -> None:
    for kernel in dict.fromkeys(parse_case(case).kernel for _, case in by_place):
        of_kernel = {
            place: standing
            for place, standing in by_place.items()
            if parse_case(place[1]).kernel == kernel
        }
        beside = _beside(of_kernel, names)
        show(beside or Table(columns=COLUMNS, rows=list(_rows(of_kernel, names))), output)
    won = sum(standing.best is not standing.estimated for standing in by_place.values())
    tell(f"faster than estimated: {won} of {len(by_place)} cases")


def _not_kept(by_case: Mapping[str, Standing]) -> str:
    """A note: nothing is kept of these cases, and how to run the fastest configuration of one."""
    variant = variant_of(next(iter(by_case.values())).timed[0].configuration)
    sentence = f"nothing is kept of {count_of(len(by_case), 'case')}: `auto` never takes {variant}"
    for case, standing in by_case.items():
        if standing.best:
            options = f"--case {case} --variant {standing.best.configuration}"
            return f"{sentence}; to run the fastest, ask for it: {options}"
    return sentence


def show_known(rows: Sequence[TunedRow], output: Output, nothing: str) -> None:
    """Print what sweeps found, a row a case."""
    cells = [
        {name: getattr(row, name) for name in row.__dataclass_fields__}
        | {"speed": row.estimated_seconds / row.seconds}
        for row in rows
    ]
    show(Table(columns=KNOWN, rows=cells, nothing=nothing), output)


def _rows(
    by_place: Mapping[Place, Standing], names: Mapping[str, str]
) -> Iterator[Mapping[str, Cell]]:
    for (device, case), standing in by_place.items():
        for timed in standing.timed:
            configuration = parse(timed.configuration)
            yield {
                "device_name": names[device],
                "device": device,
                "case": case,
                "variant": configuration.variant,
                "settings": text_of(configuration.settings),
                "configuration": timed.configuration,
                "hot_seconds": timed.typical if timed.seconds else None,
                "hot_low_seconds": timed.low if timed.seconds else None,
                "hot_high_seconds": timed.high if timed.seconds else None,
                "rounds": len(timed.seconds),
                "speed": _speed(timed, standing),
                "choice": _choice(timed, standing),
                "remark": timed.reason,
            }


def _speed(timed: Timed, standing: Standing) -> float | None:
    """How many times as fast as the estimated configuration."""
    if not timed.seconds or standing.estimated is None:
        return None
    return standing.estimated.typical / timed.typical


def _choice(timed: Timed, standing: Standing) -> str:
    words = (
        "estimated" if timed is standing.estimated else "",
        "best" if timed is standing.best else "",
    )
    return ", ".join(filter(None, words))


def _beside(by_place: Mapping[Place, Standing], names: Mapping[str, str]) -> Table | None:
    """Times by settings side by side; None where several parameters are tuned, or none."""
    tried = dict.fromkeys(
        text_of(parse(timed.configuration).settings)
        for standing in by_place.values()
        for timed in standing.timed
    )
    params = {name for text in tried for name in text.split(",")}
    if "" in tried or len({text.partition("=")[0] for text in params}) != 1:
        return None
    if len(tried) > MOST_BESIDE:
        return None
    columns = [
        *(column for column in COLUMNS if column.key in ("device_name", "case", "variant")),
        *(Column(key=text, heading=text, kind=ValueKind.SECONDS) for text in _sort_settings(tried)),
        Column(key="estimated", heading="estimated"),
        Column(key="best", heading="best", rank=Rank.KEY),
    ]
    return Table(columns=columns, rows=list(_beside_rows(by_place, names)))


def _sort_settings(settings: Mapping[str, None]) -> list[str]:
    """By number where they are numbers, in their own order otherwise."""
    values = [text.partition("=")[2] for text in settings]
    if not all(value.isdecimal() for value in values):
        return list(settings)
    return sorted(settings, key=lambda text: int(text.partition("=")[2]))


def _beside_rows(
    by_place: Mapping[Place, Standing], names: Mapping[str, str]
) -> Iterator[Mapping[str, Cell]]:
    for (device, case), standing in by_place.items():
        by_variant: dict[str, dict[str, Cell]] = {}
        for timed in standing.timed:
            configuration = parse(timed.configuration)
            row = by_variant.setdefault(
                configuration.variant,
                {"device_name": names[device], "case": case, "variant": configuration.variant},
            )
            setting = text_of(configuration.settings)
            row[setting] = timed.typical if timed.seconds else None
            value = setting.partition("=")[2]
            if timed is standing.estimated:
                row["estimated"] = value
            if timed is standing.best:
                row["best"] = value
        yield from by_variant.values()
