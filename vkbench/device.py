"""What a device says of itself: facts of the hardware, and the environment that can change."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

NVIDIA: Final = 0x10DE  # a vendor's number
DRIVER_NAME: Final = "driver_name"  # what an environment's `extra` has of a driver that was added
DRIVER_SHA: Final = "driver_sha"  # first digits of the hash of its files
ICD: Final = "icd"  # what `extra` has of the loaded driver: the path of its manifest
ICD_LIBRARY: Final = "icd_library"  # first digits of the hash of its library
EVERY_DRIVER: Final = "*"  # as a driver: each that the hosts of the chosen devices have
MOST_ALIKE: Final = 64  # devices of one host that report one UUID, as far as keys are checked
# least and most threads of a subgroup that a pipeline may require, in limits; 0 where it may not
SUBGROUP_LIMITS: Final = ("min_subgroup_size", "max_subgroup_size")
_TIMES_THE_CACHE = 2  # reading twice its size replaces all that a cache holds


@dataclass(frozen=True, kw_only=True)
class DeviceFacts:
    """One physical (or software) device on one host."""

    key: str  # 12 hex digits, from host and UUID: the device's name in queues and tables
    host: str
    index: int  # position in the loader's list on that host
    name: str
    uuid: str  # hex
    vendor_id: int
    device_id: int
    type: str  # discrete | integrated | virtual | cpu | other
    memory_bytes: int  # largest device-local heap
    subgroup_size: int
    features: tuple[str, ...]  # the names that variants ask for, sorted
    limits: Mapping[str, int]  # those that decide what fits
    llc_bytes: int = 0  # last-level cache where known, else 0
    compute_units: int = 0  # multiprocessors, or threads of a CPU driver; 0 where it does not say


@dataclass(frozen=True, kw_only=True)
class Environment:
    """All software a measurement depends on; its hash tells two environments apart."""

    driver: str  # driver name, as the driver gives it
    driver_version: str
    driver_info: str
    api_version: str
    loader: str
    os: str
    os_kernel: str
    cpu: str
    vkbench: str
    clock_policy: str = "default"
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """SHA-256 over every field."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, kw_only=True)
class HostDriver:
    """A driver that a host's user added there."""

    name: str
    sha: str  # of its files


@dataclass(frozen=True, kw_only=True)
class DriverCopy:
    """A copy that a worker keeps of a driver that its host ran on."""

    name: str
    sha: str  # of its files
    library: str  # first digits of the hash of its library


@dataclass(frozen=True, kw_only=True)
class OwnDrivers:
    """The copies that a worker keeps of its host's own drivers, the newest last."""

    copies: tuple[DriverCopy, ...] = ()
    reason: str = ""  # why the driver that it runs on is not among them


def uncached_bytes(llc_bytes: int) -> int:
    """Bytes so many that a second read finds none in the cache; 0 if its size is unknown."""
    return _TIMES_THE_CACHE * llc_bytes


def device_key(host: str, uuid: str, ordinal: int = 0) -> str:
    """The key of a device; `ordinal` tells apart devices of one host that report one UUID."""
    return hashlib.sha256(f"{host}/{uuid}/{ordinal}".encode()).hexdigest()[:12]


def has_own_key(facts: DeviceFacts) -> bool:
    """Whether the key of a device is one that its host and its UUID give."""
    return any(
        facts.key == device_key(facts.host, facts.uuid, ordinal) for ordinal in range(MOST_ALIKE)
    )
