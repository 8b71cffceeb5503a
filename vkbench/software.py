"""What moved between two environments, by name: the likely causes when no kernel changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Facts: TypeAlias = Mapping[str, Any]  # the fields of a `vkbench.device.Environment`
# What an environment records where a host tells: one without it says nothing of what it was.
_TOLD: Final = ("icd", "icd_library", "layers", "power_cap", "resizable_bar", "vbios")
_DRIVER: Final = ("driver", "driver_version", "driver_info")
_FILES: Final = ("driver_sha", "icd_library")  # digits of hashes of a driver's files
_FIRMWARE: Final = "firmware"  # of AMD's, a name for each processor: firmware_smc
_VERSIONS: Final = ("driver_version", "driver_info", "driver_sha")  # new ones come with new files
_MOST_SHOWN: Final = 60  # characters of a value
_PLAIN_NAMES: Final = {
    "driver_version": "driver",
    "driver_sha": "driver files",
    "api_version": "Vulkan",
    "os": "system",
    "os_kernel": "system kernel",
    "cpu": "CPU",
    "icd": "driver manifest",
    "icd_library": "driver library",
}  # of facts; of the others, their own with blanks


@dataclass(frozen=True, kw_only=True)
class Moved:
    """A fact of an environment that is not what it was."""

    name: str
    before: str  # "" where there was none
    after: str  # "" where there is none any more

    @property
    def is_set(self) -> bool:
        """Whether it is a setting or a file of the host, and no version of software."""
        return _is_told(self.name)

    @property
    def plain_name(self) -> str:
        """What people call the fact: driver, power cap."""
        return _PLAIN_NAMES.get(self.name, self.name.replace("_", " "))

    @property
    def words(self) -> str:
        """Both values, as people read them: power cap 300 W → 250 W."""
        before, after = (_shorten(value) or "none" for value in (self.before, self.after))
        return f"{self.plain_name} {before} → {after}"


def list_moved(before: Facts, after: Facts) -> list[Moved]:
    """What differs, by name; without files and firmware that are no news beside a new driver."""
    old, new = _flatten(before), _flatten(after)
    moved = [
        Moved(name=name, before=old.get(name, ""), after=new.get(name, ""))
        for name in sorted(old | new)
        if old.get(name) != new.get(name)
        and not (_is_told(name) and (name not in old or name not in new))
    ]
    names = {fact.name for fact in moved}
    return [fact for fact in moved if not _comes_with_driver(fact, names, new)]


def name_drivers(before: Facts, after: Facts) -> tuple[str, str] | None:
    """What people call the drivers of two environments, told apart; None where it is one driver.

    Two builds of one version have digits of their files' hashes.
    """
    sides = [_flatten(facts) for facts in (before, after)]
    moved = {fact.name for fact in list_moved(before, after)}
    if not moved & {*_DRIVER, *_FILES}:
        return None
    old, new = map(_name_driver, sides)
    if old == new:
        old, new = (
            f"{name} ({digits})" if (digits := _pick_digits(side)) else name
            for name, side in zip((old, new), sides, strict=True)
        )
    return old, new


def _name_driver(facts: Mapping[str, str]) -> str:
    own = " ".join(filter(None, (facts.get("driver"), facts.get("driver_version"))))
    return facts.get("driver_name") or own or "unknown"


def _pick_digits(facts: Mapping[str, str]) -> str:
    return next((facts[name] for name in _FILES if facts.get(name)), "")


def name_arrivals(moved: Sequence[Moved]) -> list[str]:
    """What is there since, as a title says it: driver 550.1; a driver's version only once."""
    version = next((one.after for one in moved if one.name == "driver_version"), "")
    return [
        one.words if one.is_set else f"{one.plain_name} {_shorten(one.after) or 'gone'}"
        for one in moved
        if not (one.name == "driver_info" and version and version in one.after)
    ]


def _comes_with_driver(moved: Moved, names: set[str], new: Mapping[str, str]) -> bool:
    if not names & set(_VERSIONS):
        return False
    is_same = moved.name == _FIRMWARE and moved.after == new.get("driver_version")
    return moved.name in ("icd", "icd_library") or is_same


def _is_told(name: str) -> bool:
    return name in _TOLD or name.startswith(_FIRMWARE)


def _flatten(facts: Facts) -> dict[str, str]:
    plain = {name: str(value) for name, value in facts.items() if name != "extra"}
    return plain | {name: str(value) for name, value in (facts.get("extra") or {}).items()}


def _shorten(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[: _MOST_SHOWN - 1]}…"
