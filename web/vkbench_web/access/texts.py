"""Types of texts and numbers that the API accepts: those that both databases can store."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path
from pydantic import AfterValidator, Field

MOST_INTEGER = 2**31 - 1


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("a null character cannot be stored")
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise ValueError("half of a surrogate pair cannot be stored")
    return text


Word = Annotated[str, Field(max_length=500), AfterValidator(_storable)]
Note = Annotated[str, Field(max_length=10_000), AfterValidator(_storable)]
Number = Annotated[int, Path(ge=1, le=MOST_INTEGER)]
