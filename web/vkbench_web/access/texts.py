"""What requests carry: texts and numbers that both databases can store, and forms of browsers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import parse_qsl

from fastapi import Depends, Path
from pydantic import AfterValidator, Field
from starlette.requests import Request

from vkbench.errors import UsageError

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


_KIND = "application/x-www-form-urlencoded"
_MOST_FIELDS = 50


async def _form(request: Request) -> Mapping[str, str]:
    body = await request.body()
    if not body:
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().casefold()
    if kind != _KIND:
        raise UsageError(f"a form is sent as {_KIND}")
    try:
        text = body.decode("ascii")
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise UsageError("the form is malformed") from error
    return {name: value.replace("\0", "").replace("\r\n", "\n") for name, value in pairs}


Form = Annotated[Mapping[str, str], Depends(_form)]
