"""Selections as scripts send them: the fields of the command line's, with their limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from vkbench.job import MAIN
from vkbench.messages.wire import from_builtins
from vkbench.peers import BY_NAME
from vkbench_scheduler.planning.selection import AUTO, LIMIT_SECONDS, NOISE, Selection
from vkbench_web.access.texts import MOST_INTEGER, Word

DEFAULT_SUITE = "quick"
Words = Annotated[list[Word], Field(max_length=1000)]
Size = Annotated[int, Field(ge=1, le=MOST_INTEGER)]


class Wanted(BaseModel):
    """Which cases run on which devices, and how."""

    model_config = ConfigDict(extra="forbid")

    suite: Word = ""
    kernels: Words = Field(default_factory=list, description="globs")
    formats: Words = Field(default_factory=list, description="globs")
    shapes: list[dict[Word, Size]] = Field(
        default_factory=list, max_length=100, description="sizes instead of the listed ones"
    )
    cases: Words = Field(default_factory=list, description="whole names, instead of all above")
    devices: Words = Field(default_factory=list, description="selectors; none is every device")
    mode: Literal["correctness", "performance", "both"] = "both"
    variant: Word = Field(AUTO, description="a code path by name, `auto` or `all`")
    peers: Words = Field(
        default_factory=list, description=f"timed in turns with ours: {', '.join(BY_NAME)}"
    )
    bundle: Word = Field("", description="SHA-256 or its beginning; the packaged one if empty")
    priority: int = Field(0, ge=-MOST_INTEGER, le=MOST_INTEGER, description="higher goes first")
    track: Word = Field(MAIN, description="history that the timings join; none if empty")
    repeat: int = Field(1, ge=1, le=1000)
    measure_seconds: float | None = Field(None, ge=0.001, le=3600, allow_inf_nan=False)
    noise: float = Field(NOISE, ge=0, le=1, allow_inf_nan=False)
    limit_seconds: float = Field(LIMIT_SECONDS, ge=0.1, le=86_400, allow_inf_nan=False)


def selection_of(wishes: Wanted) -> Selection:
    """The selection that a request means; the quick suite if it chooses no case."""
    anything = wishes.suite or wishes.kernels or wishes.formats or wishes.shapes or wishes.cases
    suite = wishes.suite if anything else DEFAULT_SUITE
    return from_builtins({**wishes.model_dump(), "suite": suite}, Selection)
