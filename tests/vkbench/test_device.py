"""Device keys and environment hashes tell apart what they should."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from planted_runs import ENVIRONMENT
from vkbench.device import Environment, device_key


def test_keys_are_stable_and_short() -> None:
    assert device_key("host", "00ff") == device_key("host", "00ff", 0) == "0748806270b4"


def test_keys_tell_hosts_devices_and_twins_apart() -> None:
    keys = {
        device_key("a", "1"),
        device_key("b", "1"),
        device_key("a", "2"),
        device_key("a", "1", 1),
    }
    assert len(keys) == 4


@pytest.mark.parametrize("name", [f.name for f in fields(Environment) if f.name != "extra"])
def test_every_field_counts_in_the_hash(name: str) -> None:
    changed: dict[str, Any] = {name: "other"}
    assert replace(ENVIRONMENT, **changed).hash != ENVIRONMENT.hash


def test_the_order_of_extras_does_not_count() -> None:
    one = replace(ENVIRONMENT, extra={"a": "1", "b": "2"})
    two = replace(ENVIRONMENT, extra={"b": "2", "a": "1"})
    assert one.hash == two.hash != ENVIRONMENT.hash
