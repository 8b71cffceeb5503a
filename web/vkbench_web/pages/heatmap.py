"""/heatmap: what the latest results of a device say of every kernel and format."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean, median
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from vkbench.case import parse
from vkbench.errors import UnknownName
from vkbench.job import JobState, Mode
from vkbench.peers import BY_NAME
from vkbench.programs.build import find_word
from vkbench.words import names
from vkbench.words.units import count_of, list_counts
from vkbench_db.ask import builds as of_builds
from vkbench_db.ask import latest_results, queries
from vkbench_db.ask.devices.drivers import TimedDriver, list_timed_drivers
from vkbench_db.ask.devices.names import device_keys
from vkbench_db.database import Transaction
from vkbench_db.work.builds import find_build_sha
from vkbench_detection.peers.pairs import pairs_of_device, peers_of_device
from vkbench_tables.heat_map import FIGURES, KEY
from vkbench_tables.table import Cell, Table
from vkbench_web.listing import FORMATS, file_of
from vkbench_web.matrix import matrix
from vkbench_web.pictures.legends import IN_CACHE, SAME, SHARES, legend_of, name_tone
from vkbench_web.shell import lab_of, page

router = APIRouter()
SHOWS = {
    "correctness": "Correctness",
    "roof": "Share of the roof",
    "change": "Change against a baseline",
    "peer": "Ratio to a peer",
}
WORST = 5  # kernels and formats that are named apart
MOST_DRIVERS = 12  # that a device was timed with, and that its page names
METRICS = ("hot", "cold")
MODES = ("", str(Mode.CORRECTNESS), str(Mode.PERFORMANCE))
OVER = ("median", "best")
_OPTIONS = (
    *("device", "show", "metric", "mode", "over", "against", "peer", "all", "part", "format"),
    *("program", "build"),
)
# what decides a cell: a kernel that is skipped somewhere is right where it runs
_GRAVITY = (JobState.WRONG, JobState.FAILED, JobState.PASSED, JobState.SKIPPED)
_SIGNS = {
    JobState.WRONG: "✗",
    JobState.FAILED: "!",
    JobState.PASSED: "✓",
    JobState.SKIPPED: "–",
}

Key = tuple[str, str]  # kernel, format


@dataclass(frozen=True, kw_only=True)
class Heat:
    """A cell: its text, its colour, and what stands behind it."""

    text: str
    tone: str  # a class of style.css
    title: str  # one line
    figures: Mapping[str, Cell]  # the same for a download, by column
    link: str


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the URL asks for."""

    device: str
    show: str
    metric: str
    mode: str
    over: str
    against: str
    peer: str
    everything: bool  # kernels and formats without results too
    program: str = ""  # whose builds' results are shown; "" for our kernels'
    cache_bytes: int = 0  # of the device; 0 where it is not known
    build: str = ""  # of changes: the build that is held against another; "" for the newest


@router.get("/heatmap", include_in_schema=False)
def heatmap(request: Request) -> Response:
    """The map of a device."""
    with lab_of(request).reading() as tx:
        options = _read_options(tx, request)
        devices = queries.devices(tx)
        pinned = _list_sides(tx, options.program) if options.show == "change" else []
        programs = of_builds.programs(tx)
        peers = peers_of_device(tx, options.device) if options.show == "peer" else []
        device = next((row for row in devices if row.key == options.device), None)
        options = replace(options, cache_bytes=device.facts.llc_bytes if device else 0)
        cells = cells_of(tx, options) if options.device else {}
        own = _list_own_kernels(tx) if options.everything else ()
        drivers = list_timed_drivers(tx, options.device)[:MOST_DRIVERS]
    if kind := request.query_params.get("format"):
        return file_of(_table(options, cells), "heatmap", kind)
    return page(
        request,
        "heatmap.html",
        options=options,
        devices=devices,
        device=device,
        drivers=drivers,
        older=list(map(_compare_drivers, drivers[1:], drivers)),
        legend=legend_of(options.show),
        worst=_worst(cells) if options.show == "peer" else [],
        other_shows={key: _show_url(request, key) for key in SHOWS},
        pinned=pinned,
        peers=peers,
        shows={key: SHOWS[key] for key in SHOWS if key != "peer" or not options.program},
        programs=programs,
        metrics=METRICS,
        modes=MODES,
        over=OVER,
        map=matrix(cells.keys(), everything=options.everything, own=own),
        cells=cells,
        downloads={kind: _download(request, kind) for kind in FORMATS},
    )


def _compare_drivers(old: TimedDriver, new: TimedDriver) -> str:
    return f"/compare?{urlencode({'old': f'driver:{old.name}', 'new': f'driver:{new.name}'})}"


def _worst(cells: Mapping[Key, Heat]) -> list[tuple[Key, Heat]]:
    """The cells with the lowest ratios to the peer, the lowest first."""
    ratios = {key: float(str(cell.figures["ratio"])) for key, cell in cells.items()}
    return [(key, cells[key]) for key in sorted(ratios, key=lambda key: ratios[key])[:WORST]]


def _show_url(request: Request, show: str) -> str:
    """This device's map of something else."""
    query = {"device": request.query_params.get("device", ""), "show": show}
    return f"/heatmap?{urlencode({name: value for name, value in query.items() if value})}"


def _download(request: Request, kind: str) -> str:
    return f"/heatmap?{urlencode({**request.query_params, 'format': kind})}"


def _table(options: Asked, cells: Mapping[Key, Heat]) -> Table:
    """A row for each cell, by kernel and format."""
    rows = [
        {"device": options.device, "kernel": kernel, "format": fmt, **cells[kernel, fmt].figures}
        for kernel, fmt in sorted(cells)
    ]
    return Table(columns=(*KEY, *FIGURES[options.show]), rows=rows, nothing="no cells")


def _read_options(tx: Transaction, request: Request) -> Asked:
    given = request.query_params
    for name in given:
        if name not in _OPTIONS:
            raise UnknownName("option", name, names.nearest(name, _OPTIONS))
    keys = device_keys(tx, [given["device"]]) if given.get("device") else []
    device = keys[0] if keys else latest_results.last_seen_device(tx)
    show = names.pick(given.get("show") or "correctness", SHOWS, "map")
    known = {row.program: row for row in of_builds.programs(tx)}
    program = names.pick(given["program"], known, "program") if given.get("program") else ""
    newest = find_word(known[program].newest, known[program].newest_sha) if program else ""
    build = given.get("build", "").strip()
    if build:
        find_build_sha(tx, build, program)  # an error where there is none
    return Asked(
        device=device,
        show=show,
        metric=names.pick(given.get("metric") or "hot", METRICS, "metric"),
        mode=names.pick(given.get("mode", ""), MODES, "mode"),
        over=names.pick(given.get("over") or "median", OVER, "way to sum up"),
        against=given.get("against", "").strip(),
        peer=_peer(tx, device, given.get("peer", "").strip()) if show == "peer" else "",
        everything=given.get("all", "") not in ("", "0"),
        program=program,
        build=build or newest,
    )


def _peer(tx: Transaction, device: str, given: str) -> str:
    """The peer of the URL, or the first one that the device's cases were compared with."""
    return names.pick(given, BY_NAME, "peer") if given else (peers_of_device(tx, device) or [""])[0]


def cells_of(tx: Transaction, options: Asked) -> dict[Key, Heat]:
    """The cells of a device's map, by kernel and format."""
    return _CELLS[options.show](tx, options)


def _list_sides(tx: Transaction, program: str) -> list[str]:
    """What a map may be held against: a program's builds, the newest first, or baselines."""
    from vkbench_detection.compare.baselines import baselines

    if program:
        builds = of_builds.builds(tx, program)
        return [f"build:{find_word(row.name, row.sha)}" for row in reversed(builds)]
    return [baseline.name for baseline in baselines(tx)]


def _list_own_kernels(tx: Transaction) -> list[str]:
    """Kernels of users whose results stand under their own names."""
    from vkbench_scheduler.own_kernels import own_kernels

    return [declared.own.name for declared in own_kernels(tx) if not declared.own.shadows]


def _correctness(tx: Transaction, options: Asked) -> dict[Key, Heat]:
    counts: dict[Key, dict[str, int]] = defaultdict(dict)
    modes = [options.mode] if options.mode else ()
    for row in latest_results.states(tx, options.device, modes=modes, program=options.program):
        counts[row.kernel, row.format][row.state] = row.results
    return {key: _verdicts(options, key, states) for key, states in counts.items()}


def _verdicts(options: Asked, key: Key, counts: Mapping[str, int]) -> Heat:
    worst = next((state for state in _GRAVITY if state in counts), JobState.SKIPPED)
    ordered = {str(state): counts[state] for state in _GRAVITY if state in counts}
    only = {"state": str(worst)} if worst in (JobState.WRONG, JobState.FAILED) else {}
    return Heat(
        text=f"{_SIGNS[worst]}{counts.get(worst, 0)}",
        tone=f"is-{worst}",
        title=_describe_cell(key, list_counts(ordered)),
        link=_link(options, key, mode=options.mode, **only),
        figures={str(state): counts.get(state, 0) for state in _GRAVITY},
    )


def _roof(tx: Transaction, options: Asked) -> dict[Key, Heat]:
    shares: dict[Key, list[latest_results.RoofShare]] = defaultdict(list)
    for row in latest_results.roof_shares(
        tx, options.device, options.metric, program=options.program
    ):
        shares[row.kernel, row.format].append(row)
    return {key: _share(options, key, cell_shares) for key, cell_shares in shares.items()}


def _share(options: Asked, key: Key, timed: Sequence[latest_results.RoofShare]) -> Heat:
    """A cell of what does not fit the cache; of a kernel all of whose cases fit, a hatched one."""
    limit = options.cache_bytes if options.metric == "hot" else 0
    larger = [row for row in timed if row.bytes_moved > limit]
    shares = larger or timed
    left = len(timed) - len(shares)
    fits = "" if larger else "; all of them fit the cache, where memory does not limit them"
    fractions = [row.fraction for row in shares]
    shown = max(fractions) if options.over == "best" else median(fractions)
    worst = min(shares, key=lambda row: row.fraction)
    return Heat(
        text=f"{100 * shown:.0f}",
        tone=f"share-{sum(shown >= edge for edge in SHARES)}{'' if larger else f' {IN_CACHE}'}",
        title=_describe_cell(
            key,
            f"{options.over} {shown:.1%} of the roof over {count_of(len(shares), 'case')}; "
            f"least {worst.fraction:.1%}, {worst.case_name}{fits}"
            + (f"; {left} more fit the cache" if left else ""),
        ),
        link=_link(options, key, mode=str(Mode.PERFORMANCE), sort="roof_fraction"),
        figures={
            "cases": len(shares),
            "cases_in_cache": left if larger else len(timed),
            "median_roof_fraction": median(fractions),
            "best_roof_fraction": max(fractions),
            "least_roof_fraction": worst.fraction,
            "least_case": worst.case_name,
        },
    )


def _change(tx: Transaction, options: Asked) -> dict[Key, Heat]:
    if not options.against:
        return {}
    if options.program:
        return _change_of_builds(tx, options)
    from vkbench_detection.compare.latest_changes import LatestChange, changes
    from vkbench_detection.compare.references import find

    ratios: dict[Key, list[LatestChange]] = defaultdict(list)
    for row in changes(tx, options.device, find(tx, _reference(options.against)), options.metric):
        ratios[row.kernel, row.format].append(row)
    return {
        key: _ratio(options, key, {row.case_name: row.ratio for row in cell_changes})
        for key, cell_changes in ratios.items()
    }


def _change_of_builds(tx: Transaction, options: Asked) -> dict[Key, Heat]:
    """The cells of two builds of a program, or of a build and another side."""
    from vkbench_detection.compare.comparison import compare
    from vkbench_detection.compare.references import find

    ratios: dict[Key, dict[str, float | None]] = defaultdict(dict)
    old, new = find(tx, _reference(options.against)), find(tx, f"build:{options.build}")
    device = "" if old.is_device else options.device
    for pair in compare(tx, old, new, metrics=[options.metric], device=device).pairs:
        if pair.work.new.key == options.device and pair.work.variant == options.program:
            case = parse(pair.work.case_name)
            ratio = pair.ratio.ratio if pair.ratio else None
            ratios[case.kernel, case.format][pair.work.case_name] = ratio
    return {key: _ratio(options, key, timed) for key, timed in ratios.items()}


def _reference(text: str) -> str:
    """The side that the map is held against; a bare day means `date:DAY`."""
    is_day = len(text) >= 10 and text[:4].isdecimal() and text[4] == "-"
    return f"date:{text}" if is_day else text


def _ratio(options: Asked, key: Key, timed: Mapping[str, float | None]) -> Heat:
    ratios = {name: ratio for name, ratio in timed.items() if ratio is not None}
    noisy = len(timed) - len(ratios)
    if not ratios:
        return Heat(
            text="?",
            tone=SAME,
            title=_describe_cell(key, f"{count_of(len(timed), 'case')} too noisy for a ratio"),
            link=_link(options, key, mode=str(Mode.PERFORMANCE)),
            figures={"cases": 0, "too_noisy": noisy},
        )
    mean, cases = geometric_mean(ratios.values()), count_of(len(ratios), "case")
    worst = max(ratios, key=lambda name: ratios[name])
    tone = name_tone(1 / mean)
    return Heat(
        text="0" if tone == SAME else f"{100 * (mean - 1):+.0f}".replace("-", "−"),
        tone=tone,
        title=_describe_cell(
            key,
            f"{100 * (mean - 1):+.1f} % time over {cases} (geometric mean); "
            f"slowest {100 * (ratios[worst] - 1):+.1f} %, {worst}"
            + (f"; {noisy} more too noisy" if noisy else ""),
        ),
        link=_link(options, key, mode=str(Mode.PERFORMANCE)),
        figures={
            "cases": len(ratios),
            "too_noisy": noisy,
            "ratio": mean,
            "slowest_ratio": ratios[worst],
            "slowest_case": worst,
        },
    )


def _peer_ratios(tx: Transaction, options: Asked) -> dict[Key, Heat]:
    from vkbench_detection.peers.standings import ratio_of

    by_cell: dict[Key, dict[str, float]] = defaultdict(dict)
    for pair in pairs_of_device(tx, options.device, options.peer):
        if ratio := ratio_of(pair):
            by_cell[pair.kernel, pair.format][pair.case_name] = ratio.ratio
    return {key: _against(options, key, ratios) for key, ratios in by_cell.items()}


def _against(options: Asked, key: Key, ratios: Mapping[str, float]) -> Heat:
    """A cell that says how many times as fast as a peer our kernels are."""
    mean, cases = geometric_mean(ratios.values()), count_of(len(ratios), "case")
    worst = min(ratios, key=lambda name: ratios[name])
    return Heat(
        text=f"{mean:.2g}" if mean < 100 else f"{mean:.0f}",
        tone=name_tone(mean),
        title=_describe_cell(
            key,
            f"{mean:.3g} times as fast as {options.peer} over {cases} (geometric mean); "
            f"least {ratios[worst]:.3g}, {worst}",
        ),
        link=_link(options, key, mode=str(Mode.PEER)),
        figures={
            "cases": len(ratios),
            "ratio": mean,
            "least_ratio": ratios[worst],
            "least_case": worst,
        },
    )


_CELLS: Mapping[str, Callable[[Transaction, Asked], dict[Key, Heat]]] = {
    "correctness": _correctness,
    "roof": _roof,
    "change": _change,
    "peer": _peer_ratios,
}


def _describe_cell(key: Key, what: str) -> str:
    return f"{key[0]} {key[1]}: {what}"


def _link(options: Asked, key: Key, **more: str) -> str:
    of_build = {"program": options.program}
    if options.program and options.show == "change":
        of_build = {"build": options.build}
    query = {"device": options.device, "kernel": key[0], "format": key[1], **of_build, **more}
    return f"/results?{urlencode({name: value for name, value in query.items() if value})}"
