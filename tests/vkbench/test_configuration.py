"""Names of configurations: read back as they were written, or refused."""

from __future__ import annotations

import pytest

from vkbench.configuration import Configuration, is_divided, parse, text_of, variant_of
from vkbench.errors import UsageError


@pytest.mark.parametrize("name", ["portable", "portable:split=2,tile=64x64_8x8", "auto"])
def test_a_name_is_read_back(name: str) -> None:
    assert parse(name).name == name


def test_settings_are_numbers_where_they_can_be_and_sorted() -> None:
    configuration = Configuration(variant="int_dot", settings={"tile": "64x64", "threads": 512})
    assert configuration.name == "int_dot:threads=512,tile=64x64"
    assert parse(configuration.name) == configuration
    assert text_of(configuration.settings) == "threads=512,tile=64x64"
    assert variant_of(configuration.name) == "int_dot"


def test_shards_are_told_from_settings() -> None:
    assert is_divided("portable:shards=2,tile=64x64")
    assert not is_divided("portable:tile=64x64")


@pytest.mark.parametrize("name", ["portable:", "portable:threads", "portable:=3", "portable:a=1,"])
def test_what_is_malformed_is_said(name: str) -> None:
    with pytest.raises(UsageError, match=f"malformed variant '{name}'"):
        parse(name)
