"""The devices of made-up results, and what tells how they are: calibrations and canaries."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Final

from vkbench.messages.wire import to_builtins
from vkbench_db.demonstration import MARK
from vkbench_local.demo.lab import MACHINES
from vkbench_local.demo.recording import load

DAY: Final = 86_400
DEVICES: Final = 4
CANARIES: Final = 60  # of a device in a night: one before each batch of jobs
CANARY_PAUSE: Final = 150  # seconds


def make_devices(seen: str) -> Iterator[str]:
    """Hosts, devices that were seen at a moment, and the environments of both halves."""
    recording, sha = load(), bundle_sha("1")
    machines = [machine.facts(recording.device) for machine in MACHINES[:DEVICES]]
    hosts = list(dict.fromkeys([MARK, *(facts.host for facts in machines)]))
    for number, host in enumerate(hosts, 1):
        yield f"INSERT INTO host (id, name) VALUES ({number}, '{host}')"
    for number, facts in enumerate(machines, 1):
        values = f"{number}, '{facts.key}', {hosts.index(facts.host) + 1}, '{facts.name}'"
        facts_json = json.dumps(to_builtins(facts))
        yield (
            "INSERT INTO device (id, key, host_id, name, facts, paused, worker, bundle,"
            " environment, last_run, last_seen)"
            f" VALUES ({values}, '{facts_json}', false, '', '{sha}', '{sha}', 0, {seen})"
        )
    for digit in range(2):
        facts = json.dumps(asdict(recording.environment))
        yield (
            "INSERT INTO environment (hash, driver, driver_version, facts) VALUES"
            f" ('{bundle_sha(str(digit))}', 'driver', '{digit}', '{facts}')"
        )


def make_calibrations(moment: str) -> Iterator[str]:
    """One of each device and environment, so that there are roofs."""
    rates = "4.2e12, 3.8e12, 6.4e13, 1.2e14, 2.5e14"
    matrices = json.dumps({"f16_f32": 6.4e14, "bf16_f32": 6.4e14, "i8_i32": 1.3e15})
    for number in range(2 * DEVICES):
        environment = bundle_sha(str(number // DEVICES))
        yield (
            "INSERT INTO calibration (device_id, environment, measured_at, run_id, read_bytes,"
            " copy_bytes, fma_f32, fma_f16, dot_i8, matrices, launch_seconds, tick_seconds, noise)"
            f" VALUES ({number % DEVICES + 1}, '{environment}', {moment},"
            f" {number + 1}, {rates}, '{matrices}', 2e-6, 1e-9, 0.004)"
        )


def make_canaries(numbers: Callable[[int], str], moment: Callable[[str], str], nights: int) -> str:
    """The statement that stores canaries of each night; the last one, of one device, is off."""
    a_night = DEVICES * CANARIES
    total = nights * a_night
    night, place = f"(i / {a_night})", f"(i % {a_night} / {DEVICES})"
    measured_at = moment(f"{night} * {DAY} + {place} * {CANARY_PAUSE}")
    return (
        "INSERT INTO canary (id, device_id, environment, measured_at, seconds, deviation, is_off)"
        f" SELECT i + 1, i % {DEVICES} + 1,"
        f" CASE WHEN {night} < {nights // 2} THEN '{bundle_sha('0')}'"
        f" ELSE '{bundle_sha('1')}' END, {measured_at}, 1e-4 * (1 + 0.001 * (i % 97) / 97),"
        f" CASE i WHEN {total - 1} THEN 7.5 ELSE (i % 97) / 97.0 END, i = {total - 1}"
        f" FROM {numbers(total)}"
    )


def bundle_sha(digit: str) -> str:
    """A hash that is easy to say."""
    return digit * 64
