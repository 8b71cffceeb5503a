"""Read an exported file: check that its lines are complete, in order and unchanged."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TextIO

import msgspec

from vkbench import decoding
from vkbench.programs.ssh_keygen import NoSuchSignature, find_key
from vkbench_db.errors import ImportRefused
from vkbench_db.transfer.lines import (
    FORMAT,
    KINDS,
    NAMESPACE,
    VERSION,
    End,
    Header,
    SignatureLine,
)

MOST_LINE_CHARACTERS: Final = 96 << 20  # a manifest of the greatest size, however it is escaped
_AFTER_RUN = ("device", "environment", "bundle", "build", "accuracy", "job", "end")
_NEXT = {
    "end": ("header", "signature"),
    "signature": ("header",),
    "header": ("run",),
    "run": _AFTER_RUN,
    "device": _AFTER_RUN,
    "environment": _AFTER_RUN[1:],
    "bundle": _AFTER_RUN[2:],
    "build": _AFTER_RUN[3:],
    "accuracy": _AFTER_RUN[4:],
    "job": _AFTER_RUN[5:],
}


class Line(NamedTuple):
    """One line of an export, after it is read."""

    number: int
    kind: str
    record: Any  # of the type that KINDS gives


def lines_of(file: TextIO, most: int = 0) -> Iterator[str]:
    """The lines of a file; ImportRefused for one that would fill the memory."""
    number, most = 0, most or MOST_LINE_CHARACTERS
    while text := file.readline(most):
        number += 1
        if len(text) == most:
            raise ImportRefused(f"line {number}: it has {most} characters or more")
        yield text


def read_records(lines: Iterable[str], kinds: Mapping[str, type[Any]] = KINDS) -> Iterator[Line]:
    """The lines' records; ImportRefused names the first line that is wrong.

    `kinds` may have types with fewer fields, for who needs no others.
    """
    digest = hashlib.sha256()
    before, jobs, expected, number, statement = "end", 0, 0, 0, ""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        line = _parse(number, text, kinds)
        if line.kind not in _NEXT[before] or (line.kind == "signature" and not statement):
            raise ImportRefused(f"line {number}: a line '{line.kind}' cannot follow '{before}'")
        match line.record:
            case Header() as header:
                _check_header(number, header)
                digest, jobs, expected = hashlib.sha256(), 0, header.jobs
            case End() as end:
                ending = End(jobs=jobs, sha256=digest.hexdigest())
                if end != ending or jobs != expected:
                    raise ImportRefused(f"line {number}: the lines before it are not as written")
                statement = end.statement
            case SignatureLine(signature=signature):
                line = line._replace(record=_check_signature(number, statement, signature))
        digest.update(text.rstrip("\r\n").encode() + b"\n")
        jobs += line.kind == "job"
        before = line.kind
        yield line
    if before not in ("end", "signature"):
        raise ImportRefused(f"line {number}: the file is cut off after {jobs} of {expected} jobs")


def _check_signature(number: int, statement: str, signature: str) -> SignatureLine:
    """A signature with the key that made it; ImportRefused if it is of other lines."""
    try:
        key = find_key(statement, signature, NAMESPACE)
    except NoSuchSignature as error:
        raise ImportRefused(f"line {number}: {error}") from error
    return SignatureLine(signature=signature, key=key)


_LONGEST_KIND: Final = 20  # characters
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


_line_decoders: dict[tuple[str, type[Any]], msgspec.json.Decoder[Any]] = {}


def _line_decoder(kind: str, record: type[Any]) -> msgspec.json.Decoder[Any]:
    """What reads a whole line at once: an object whose only field is its kind."""
    if (decoder := _line_decoders.get((kind, record))) is None:
        line = msgspec.defstruct("Line", [(kind, record)], forbid_unknown_fields=True)
        decoder = _line_decoders[kind, record] = decoding.decoder_of(line)
    return decoder


def _parse(number: int, text: str, kinds: Mapping[str, type[Any]]) -> Line:
    kind = text[2:_LONGEST_KIND].partition('"')[0]  # of lines as exports write them
    if record_type := kinds.get(kind):
        try:
            return Line(number, kind, getattr(_line_decoder(kind, record_type).decode(text), kind))
        except (msgspec.DecodeError, ValueError, RecursionError):
            pass  # whatever is odd about a line is looked at step by step
    return _parse_in_steps(number, text, kinds)


def _parse_in_steps(number: int, text: str, kinds: Mapping[str, type[Any]]) -> Line:
    try:
        kind, raw = _only_field(_fields.decode(text))
        record = decoding.decode(raw, kinds[kind])
    except KeyError as error:
        raise _refuse_line(number, f"unknown kind {error}") from error
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise _refuse_line(number, f"malformed: {error}") from error
    return Line(number, kind, record)


def _only_field(line: dict[str, msgspec.Raw]) -> tuple[str, msgspec.Raw]:
    if len(line) != 1:
        raise ValueError(f"a line has one field, its kind; this one {len(line)}")
    return next(iter(line.items()))


def _refuse_line(number: int, complaint: str) -> ImportRefused:
    # Where the first line cannot be read, the file is most likely one of another program.
    other = "it is no export of vkbench: " if number == 1 else ""
    return ImportRefused(f"line {number}: {other}{complaint}")


def _check_header(number: int, header: Header) -> None:
    if header.format != FORMAT:
        raise ImportRefused(f"line {number}: '{header.format}' is not an export of vkbench")
    if header.version != VERSION:
        raise ImportRefused(
            f"line {number}: version {header.version} of the format, and this vkbench reads "
            f"{VERSION}: update vkbench"
        )
