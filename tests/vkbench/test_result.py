"""Samples travel packed and come back as float32 holds them."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest

from vkbench.result import WrongArm, pack_samples, unpack_samples


def test_samples_come_back() -> None:
    samples = np.geomspace(1e-9, 10.0, 1000).astype(np.float32).tolist()
    assert unpack_samples(pack_samples(samples)) == samples
    assert unpack_samples(pack_samples([])) == []


def test_packing_is_little_endian() -> None:
    raw = zlib.decompress(base64.b64decode(pack_samples([1.0, -2.0])))
    assert np.frombuffer(raw, "<f4").tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    ("arms", "is_old", "is_new"),
    [
        ([], False, False),
        (["old"], True, False),
        (["new"], False, True),
        (["old", "new"], True, True),
    ],
)
def test_a_wrong_arm_says_which_outputs_are_wrong(
    arms: list[str], is_old: bool, is_new: bool
) -> None:
    wrong = WrongArm.of(arms)
    assert (wrong.is_old, wrong.is_new) == (is_old, is_new)
