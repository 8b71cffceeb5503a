"""What a line of an import may hold: hashes that are true, and values within `vkbench.bounds`.

A database takes an import's word for much that commands then print and compare: whatever a file
holds that would not do is named with its line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from vkbench.bounds import UNSHOWN, complaints
from vkbench.device import DeviceFacts, Environment, has_own_key
from vkbench.programs.build import Build, NoBuild, check_build
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer.lines import BundleLine, EnvironmentLine, RunLine


def check_record(number: int, record: object) -> object:
    """A line's record as a database may hold it; ImportRefused says what is wrong with it.

    What a person wrote about a run has its control characters replaced.
    """
    if isinstance(record, RunLine):
        user, label = UNSHOWN.sub("?", record.user), UNSHOWN.sub("?", record.label)
        record = replace(record, user=user, label=label)
    _check_name(number, record)
    for complaint in complaints(record):
        raise _refusal(number, complaint)
    return record


def _check_name(number: int, record: object) -> None:
    """Whether a record is what its hash or key names, so that none passes for another."""
    if isinstance(record, BundleLine):
        if hashlib.sha256(record.manifest.encode()).hexdigest() != record.sha:
            raise _refusal(number, "the manifest is not the one that its hash names")
    elif isinstance(record, Build):
        _check_files(number, record)
    elif isinstance(record, EnvironmentLine) and record.hash not in _hashes(record.facts):
        raise _refusal(number, "the facts are not those that their hash names")
    elif isinstance(record, DeviceFacts) and not has_own_key(record):
        raise _refusal(number, f"the key {record.key!a} is not one of the device's host and UUID")


def _check_files(number: int, build: Build) -> None:
    try:
        check_build(build)
    except NoBuild as error:
        raise _refusal(number, str(error)) from error


def _refusal(number: int, complaint: str) -> ImportRefused:
    return ImportRefused(f"line {number}: {complaint}")


def _hashes(facts: Environment) -> Iterator[str]:
    """The hashes that facts may have: today's, and that of versions that did not know a field."""
    known_facts: dict[str, Any] = asdict(facts)
    yield facts.hash
    for name, default in (("extra", {}), ("clock_policy", "default")):
        if known_facts[name] == default:
            del known_facts[name]
            yield hashlib.sha256(json.dumps(known_facts, sort_keys=True).encode()).hexdigest()
