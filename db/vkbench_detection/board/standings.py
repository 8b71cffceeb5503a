"""What a page of a board says: how fast a class of devices does a case, as labs measured it."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from vkbench_detection.board.index import APARTS, Index
from vkbench_detection.board.lines import Apart
from vkbench_detection.board.roofs import Measured, least_of, read_roofs
from vkbench_detection.series.roofs import Roofs

SHARES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_GROUPS: Final = 30  # drivers, builds or code paths of a metric
MOST_EXPORTS: Final = 200  # that a page names
MOST_METRICS: Final = 6
PREFERRED: Final = ("cold", "hot")  # what a case's badge and its row in lists say
_ROWS: Final = """
SELECT timing.page, class.id, class.name, page.case_name, section, device, variant, driver, build,
  metric, path, seconds, bytes_moved, flops, apart
FROM timing
JOIN section ON section.id = timing.section AND NOT section.hidden
JOIN page ON page.id = timing.page JOIN class ON class.id = page.class
WHERE timing.page BETWEEN ? AND ? AND timing.page IN (SELECT page FROM dirty)
ORDER BY timing.page, section
"""


class _Key(NamedTuple):
    """What timings have in common whose seconds lie in one array."""

    metric: int
    variant: int
    driver: int
    build: int
    device: int


@dataclass(frozen=True, kw_only=True)
class Group:
    """Timings that are summed up together."""

    name: str
    count: int
    devices: int
    shares: tuple[float, ...]  # seconds at SHARES
    best: float

    @property
    def median(self) -> float:
        """The middle of its timings, in seconds."""
        return self.shares[2]


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The timings of one metric: all, and by what they differ in."""

    metric: str
    whole: Group
    bytes_per_second: float
    flops_per_second: float
    parts: Mapping[str, Sequence[Group]]  # by "driver", "build", "code path"; most results first
    left_out: Mapping[str, int]  # groups beyond MOST_GROUPS


@dataclass(frozen=True, kw_only=True)
class Export:
    """A run of a file, as a page names it."""

    file: str
    key: str  # fingerprint of the key that signed it; "" if it is unsigned
    made_at: float
    timings: int  # on the page


@dataclass(frozen=True, kw_only=True)
class SetApart:
    """Timings that do not count, and why."""

    reason: Apart
    count: int
    least: float  # seconds
    most: float
    files: Sequence[str]  # the first few


@dataclass(frozen=True, kw_only=True)
class CasePage:
    """All that the page of a class and a case shows."""

    page: int
    device: str
    case: str
    standings: Sequence[Standing]
    apart: Sequence[SetApart]
    exports: Sequence[Export]
    export_count: int
    is_calibrated: bool

    @property
    def first(self) -> Standing | None:
        """The metric by which lists and the badge name the case."""
        by_metric = {standing.metric: standing for standing in self.standings}
        named = filter(None, (by_metric.get(metric) for metric in PREFERRED))
        return next(named, next(iter(self.standings), None))


@dataclass
class _Gathered:
    """The timings of a page while they are read."""

    seconds: dict[_Key, array[float]] = field(default_factory=dict)
    amounts: dict[int, tuple[int, int]] = field(default_factory=dict)  # by metric
    apart: dict[Apart, tuple[int, float, float]] = field(default_factory=dict)  # of seconds
    apart_sections: dict[Apart, dict[int, None]] = field(default_factory=lambda: defaultdict(dict))
    sections: Counter[int] = field(default_factory=Counter)

    def set_apart(self, reason: Apart, section: int, seconds: float) -> None:
        """Count a timing that does not count, and remember its export."""
        count, least, most = self.apart.get(reason, (0, seconds, seconds))
        self.apart[reason] = (count + 1, min(least, seconds), max(most, seconds))
        self.apart_sections[reason].setdefault(section)


def read_pages(index: Index, first: int, last: int) -> Iterator[CasePage]:
    """The pages that changed since the last build, of these numbers, one at a time."""
    roofs, words = read_roofs(index), _Words(index)
    rows: Iterable[Any] = index.query(_ROWS, (first, last))
    for (page, kind, device, case), group in groupby(rows, key=itemgetter(0, 1, 2, 3)):
        gathered = _gather(group, case, roofs.get(kind), words)
        exports = gathered.sections.most_common(MOST_EXPORTS)
        yield CasePage(
            page=page,
            device=device,
            case=case,
            standings=[*_make_standings(gathered, words)][:MOST_METRICS],
            apart=[*_list_apart(gathered, words)],
            exports=[words.export(section, count) for section, count in exports],
            export_count=len(gathered.sections),
            is_calibrated=kind in roofs,
        )


def _gather(rows: Iterable[Any], case: str, roofs: Roofs | None, words: _Words) -> _Gathered:
    made = _Gathered()
    floors: dict[tuple[int, ...], float] = {}  # seconds that a roof allows, by what it judges
    keys: dict[tuple[int, ...], array[float]] = {}
    for row in rows:
        section, device, variant, driver, build, metric, path, seconds, *amounts, apart = row[4:]
        made.sections[section] += 1
        if roofs and not apart:
            judged = (variant, metric, path, *amounts)
            if (floor := floors.get(judged)) is None:
                floor = floors[judged] = _find_floor(case, judged, roofs, words)
            apart = seconds < floor and APARTS.index(Apart.BEYOND)
        if apart:
            made.set_apart(APARTS[apart], section, seconds)
            continue
        key = (metric, variant, driver, build, device)
        if (values := keys.get(key)) is None:
            values = keys[key] = array("d")
            made.amounts[metric] = (amounts[0], amounts[1])
        values.append(seconds)
    made.seconds = {_Key(*key): values for key, values in keys.items()}
    return made


def _find_floor(case: str, judged: tuple[int, ...], roofs: Roofs, words: _Words) -> float:
    variant, metric, path, bytes_moved, flops = judged
    measured = Measured(
        case=case,
        variant=words.text(variant),
        metric=words.text(metric),
        path=words.text(path),
        bytes_moved=bytes_moved,
        flops=flops,
    )
    return least_of(measured, roofs)


def _make_standings(made: _Gathered, words: _Words) -> Iterator[Standing]:
    by_metric: dict[int, list[_Key]] = defaultdict(list)
    for key in made.seconds:
        by_metric[key.metric].append(key)
    for metric, keys in sorted(by_metric.items(), key=lambda item: words.text(item[0])):
        whole = _make_group("all", keys, made)
        bytes_moved, flops = made.amounts[metric]
        parts = {
            "driver": _split(keys, made, words, lambda key: key.driver),
            "build": _split(keys, made, words, lambda key: key.build),
            "code path": _split(keys, made, words, lambda key: key.variant),
        }
        yield Standing(
            metric=words.text(metric),
            whole=whole,
            bytes_per_second=bytes_moved / whole.median,
            flops_per_second=flops / whole.median,
            parts={name: groups[:MOST_GROUPS] for name, groups in parts.items()},
            left_out={name: max(0, len(all_) - MOST_GROUPS) for name, all_ in parts.items()},
        )


def _split(
    keys: Iterable[_Key], made: _Gathered, words: _Words, part: Callable[[_Key], int]
) -> list[Group]:
    """The groups by one thing in which timings differ, those with most timings first."""
    by_part: dict[int, list[_Key]] = defaultdict(list)
    for key in keys:
        by_part[part(key)].append(key)
    groups = [_make_group(words.text(one) or "unknown", own, made) for one, own in by_part.items()]
    return sorted(groups, key=lambda group: (-group.count, group.name))


def _make_group(name: str, keys: Sequence[_Key], made: _Gathered) -> Group:
    values = array("d")
    for key in keys:
        values.extend(made.seconds[key])
    ordered = sorted(values)
    return Group(
        name=name,
        count=len(ordered),
        devices=len({key.device for key in keys}),
        shares=tuple(_take_share(ordered, share) for share in SHARES),
        best=ordered[0],
    )


def _take_share(ordered: Sequence[float], share: float) -> float:
    """The value below which a share of ordered values lies, between two of them if need be."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _list_apart(made: _Gathered, words: _Words) -> Iterator[SetApart]:
    for reason, (count, least, most) in sorted(made.apart.items()):
        files = [words.export(section, 0).file for section in made.apart_sections[reason]]
        names = [*dict.fromkeys(files)][:5]
        yield SetApart(reason=reason, count=count, least=least, most=most, files=names)


class _Words:
    """The texts and exports that an index names by numbers, of which it has few."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._texts: dict[int, str] = {}
        self._exports: dict[int, tuple[str, str, float]] = {}

    def text(self, number: int) -> str:
        """The text of a number."""
        if (known := self._texts.get(number)) is not None:
            return known
        [text] = self._index.query("SELECT text FROM word WHERE id = ?", (number,)).fetchone()
        self._texts[number] = text
        return str(text)

    def export(self, section: int, timings: int) -> Export:
        """A run of a file, of which a page shows so many timings."""
        if section not in self._exports:
            self._exports[section] = self._index.query(
                "SELECT file.name, key, made_at FROM section JOIN file ON file.id = section.file "
                "WHERE section.id = ?",
                (section,),
            ).fetchone()
        file, key, made_at = self._exports[section]
        return Export(file=file, key=key, made_at=made_at, timings=timings)
