"""/series/N: the results of a series over time, what changed them, and how much can be seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from vkbench.errors import UsageError
from vkbench.peers import list_what_is_included
from vkbench.programs.build import name_build
from vkbench_db.ask import series as ask
from vkbench_db.ask.series import SeriesChange, SeriesPoint, SeriesRow
from vkbench_db.database import Transaction
from vkbench_detection.peers.pairs import pairs_of_case
from vkbench_tables import peers
from vkbench_tables.series import CHANGES, POINTS
from vkbench_tables.table import Cell, Table
from vkbench_web.addresses import build_url
from vkbench_web.listing import Link, Listing, Row, list_table
from vkbench_web.pictures.change import name_step
from vkbench_web.shell import lab_of, page

router = APIRouter()
LAST = 2000  # results that a plot shows, the newest
LEVEL_OF = 200  # results that the present level is the median of
MOST_SERIES = 8  # in one plot
SHA_SHOWN = 10
OPTIONS = ("with", "x", "y")
MOST_SIBLINGS = 24  # other series of the case that are offered
_RESEMBLES = 0.3  # correlation of neighbours that is worth a word
_NOISE_WORDS = {
    "drifting": "it drifts: a slow result is often followed by a slow one",
    "modal": "results jump between two levels",
    "skewed": "now and then one lies far to one side",
}
_CHOICES = {"x": ("time", "ordinal"), "y": ("fitted", "zero")}


@dataclass(frozen=True, kw_only=True)
class Level:
    """A stretch of a series without a confirmed change in it."""

    begin: int  # place of its first result
    end: int  # of its last
    seconds: float  # median


@dataclass(frozen=True, kw_only=True)
class History:
    """A series with its results and its changes."""

    row: SeriesRow
    points: Sequence[SeriesPoint]  # the oldest first
    changes: Sequence[SeriesChange]  # the newest first

    @property
    def level(self) -> float | None:
        """The level of its newest results: the median since the last confirmed change."""
        return self.levels[-1].seconds if self.levels else None

    @cached_property
    def levels(self) -> list[Level]:
        """The stretches between confirmed changes, each with the median of what counts in it."""
        starts = {change.after_job for change in self.changes if change.state == "confirmed"}
        places = [place for place, point in enumerate(self.points) if point.job in starts]
        edges = [*dict.fromkeys([0, *places]), len(self.points)]
        levels = []
        for begin, end in pairwise(edges):
            counting = [point.seconds for point in self.points[begin:end] if not point.flag]
            if counting:
                middle = median(counting[-LEVEL_OF:])
                levels.append(Level(begin=begin, end=end - 1, seconds=middle))
        return levels

    @property
    def step(self) -> str:
        """The last two levels in one unit, 10.03 → 10.95 us; "" where there is but one."""
        if len(self.levels) < 2:
            return ""
        old, new = self.levels[-2:]
        return name_step(old.seconds, new.seconds)

    def list_changes(self) -> list[tuple[str, ...]]:
        """What changed before each result, such as a driver or a bundle."""
        pairs = zip(self.points, self.points[1:], strict=False)
        return [(), *(differences(old, new) for old, new in pairs)] if self.points else []


@router.get("/series/{number}", include_in_schema=False)
def one_series(request: Request, number: int) -> Response:
    """A series, beside others where `with` names them."""
    x, y = (_choose_option(request, name) for name in ("x", "y"))
    if len(ticked := request.query_params.getlist("with")) > 1:  # boxes of the form
        joined = request.url.include_query_params(**{"with": ",".join(filter(None, ticked))})
        return RedirectResponse(f"{joined.path}?{joined.query}", 303)
    with lab_of(request).reading() as tx:
        shown = histories(tx, [number, *_others(request)])
        beside = beside_peers(tx, shown[0].row)
        siblings = ask.list_siblings(tx, number, MOST_SIBLINGS)
    table = Table(
        columns=POINTS,
        rows=point_rows(shown[0])[::-1],
        nothing="no result of this series has a timing",
    )
    links = {**dict.fromkeys(("job", "measured_at"), _job), "build": _build}
    points = list_table(request, table, name=f"series-{number}", links=links, own=OPTIONS)
    changes = Table(columns=CHANGES, rows=[asdict(change) for change in shown[0].changes])
    return points.download() or page(
        request,
        "one_series.html",
        row=shown[0].row,
        shown=shown,
        points=points,
        changes=_short(request, changes, "changes", _CHANGE_LINKS),
        beside=_short(request, beside, "peers", {"peer": _job}),
        program=next((point.program for point in shown[0].points[-1:] if point.program), ""),
        includes=list_what_is_included({str(row["peer"]) for row in beside.rows}),
        plot={"x": x, "y": y, "series": [plot_columns(history) for history in shown]},
        x=x,
        y=y,
        siblings=[(row, name_difference(row, shown[0].row)) for row in siblings],
        noise=describe_noise(shown[0].row),
    )


def histories(tx: Transaction, numbers: Sequence[int], last: int = LAST) -> list[History]:
    """The histories of these series; UnknownName where one does not exist."""
    return [
        History(
            row=ask.one(tx, number),
            points=ask.points(tx, number, last),
            changes=ask.changes(tx, number),
        )
        for number in dict.fromkeys(numbers)
    ]


def point_rows(history: History) -> list[dict[str, Cell]]:
    """The results as rows of a table, the oldest first."""
    at = {changed.after_job: changed for changed in reversed(history.changes)}
    rows: list[dict[str, Cell]] = []
    for point, moved in zip(history.points, history.list_changes(), strict=True):
        change = at.get(point.job)
        rows.append(
            {
                **asdict(point),
                "build": name_build(point.build or "", point.bundle) if point.program else "",
                "low_seconds": point.low,
                "high_seconds": point.high,
                "samples": point.count,
                "change": f"{change.direction}, {change.state}" if change else "",
                "moved": "; ".join(moved),
            }
        )
    return rows


def name_difference(sibling: SeriesRow, row: SeriesRow) -> str:
    """In what a series differs from another one of its case: device, code path and metric."""
    parts = [
        f"{sibling.device_name} of {sibling.host}" if sibling.device != row.device else "",
        sibling.variant if sibling.variant != row.variant else "",
        sibling.metric if sibling.metric != row.metric else "",
        sibling.side if sibling.side != row.side else "",
        sibling.environment_class if sibling.environment_class != row.environment_class else "",
    ]
    return ", ".join(filter(None, parts))


def describe_noise(row: SeriesRow) -> str:
    """How the results of a series scatter, in words; "" where that is not known yet."""
    if row.sigma is None:
        return ""
    words = [f"two of three results lie within ±{row.sigma:.1%} of the level"]
    words.append(_NOISE_WORDS.get(row.noise_kind, ""))
    resemblance = row.autocorrelation or 0.0
    if abs(resemblance) >= _RESEMBLES and row.noise_kind != "drifting":
        words.append(
            "a result resembles the one before" if resemblance > 0 else "fast and slow take turns"
        )
    return "; ".join(filter(None, words))


def differences(old: SeriesPoint, new: SeriesPoint) -> tuple[str, ...]:
    """What changed between two results in driver, environment, code and bundle or build."""
    drivers = [" ".join(filter(None, (e.driver, e.driver_version))) for e in (old, new)]
    words: list[str] = []
    if drivers[0] != drivers[1]:
        words.append(f"driver {drivers[0] or 'none'} → {drivers[1] or 'none'}")
    elif old.environment != new.environment:
        words.append(f"environment {_short_sha(old.environment)} → {_short_sha(new.environment)}")
    if new.program:
        if old.bundle != new.bundle:
            words.append(f"build {_name(old) or _short_sha(old.bundle)} → {_name(new)}")
        return tuple(words)
    if old.kernel_sha != new.kernel_sha:
        words.append(f"code {_short_sha(old.kernel_sha)} → {_short_sha(new.kernel_sha)}")
    if old.bundle != new.bundle:
        words.append(f"bundle {_short_sha(old.bundle)} → {_short_sha(new.bundle)}")
    return tuple(words)


def _name(point: SeriesPoint) -> str:
    """What people call the build that computed a result; "" where a kernel did."""
    return (point.build or point.bundle[:SHA_SHOWN]) if point.program else ""


def plot_columns(history: History) -> Mapping[str, object]:
    """What the plot draws, column by column."""
    points = history.points
    return {
        "number": history.row.series,
        "name": f"{history.row.device_name}, {history.row.case_name}, "
        f"{history.row.variant}, {history.row.metric}",
        "levels": [asdict(level) for level in history.levels],
        "smallest_effect": history.row.smallest_effect,
        "at": [point.measured_at or 0.0 for point in points],
        "job": [point.job for point in points],
        "seconds": [point.seconds for point in points],
        "low": [point.low for point in points],
        "high": [point.high for point in points],
        "flag": [point.flag for point in points],
        "bundle": [_short_sha(point.bundle) for point in points],
        "build": [_name(point) for point in points],
        "driver": [" ".join(filter(None, (e.driver, e.driver_version))) for e in points],
        "moved": history.list_changes(),
        "changes": [
            {
                "job": change.after_job,
                "state": change.state,
                "direction": change.direction,
                "ratio": change.ratio,
            }
            for change in history.changes
        ],
    }


_CHANGE_LINKS: Mapping[str, Link] = {
    "before_job": lambda row: f"/jobs/{row['before_job']}",
    "after_job": lambda row: f"/jobs/{row['after_job']}",
    "regression": lambda row: f"/regressions/{row['regression']}",
}


def beside_peers(tx: Transaction, row: SeriesRow) -> Table:
    """The latest comparison of the series' case with each peer, on its device."""
    from vkbench_detection.peers.standings import standings

    return peers.table_of_case(standings(tx, pairs_of_case(tx, row.device, row.case_name)))


def _short(request: Request, table: Table, name: str, links: Mapping[str, Link]) -> Listing:
    return Listing(
        name=name, table=table, total=len(table.rows), page=1, path=request.url.path,
        query={}, links=links, is_sortable=False,
    )  # fmt: skip


def _others(request: Request) -> list[int]:
    words = [word.strip() for word in request.query_params.get("with", "").split(",")]
    named = [word for word in words if word]
    if not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in named):
        raise UsageError("with names other series by their numbers: with=12,13")
    if len(named) >= MOST_SERIES:
        raise UsageError(f"a plot shows at most {MOST_SERIES} series")
    return [int(word) for word in named]


def _choose_option(request: Request, name: str) -> str:
    option = request.query_params.get(name) or _CHOICES[name][0]
    if option not in _CHOICES[name]:
        raise UsageError(f"{name} is {' or '.join(_CHOICES[name])}")
    return option


def _short_sha(sha: str) -> str:
    return sha[:SHA_SHOWN] or "none"


def _build(row: Row) -> str | None:
    return build_url(str(row["bundle"])) if row["build"] else None


def _job(row: Row) -> str:
    return f"/jobs/{row['job']}"
