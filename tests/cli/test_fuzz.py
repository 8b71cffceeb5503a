"""Arrays in npz files, selectors and names of cases: understood, or refused in a sentence."""

from __future__ import annotations

import io
from contextlib import suppress
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import planted_runner
from fuzz import damaged, fuzz, understood_or
from vkbench import case
from vkbench.errors import VkbenchError
from vkbench.selector import choose
from vkbench_cli.arrays import read_arrays


def test_npz_files(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, a=np.arange(6.0).reshape(2, 3), b=np.zeros(5, np.uint8))
    path = tmp_path / "arrays.npz"

    @fuzz
    @given(damaged(buffer.getvalue()) | st.binary(max_size=64))
    def check(data: bytes) -> None:
        path.write_bytes(data)
        with understood_or():
            read_arrays(path)

    check()


def test_selectors() -> None:
    known = [planted_runner.facts(name) for name in ("a", "b", "NVIDIA H200")]
    words = [known[0].key, known[0].host, "planted", "*", "?", "[a-", "/0", ":", ",", "host:", "²"]
    parts = st.lists(st.sampled_from(words) | st.text(max_size=4), max_size=6).map("".join)

    @fuzz
    @given(st.lists(parts, max_size=3), st.text(max_size=4))
    def check(selectors: list[str], here: str) -> None:
        with suppress(VkbenchError):  # what is quoted may have lines
            assert choose(selectors, known, here)

    check()


def test_names_of_cases() -> None:
    words = ["mul_mat", "/", "q4_0", "m1", "_", "k", "²", "=", "y=f16", ":", "9" * 30, "-", ","]
    names = st.lists(st.sampled_from(words) | st.text(max_size=3), max_size=9).map("".join)

    @fuzz
    @given(names)
    def check(name: str) -> None:
        try:
            parsed = case.parse(name)
        except VkbenchError:
            return
        assert case.parse(parsed.name) == parsed

    check()
