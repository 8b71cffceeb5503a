"""How the cases of an exported tuning table were measured, from the sweeps that found them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from itertools import groupby

from sqlalchemy import Connection

from vkbench.configuration import variant_of
from vkbench.device import DeviceFacts
from vkbench.errors import VkbenchError
from vkbench_db.upkeep.tuning import TunedRow, trials
from vkbench_detection.series.calibrations import Reached
from vkbench_detection.tune.winners import Timed, standings
from vkbench_shaders.bundle import Bundle, packaged, unit_of
from vkbench_shaders.catalogue import problem
from vkbench_shaders.tuning.evidence import Evidence, Proof, Reach, Rounds


def gather_evidence(
    tx: Connection,
    rows: Sequence[TunedRow],
    facts: Mapping[str, DeviceFacts],
    reached: Mapping[str, Reached],
) -> tuple[Evidence, ...]:
    """What is known of each device and driver that findings or a calibration are from."""
    by_place: dict[tuple[str, str, str], list[TunedRow]] = {
        (each.device, each.driver or "", each.driver_version or ""): [] for each in reached.values()
    }
    for row in rows:
        by_place.setdefault((row.device, row.driver, row.driver_version), []).append(row)
    return tuple(
        Evidence(
            device=replace(facts[device], host="", key="", uuid="", index=0),
            driver=driver,
            driver_version=version,
            reach=_take_reach(reached.get(device)),
            proofs=tuple(_prove_cases(tx, of_device)),
        )
        for (device, driver, version), of_device in sorted(by_place.items())
    )


def hash_code(case: str, configurations: Iterable[str], bundle: Bundle) -> str:
    """The hash of the SPIR-V that configurations of a case run; "" if a bundle lacks some."""
    try:
        posed = problem(case)
        variants = [posed.kernel.variant(name) for name in map(variant_of, configurations)]
    except VkbenchError:  # of another version's catalogue
        return ""
    units = {
        unit_of(stage, posed.types).key
        for variant in variants
        for stage in variant.stages_for(posed.types)
    }
    if not units <= bundle.entries.keys():
        return ""
    codes = " ".join(bundle.entries[key].sha256 for key in sorted(units))
    return hashlib.sha256(codes.encode()).hexdigest()


def _prove_cases(tx: Connection, rows: Sequence[TunedRow]) -> Iterator[Proof]:
    for run, of_run in groupby(sorted(rows, key=lambda row: row.run), key=lambda row: row.run):
        jobs = trials(tx, run)
        by_place = standings(jobs)
        bundles = {(job.device, job.case): job.bundle for job in jobs if job.bundle}
        for row in of_run:
            place = (row.device, row.case)
            by_name = {timed.configuration: timed for timed in by_place[place].timed}
            bundle, both = bundles.get(place, ""), (row.estimated, row.configuration)
            is_here = bundle == packaged().sha
            yield Proof(
                case=row.case,
                bundle=bundle,
                code=hash_code(row.case, both, packaged()) if is_here else "",
                estimated=_take_rounds(by_name[row.estimated]),
                fastest=_take_rounds(by_name[row.configuration]),
                unfit={name: timed.reason for name, timed in by_name.items() if timed.reason},
            )


def _take_rounds(timed: Timed) -> Rounds:
    return Rounds(
        configuration=timed.configuration, seconds=timed.seconds, low=timed.low, high=timed.high
    )


def _take_reach(reached: Reached | None) -> Reach | None:
    if reached is None:
        return None
    return Reach(**{field.name: getattr(reached, field.name) for field in fields(Reach)})
