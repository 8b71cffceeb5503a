"""A configuration: a code path, and settings of the parameters that change only its speed.

    portable
    portable:split=2,tile=64x64_8x8

Where no settings are named, the kernel estimates which of them should be the fastest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from vkbench.case import Value, value_of
from vkbench.errors import UsageError

SHARDS: Final = "shards"  # into how many a case was divided, beside the settings of its code path
PIECES: Final = "pieces"  # into how many each shard was divided


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """What runs for a case: the variant, and settings by parameter."""

    variant: str
    settings: Mapping[str, Value] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The canonical name; `parse` reads it back."""
        return ":".join(filter(None, (self.variant, text_of(self.settings))))


def parse(name: str) -> Configuration:
    """Read a configuration's name; UsageError for one that is malformed."""
    variant, colon, rest = name.partition(":")
    settings = dict(_setting(item, name) for item in rest.split(",")) if colon else {}
    return Configuration(variant=variant, settings=settings)


def text_of(settings: Mapping[str, Value]) -> str:
    """Settings as text: split=2,tile=64x64_8x8."""
    return ",".join(f"{name}={value}" for name, value in sorted(settings.items()))


def variant_of(name: str) -> str:
    """The code path of a configuration's name."""
    return name.partition(":")[0]


def is_divided(name: str) -> bool:
    """Whether a configuration's name is of a case that was divided into shards."""
    return SHARDS in parse(name).settings


def _setting(item: str, name: str) -> tuple[str, Value]:
    key, equals, value = item.partition("=")
    if not (key and equals and value):
        raise UsageError(f"malformed variant '{name}': expected VARIANT:PARAMETER=VALUE,...")
    return key, value_of(value)
