"""Samples travel packed and come back as float32 holds them."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest

from vkbench.result import pack_samples, unpack_samples, wrong_arms, wrong_reason


def test_samples_come_back() -> None:
    samples = np.geomspace(1e-9, 10.0, 1000).astype(np.float32).tolist()
    assert unpack_samples(pack_samples(samples)) == samples
    assert unpack_samples(pack_samples([])) == []


def test_packing_is_little_endian() -> None:
    raw = zlib.decompress(base64.b64decode(pack_samples([1.0, -2.0])))
    assert np.frombuffer(raw, "<f4").tolist() == [1.0, -2.0]


@pytest.mark.parametrize(
    "arms",
    [
        {"old": "NMSE 1e-2 over its limit"},
        {"new": "16 elements were not written"},
        {"old": "a: b", "new": "c; d"},
    ],
)
def test_a_paired_jobs_reason_says_which_arm_is_wrong(arms: dict[str, str]) -> None:
    assert wrong_arms(wrong_reason(arms)) == arms


def test_reasons_of_other_jobs_blame_no_arm() -> None:
    assert wrong_arms("NMSE over its limit; new: x") == {}
