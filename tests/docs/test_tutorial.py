"""The tutorial, typed by a script from an empty folder to a caught regression."""

from __future__ import annotations

from pathlib import Path

import pytest

from documented import shown
from typist import type_all

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.usefixtures("machine")
def test_the_tutorial_ends_with_a_caught_regression(tmp_path: Path) -> None:
    typed = type_all(shown(PAGE), tmp_path, 380, VKBENCH_DEVICE="llvmpipe*")
    assert [each.trouble for each in typed if each.trouble] == []
    assert len(typed) > 15
    listed = next(each for each in typed if each.shown.typed == "vkbench regressions ls")
    assert " times slower on " in listed.printed
    broken = next(each for each in typed if "--direction wrong" in each.shown.typed)
    assert " wrong on " in broken.printed
