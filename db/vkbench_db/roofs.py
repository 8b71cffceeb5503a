"""How near a timing is to what its device can do at most, by the device's calibration.

Whichever needs longer at full rate, the bytes that a launch has to move or its operations, over
the time that it took. A launch whose buffers stay in a cache may go beyond 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, select

from vkbench_db import models

# arithmetic path -> field of Roofs: paths without one of their own are counted in singles
_PATHS = {"f16_accumulation": "fma_f16", "int8": "dot_i8"}
# code paths whose arithmetic is another one than their accuracy says
_VARIANTS = {"int_dot": "dot_i8", "pairs": "fma_f16"}

Place = tuple[int, str]  # device, hash of the environment


@dataclass(frozen=True, kw_only=True)
class Roofs:
    """What a device reaches; None where that was not measured."""

    read_bytes: float | None = None  # a second, as are all of these
    copy_bytes: float | None = None
    fma_f32: float | None = None
    fma_f16: float | None = None
    dot_i8: float | None = None
    matrices: Mapping[str, float] = field(default_factory=dict)  # by formats: f16_f32

    @property
    def bandwidth(self) -> float | None:
        """Bytes a second to and from memory."""
        return max(filter(None, (self.read_bytes, self.copy_bytes)), default=None)

    def peak(self, path: str, variant: str = "") -> float | None:
        """Operations a second of an arithmetic path, as a code path does it."""
        if variant in self.matrices:
            return self.matrices[variant]
        name = _VARIANTS.get(variant) or _PATHS.get(path, "fma_f32")
        found: float | None = getattr(self, name)
        return found


def roof_fraction(
    *,
    bytes_moved: int,
    flops: int,
    seconds: float,
    path: str,
    variant: str = "",
    calibration: Roofs | None,
) -> float | None:
    """The share of the roof; None where there is no calibration that says anything."""
    if calibration is None or seconds <= 0:
        return None
    rates = ((bytes_moved, calibration.bandwidth), (flops, calibration.peak(path, variant)))
    least = max((amount / rate for amount, rate in rates if rate), default=0.0)
    return least / seconds if least else None


def newest(tx: Connection, places: Iterable[Place]) -> dict[Place, Roofs]:
    """The last calibration of each device and environment, where there is one."""
    table = models.Calibration
    found = {}
    for device, environment in sorted(set(places)):
        row = tx.execute(
            select(
                *(table.read_bytes, table.copy_bytes, table.fma_f32, table.fma_f16),
                *(table.dot_i8, table.matrices),
            )
            .where(table.device_id == device, table.environment == environment)
            .order_by(table.measured_at.desc(), table.id.desc())
            .limit(1)
        ).first()
        if row:
            found[device, environment] = Roofs(**row._mapping)
    return found
