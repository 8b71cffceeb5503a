"""Names match whatever their case; an unknown one brings its neighbours."""

from __future__ import annotations

import pytest

from vkbench.errors import UnknownName
from vkbench.words import names

KNOWN = ("q4_0", "q4_K", "q8_0", "IQ2_xxs")


@pytest.mark.parametrize("typed", ["q4_k", "Q4_K", "q4_K"])
def test_pick_whatever_the_case(typed: str) -> None:
    assert names.pick(typed, KNOWN, "format") == "q4_K"


def test_pick_prefers_the_name_as_it_was_asked() -> None:
    assert names.pick("q4_K", ("Q4_K", "q4_K"), "format") == "q4_K"


def test_pick_unknown() -> None:
    with pytest.raises(UnknownName, match="unknown format 'q4_1'; did you mean") as caught:
        names.pick("q4_1", KNOWN, "format")
    assert "q4_0" in caught.value.near


def test_pick_tells_all_of_a_few_where_none_is_near() -> None:
    complaint = "^unknown format 'zzz'; there is 'q4_0', 'q4_K', 'q8_0' or 'IQ2_xxs'$"
    with pytest.raises(UnknownName, match=complaint):
        names.pick("zzz", KNOWN, "format")
    with pytest.raises(UnknownName, match=r"^unknown format 'zzz'; `vkbench kernels --grid` lists"):
        names.pick("zzz", map(str, range(13)), "format")


def test_matching_keeps_the_order_of_the_known() -> None:
    assert names.matching("Q*_0", KNOWN, "format") == ["q4_0", "q8_0"]
    assert names.matching("*", iter(KNOWN), "format") == list(KNOWN)


def test_matching_nothing() -> None:
    with pytest.raises(UnknownName, match="unknown format 'z\\*'"):
        names.matching("z*", KNOWN, "format")


def test_nearest_keeps_spelling_and_is_bounded() -> None:
    assert names.nearest("iq2_xs", KNOWN) == ("IQ2_xxs",)
    assert len(names.nearest("q4_0", KNOWN, most=2)) == 2
    assert names.nearest("nothing like it", KNOWN) == ()


def test_texts_with_commas_stand_between_semicolons() -> None:
    assert names.join_items([]) == ""
    assert names.join_items(["a1 first", "b2 second"]) == "a1 first, b2 second"
    assert names.join_items(["a1 first, with changes", "b2"]) == "a1 first, with changes; b2"
