"""Threads that decode at the same time do so without harm."""

from __future__ import annotations

import subprocess
import sys

MEETING = """
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import make_dataclass
from threading import Barrier

from vkbench import decoding

sys.setswitchinterval(1e-6)
together = Barrier(4)


def decode(kind):
    together.wait()
    return decoding.decode('{"inner": {"field_7": 1}}', kind).inner.field_7


def convert(kind):
    together.wait()
    return decoding.convert({"inner": {"field_7": 1}}, kind).inner.field_7


with ThreadPoolExecutor(4) as pool:
    for _ in range(100):
        inner = make_dataclass("Inner", [(f"field_{n}", int, 0) for n in range(40)])
        outer = make_dataclass("Outer", [("inner", inner)])
        futures = [pool.submit(way, outer) for way in (decode, convert) * 2]
        assert [future.result() for future in futures] == [1] * 4
"""


def test_threads_meet_a_type_at_the_same_time() -> None:
    """In a process of its own, which msgspec ends if it lists the fields in two threads."""
    subprocess.run([sys.executable, "-c", MEETING], check=True, timeout=100)
