"""Choosing one device among several."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vkbench.device import DeviceFacts, device_key
from vkbench.errors import UnknownName, UsageError
from vkbench_worker.runtime.null import NullDevice
from vkbench_worker.runtime.physical import select


def facts(index: int, name: str, kind: str, uuid: str) -> DeviceFacts:
    key = device_key("host", uuid, index)
    return replace(NullDevice().facts, index=index, name=name, type=kind, uuid=uuid, key=key)


CPU = facts(0, "llvmpipe (LLVM 15.0.6, 256 bits)", "cpu", "6d657361" + "0" * 24)
FIRST = facts(1, "NVIDIA H200", "discrete", "ab" * 16)
SECOND = facts(2, "NVIDIA H200", "discrete", "cd" * 16)
ALL = [CPU, FIRST, SECOND]


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ("0", CPU),
        ("2", SECOND),
        ("LLVM", CPU),
        ("cdcdcdcd-cdcd-cdcd-cdcd-cdcdcdcdcdcd", SECOND),
        ("AB" * 16, FIRST),
        (FIRST.key, FIRST),
        ("", FIRST),
    ],
)
def test_a_selector_chooses_one(selector: str, chosen: DeviceFacts) -> None:
    assert select(ALL, selector) is chosen


def test_what_fits_several_is_refused_with_their_numbers() -> None:
    with pytest.raises(UsageError, match=r"fits several: 1 \(NVIDIA H200, .*2 \(NVIDIA H200"):
        select(ALL, "h200")


def test_what_fits_none_is_refused_with_what_there_is() -> None:
    with pytest.raises(UnknownName, match="did you mean 'llvmpipe"):
        select([CPU], "radeon")
