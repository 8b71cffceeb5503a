"""The devices of the demonstration's lab: a recorded one, and simulated ones that follow from it.

A simulated device says so in its name. It moves and computes more slowly than the recorded one, has
fewer kinds of units, its own noise, and a deviation of its own for each case.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from vkbench.device import DeviceFacts, Environment, device_key
from vkbench_local.demo.recording import RecordedCase

MATRICES = ("coopmat", "coopmat_bf16", "coopmat_to_bf16", "coopmat_f16")
BYTES = ("int_dot", "via_q8_1")
ANY = ("subgroup", "portable")
RECORDED_BANDWIDTH = 4.38e12  # bytes a second
INTENSE = 30.0  # operations for each byte, above which arithmetic limits a launch


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A device of the lab, and how it differs from the recorded one."""

    host: str
    index: int = 0
    name: str = ""  # "" is the recorded device's
    type: str = "discrete"
    memory_bytes: int = 0  # 0: as the recorded device
    llc_bytes: int = 0
    subgroup_size: int = 32
    paths: Sequence[str] = (*MATRICES, *BYTES, *ANY)  # code paths that it has, the best first
    moving: float = 1.0  # times as long to move a byte
    computing: float = 1.0  # to compute
    launching: float = 0.0  # seconds more for each launch
    spread: float = 0.0  # deviation of cases from these, relative
    noise: float = 0.004  # of a night's median, relative
    driver: str = ""  # "" is the recorded device's
    versions: Mapping[int, str] = field(default_factory=dict)  # driver since a night

    def facts(self, recorded: DeviceFacts) -> DeviceFacts:
        """What the device says of itself."""
        uuid = f"{self.index:02x}" * 16 if self.name else recorded.uuid[:-2] + f"{self.index:02x}"
        identity = {"host": self.host, "index": self.index, "uuid": uuid}
        facts = replace(recorded, key=device_key(self.host, uuid), **identity)  # type: ignore[arg-type]
        if not self.name:
            return facts
        lacks = {"coopmat", "bf16"} if MATRICES[0] not in self.paths else set()
        return replace(
            facts,
            name=self.name,
            vendor_id=0,
            device_id=0,
            type=self.type,
            memory_bytes=self.memory_bytes,
            llc_bytes=self.llc_bytes,
            subgroup_size=self.subgroup_size,
            features=tuple(feature for feature in recorded.features if feature not in lacks),
        )

    def environment(self, recorded: Environment, night: int) -> Environment:
        """The software of a night."""
        version = self.version(night) or recorded.driver_version
        return replace(
            recorded,
            driver=self.driver or recorded.driver,
            driver_version=version,
            driver_info=version,
            cpu=recorded.cpu if not self.name else "simulated",
        )

    def version(self, night: int) -> str:
        """The driver's version; "" for the recorded one."""
        reached = [since for since in self.versions if since <= night]
        return self.versions[max(reached)] if reached else ""

    def is_new_driver(self, night: int) -> bool:
        """Whether the driver changed since the night before."""
        return night in self.versions

    def seconds(self, case: RecordedCase, seconds: float, own: float) -> float:
        """Seconds of a launch here that took so many on the recorded device.

        `own` is the case's deviation, from a standard normal distribution: no case is faster than
        the device's rates allow.
        """
        timing = case.timings[0]
        factor = self.moving
        if timing.flops > INTENSE * timing.bytes_moved:  # unless memory limits it here
            of_memory = timing.bytes_moved / RECORDED_BANDWIDTH / seconds
            factor = max(self.computing, self.moving * of_memory)
        spread = 0.0 if case.is_exact else self.spread
        return (seconds * factor + self.launching) * (1 + spread * min(2.0, abs(own)))

    def runs(self, cases: Sequence[RecordedCase]) -> RecordedCase | None:
        """The recording that `auto` would take here, of one case by several code paths."""
        able = [case for case in cases if (case.needs or case.variant) in self.paths]
        return min(
            able, key=lambda case: self.paths.index(case.needs or case.variant), default=None
        )


RACK, DESK, BENCH = "demo-rack", "demo-desk", "demo-bench"
MACHINES = (
    Machine(host=RACK, versions={12: "580.173-demo", 44: "590.18-demo"}),
    Machine(host=RACK, index=1, spread=0.002, versions={12: "580.173-demo", 44: "590.18-demo"}),
    Machine(
        host=DESK,
        name="Simulated desktop GPU, 24 GB",
        memory_bytes=24 << 30,
        llc_bytes=72 << 20,
        moving=4.6,
        computing=1.5,
        launching=0.4e-6,
        spread=0.06,
        noise=0.005,
        driver="Simulated",
        versions={0: "24.1.3", 19: "24.2.0", 40: "24.3.1"},
    ),
    Machine(
        host=DESK,
        index=1,
        name="Simulated compact GPU, 12 GB",
        memory_bytes=12 << 30,
        llc_bytes=32 << 20,
        paths=(*BYTES, *ANY),
        moving=14.0,
        computing=4.2,
        launching=0.8e-6,
        spread=0.09,
        noise=0.006,
        driver="Simulated",
        versions={0: "24.1.3", 19: "24.2.0"},
    ),
    Machine(
        host=BENCH,
        name="Simulated integrated GPU",
        type="integrated",
        memory_bytes=16 << 30,
        llc_bytes=8 << 20,
        subgroup_size=16,
        paths=ANY,
        moving=58.0,
        computing=24.0,
        launching=6e-6,
        spread=0.12,
        noise=0.009,
        driver="Simulated",
        versions={0: "31.0.101", 27: "31.0.108"},
    ),
)
DESKTOP, COMPACT, INTEGRATED = MACHINES[2:]
