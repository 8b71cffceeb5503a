"""What a class of devices can reach, by all calibrations among the exports of a board."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import median
from typing import Final

import msgspec

from vkbench import decoding
from vkbench.case import parse
from vkbench.configuration import variant_of
from vkbench.errors import UsageError
from vkbench_detection.board.index import Index
from vkbench_detection.board.packing import unpack_timings
from vkbench_detection.board.words import Words
from vkbench_detection.series.calibrations import name_rates
from vkbench_detection.series.impossible import MARGIN, least_seconds
from vkbench_detection.series.roofs import RoofLoad, Roofs, numbers_of

_KERNELS: Final = ("read_bandwidth", "copy", "fma", "dot_i8", "matrix_rate")
# Bytes or operations a second. Larger rates could have an infinite sum, which JSON cannot tell.
_MOST_RATE: Final = 1e30
_BUNCHES: Final = """
SELECT page.class, page.case_name, section, kinds, places, seconds
FROM bunch JOIN page ON page.id = bunch.page
WHERE page IN (SELECT id FROM page WHERE {kernels})
  AND section NOT IN (SELECT id FROM section WHERE hidden)
"""


def settle_roofs(index: Index) -> None:
    """Store the roofs of each class; pages of a class whose roofs moved are written again."""
    made = {
        class_number: msgspec.json.encode(asdict(roofs)).decode()
        for class_number, roofs in _find_roofs(index)
    }
    rows = index.query("SELECT id, roofs FROM class").fetchall()
    moved = [
        (made.get(class_number, ""), class_number)
        for class_number, kept in rows
        if kept != made.get(class_number, "")
    ]
    index.write("UPDATE class SET roofs = ? WHERE id = ?", moved)
    index.write(
        "INSERT OR IGNORE INTO dirty SELECT id FROM page WHERE class = ?",
        [(class_number,) for _, class_number in moved],
    )


def _find_roofs(index: Index) -> list[tuple[int, Roofs]]:
    """The roofs of each class that was calibrated: the median device's, rate by rate.

    So one lab's wrong calibration neither lifts nor lowers the roof for all others.
    """
    by_device: dict[tuple[int, int], dict[tuple[str, str], float]] = {}
    for (class_number, device, case, variant), rate in _find_rates(index).items():
        kept = by_device.setdefault((class_number, device), {})
        key = (case.partition("/")[0], variant_of(variant))
        kept[key] = max(kept.get(key, 0.0), rate)
    caches = dict[int, tuple[int, bool]](
        (device, (llc_bytes, bool(is_cpu)))
        for device, llc_bytes, is_cpu in index.query("SELECT id, llc_bytes, is_cpu FROM device")
    )
    facts: dict[int, list[tuple[int, bool]]] = defaultdict(list)
    for class_number, device in by_device:
        facts[class_number].append(caches[device])
    rates: dict[int, dict[tuple[str, str], list[float]]] = defaultdict(lambda: defaultdict(list))
    for (class_number, _), own in by_device.items():
        for key, rate in own.items():
            rates[class_number][key].append(rate)
    return [
        (class_number, _make_roofs(rates[class_number], facts[class_number]))
        for class_number in rates
    ]


def _find_rates(index: Index) -> dict[tuple[int, int, str, str], float]:
    """The greatest rate of each class, device, case and code path, of those that have one."""
    words, rates = Words(index), dict[tuple[int, int, str, str], float]()
    kernels = " OR ".join(f"case_name LIKE '{kernel}/%'" for kernel in _KERNELS)
    rows = index.query(_BUNCHES.format(kernels=kernels))
    for class_number, case, section, packed, places, seconds in rows:
        kinds = words.kinds(section, packed)
        for place, value in unpack_timings(places, seconds):
            kind = kinds[place]
            is_hot = words.text(kind.metric) == "hot"
            amount = kind.flops if is_hot else 0 if kind.flops else kind.bytes_moved
            if amount and not kind.apart and (rate := amount / value) <= _MOST_RATE:
                key = (class_number, kind.device, case, words.text(kind.variant))
                rates[key] = max(rates.get(key, 0.0), rate)
    return rates


def _make_roofs(
    rates: Mapping[tuple[str, str], list[float]], facts: list[tuple[int, bool]]
) -> Roofs:
    middle = {key: median(values) for key, values in rates.items()}
    return Roofs(
        **name_rates(middle),
        llc_bytes=max(llc for llc, _ in facts),
        is_cpu=any(is_cpu for _, is_cpu in facts),
    )


def read_roofs(index: Index) -> dict[int, Roofs]:
    """The roofs of each class that has some."""
    rows = index.query("SELECT id, roofs FROM class WHERE roofs <> ''")
    return {class_number: decoding.decode(text, Roofs) for class_number, text in rows}


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What timings have in common that one roof judges."""

    case: str
    variant: str
    metric: str
    path: str  # arithmetic; other programs' have none, and are not judged
    bytes_moved: int
    flops: int


def least_of(measured: Measured, roofs: Roofs) -> float:
    """The seconds below which a timing is beyond the roof; 0 where nothing is."""
    if not measured.path:
        return 0.0
    kernel, numbers = _describe(measured.case)
    load = RoofLoad(
        bytes_moved=measured.bytes_moved,
        flops=measured.flops,
        numbers=numbers,
        path=measured.path,
        variant=variant_of(measured.variant),
        is_cold=measured.metric == "cold",
        kernel=kernel,
    )
    return least_seconds(load, roofs) / MARGIN


@lru_cache(maxsize=1000)
def _describe(case: str) -> tuple[str, str]:
    """The kernel of a case, and the numbers that it multiplies."""
    try:
        parsed = parse(case)
    except UsageError:
        return case.partition("/")[0], ""
    types = ",".join(f"{name}={kind}" for name, kind in sorted(parsed.types.items()))
    return parsed.kernel, numbers_of(parsed.format, types)
