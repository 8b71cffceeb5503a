"""What a page of a board says: how fast a class of devices does a case, as labs measured it."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

from vkbench_detection.board.index import Index
from vkbench_detection.board.lines import Apart
from vkbench_detection.board.packing import APARTS, PackedKind, unpack_timings
from vkbench_detection.board.roofs import Measured, least_of, read_roofs
from vkbench_detection.board.words import Export, Words
from vkbench_detection.series.roofs import Roofs

SHARES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
MOST_GROUPS: Final = 30  # drivers, builds or code paths of a metric
MOST_EXPORTS: Final = 200  # that a page names
MOST_METRICS: Final = 6
PREFERRED: Final = ("cold", "hot")  # what a case's badge and its row in lists say
_ROWS: Final = """
SELECT page, section, kinds, places, seconds FROM bunch
WHERE page BETWEEN ? AND ? AND page IN (SELECT page FROM dirty)
  AND section NOT IN (SELECT id FROM section WHERE hidden)
ORDER BY page, section, id
"""
_PAGE: Final = """
SELECT class.id, class.name, case_name FROM page JOIN class ON class.id = page.class
WHERE page.id = ?
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

    def array_of(self, kind: PackedKind) -> array[float]:
        """The array for seconds of a kind that count; its amounts are its metric's if it is new."""
        key = _Key(kind.metric, kind.variant, kind.driver, kind.build, kind.device)
        if (values := self.seconds.get(key)) is None:
            values = self.seconds[key] = array("d")
            self.amounts[kind.metric] = (kind.bytes_moved, kind.flops)
        return values

    def set_apart(self, reason: Apart, section: int, seconds: float) -> None:
        """Count a timing that does not count, and remember its export."""
        count, least, most = self.apart.get(reason, (0, seconds, seconds))
        self.apart[reason] = (count + 1, min(least, seconds), max(most, seconds))
        self.apart_sections[reason].setdefault(section)


def read_pages(index: Index, first: int, last: int) -> Iterator[CasePage]:
    """The pages that changed since the last build, of these numbers, one at a time."""
    roofs, words = read_roofs(index), Words(index)
    rows: Iterable[Any] = index.query(_ROWS, (first, last))
    for page, group in groupby(rows, key=itemgetter(0)):
        class_number, class_name, case = index.query(_PAGE, (page,)).fetchone()
        gathered = _gather(group, case, roofs.get(class_number), words)
        exports = gathered.sections.most_common(MOST_EXPORTS)
        yield CasePage(
            page=page,
            device=class_name,
            case=case,
            standings=[*_make_standings(gathered, words)][:MOST_METRICS],
            apart=[*_list_apart(gathered, words)],
            exports=[words.export(section, count) for section, count in exports],
            export_count=len(gathered.sections),
            is_calibrated=class_number in roofs,
        )


def _gather(rows: Iterable[Any], case: str, roofs: Roofs | None, words: Words) -> _Gathered:
    made = _Gathered()
    floors: dict[tuple[int, ...], float] = {}  # seconds that a roof allows, by what it judges
    for _, section, packed, places, seconds in rows:
        kinds = words.kinds(section, packed)
        least = [_find_floor(case, kind, roofs, words, floors) for kind in kinds]
        arrays: list[array[float] | None] = [None] * len(kinds)
        for place, value in unpack_timings(places, seconds):
            made.sections[section] += 1
            kind = kinds[place]
            if kind.apart or value < least[place]:
                made.set_apart(APARTS[kind.apart] or Apart.BEYOND, section, value)
                continue
            if (values := arrays[place]) is None:
                values = arrays[place] = made.array_of(kind)
            values.append(value)
    return made


def _find_floor(
    case: str,
    kind: PackedKind,
    roofs: Roofs | None,
    words: Words,
    floors: dict[tuple[int, ...], float],
) -> float:
    """The seconds below which timings of a kind are beyond the roof; each is reckoned once."""
    if roofs is None or kind.apart:
        return 0.0
    judged = (kind.variant, kind.metric, kind.path, kind.bytes_moved, kind.flops)
    if (floor := floors.get(judged)) is None:
        floor = floors[judged] = least_of(
            Measured(
                case=case,
                variant=words.text(kind.variant),
                metric=words.text(kind.metric),
                path=words.text(kind.path),
                bytes_moved=kind.bytes_moved,
                flops=kind.flops,
            ),
            roofs,
        )
    return floor


def _make_standings(made: _Gathered, words: Words) -> Iterator[Standing]:
    by_metric: dict[int, list[_Key]] = defaultdict(list)
    for key in made.seconds:
        by_metric[key.metric].append(key)
    for metric, keys in sorted(by_metric.items(), key=lambda item: words.text(item[0])):
        whole = _make_group("all", keys, made)
        bytes_moved, flops = made.amounts[metric]
        numbers = {
            "driver": [key.driver for key in keys],
            "build": [key.build for key in keys],
            "code path": [key.variant for key in keys],
        }
        parts = {name: _split(keys, own, made, words, whole) for name, own in numbers.items()}
        yield Standing(
            metric=words.text(metric),
            whole=whole,
            bytes_per_second=bytes_moved / whole.median,
            flops_per_second=flops / whole.median,
            parts={name: groups[:MOST_GROUPS] for name, groups in parts.items()},
            left_out={name: max(0, len(all_) - MOST_GROUPS) for name, all_ in parts.items()},
        )


def _split(
    keys: Sequence[_Key], numbers: Sequence[int], made: _Gathered, words: Words, whole: Group
) -> list[Group]:
    """The groups of keys that have the same number, those with most timings first."""
    by_number: dict[int, list[_Key]] = defaultdict(list)
    for key, number in zip(keys, numbers, strict=True):
        by_number[number].append(key)
    if len(by_number) == 1:
        return [replace(whole, name=words.text(numbers[0]) or "unknown")]
    groups = [
        _make_group(words.text(number) or "unknown", own, made) for number, own in by_number.items()
    ]
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


def _list_apart(made: _Gathered, words: Words) -> Iterator[SetApart]:
    for reason, (count, least, most) in sorted(made.apart.items()):
        files = [words.export(section, 0).file for section in made.apart_sections[reason]]
        names = [*dict.fromkeys(files)][:5]
        yield SetApart(reason=reason, count=count, least=least, most=most, files=names)
