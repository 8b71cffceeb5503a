"""Which facts of an environment are named as what moved."""

from __future__ import annotations

from typing import Any

from vkbench.software import list_moved, name_arrivals

BOARD = {"power_cap": "300 W", "icd": "/a"}
KNOWN: dict[str, Any] = {"driver_version": "550.1", "vkbench": "1", "extra": BOARD}


def words(before: Any, after: Any) -> list[str]:
    return [moved.words for moved in list_moved(before, after)]


def test_a_setting_of_the_host_is_named_with_both_values() -> None:
    capped = {**KNOWN, "extra": {**BOARD, "power_cap": "250 W"}}
    assert words(KNOWN, capped) == ["power cap 300 W → 250 W"]
    assert [moved.is_set for moved in list_moved(KNOWN, capped)] == [True]


def test_files_and_firmware_that_come_with_a_driver_are_no_news_of_their_own() -> None:
    extra = {"icd": "/a", "icd_library": "1" * 12, "firmware": "550.1", "layers": "none"}
    before = {**KNOWN, "extra": extra}
    newer = {**extra, "icd_library": "2" * 12, "firmware": "551.2"}
    assert words(before, {**KNOWN, "driver_version": "551.2", "extra": newer}) == [
        "driver 550.1 → 551.2"
    ]
    assert words(before, {**KNOWN, "extra": {**extra, "icd_library": "2" * 12}}) == [
        f"driver library {'1' * 12} → {'2' * 12}"
    ]


def test_what_an_earlier_version_did_not_record_has_not_moved() -> None:
    unknown = {**KNOWN, "vkbench": "0", "extra": {"driver_name": "mine"}}
    assert words(unknown, KNOWN) == ["driver name mine → none", "vkbench 0 → 1"]


def test_a_title_names_what_is_new_in_plain_words_and_a_version_once() -> None:
    info = {"driver_version": "550.1", "driver_info": "Mesa 550.1 (LLVM 19)", "os_kernel": "6.1"}
    newer = {"driver_version": "551.2", "driver_info": "Mesa 551.2 (LLVM 19)", "os_kernel": "6.2"}
    assert name_arrivals(list_moved(info, newer)) == ["driver 551.2", "system kernel 6.2"]
    rebuilt = {**info, "driver_info": "Mesa 550.1 (LLVM 20)"}
    assert name_arrivals(list_moved(info, rebuilt)) == ["driver info Mesa 550.1 (LLVM 20)"]
    assert name_arrivals(list_moved(KNOWN, {**KNOWN, "extra": {**BOARD, "power_cap": "1 W"}})) == [
        "power cap 300 W → 1 W"
    ]
