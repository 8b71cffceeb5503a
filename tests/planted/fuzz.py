"""Fuzzing: what a parser is given on purpose. `FUZZ_EXAMPLES=10000` gives each parser so many."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from vkbench.errors import VkbenchError

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "40"))

# The same each time where there are few, so that no build fails by chance; others where many.
fuzz = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=EXAMPLES < 1000,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)


@contextmanager
def understood_or(error: type[VkbenchError] = VkbenchError) -> Iterator[None]:
    """What a parser does not take, it refuses by this error, in one line."""
    said = "nothing"
    try:
        yield
    except error as refusal:
        said = str(refusal)
    assert said
    assert "\n" not in said


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """Bytes that were changed, cut, doubled or put elsewhere in a few places."""
    data = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        length = draw(st.sampled_from((1, 1, 2, 4, 8, 60)))
        match draw(st.sampled_from(("set", "insert", "cut", "copy", "huge", "end"))):
            case "set":
                data[at : at + length] = draw(st.binary(min_size=length, max_size=length))
            case "insert":
                data[at:at] = draw(st.binary(max_size=length))
            case "cut":
                del data[at : at + length]
            case "copy":
                data[at:at] = data[at : at + length]
            case "huge":
                data[at : at + length] = b"\xff" * length
            case "end":
                del data[at:]
    return bytes(data)
