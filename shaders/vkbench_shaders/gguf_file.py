"""GGUF files: which keys and tensors one holds, where their bytes lie, and those bytes.

Read by this module and not by gguf's reader, which fails in its own words on a damaged file, has
another size for q8_1, does not know q2_0, and is not there where work is only submitted. Nothing is
believed that the file's size contradicts; only the header and the tensor asked for are read.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from vkbench.errors import UnknownName, UsageError
from vkbench.process.plain_file import open_plain
from vkbench.words import names
from vkbench_shaders.formats import FORMATS, Array, Format

MAGIC: Final = b"GGUF"
VERSIONS: Final = (2, 3)
SHA_DIGITS: Final = 16  # of a tensor's SHA-256, in the name of a case
_ALIGNMENT: Final = 32  # of tensor data, where the file does not say
_MOST_DIMS: Final = 4
_MOST_NAME: Final = 1024  # bytes
_PART: Final = 1 << 24  # bytes read at once
_MOST_TEXT: Final = 1 << 16  # bytes of a value that is kept
_MOST_ITEMS: Final = 1 << 14  # of an array of numbers that is kept
_STRING, _ARRAY, _UINT32 = 8, 9, 4
_KINDS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?"}
_WIDE_KINDS: Final = {10: "Q", 11: "q", 12: "d"}
_CODES: Final = {kind: struct.Struct(f"<{code}") for kind, code in (_KINDS | _WIDE_KINDS).items()}
_SIZES: Final = {kind: code.size for kind, code in _CODES.items()}
_BY_NUMBER: Final = {fmt.ggml: fmt for fmt in FORMATS if fmt.ggml is not None}


# What a key has; None for what is long, as the words of a vocabulary are.
KeyValue = int | float | str | tuple[int | float | str, ...] | None


class BadGguf(UsageError):
    """The file is no GGUF file that can be read."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """A tensor as the header of a file tells of it."""

    name: str
    number: int  # GGML's type number
    shape: tuple[int, ...]  # elements, outermost first: rows are the last
    offset: int  # bytes from the beginning of the file

    @property
    def format(self) -> Format | None:
        """The format of its type number; None where there is none."""
        return _BY_NUMBER.get(self.number)

    @property
    def count(self) -> int:
        """Numbers that it has."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes that it takes; 0 for a type that is not among the formats."""
        return self.count // self.format.elements * self.format.bytes if self.format else 0


@dataclass(frozen=True, kw_only=True)
class GgufFile:
    """A file whose header was read and fits its size."""

    path: Path
    tensors: dict[str, Tensor]
    keys: Mapping[str, KeyValue] = field(default_factory=dict)
    stamp: tuple[int, ...] = field(default=(), compare=False)  # what the host knows it by

    def check_unchanged(self) -> None:
        """BadGguf if the file at this path is not what it was when it was opened."""
        with _open_gguf(self.path) as file:
            if _stamp(file) != self.stamp:
                raise BadGguf(f"{self.path} was changed while it was in use")

    def tensor(self, name: str) -> Tensor:
        """A tensor by name, of a known type; UsageError says what is wrong with the wish."""
        known = self.tensors.get(name)
        if not known:
            raise UnknownName(f"tensor of {self.path}", name, self._nearest_names(name))
        if not known.format:
            raise BadGguf(f"{self.path}: tensor {name} has type {known.number}, which is unknown")
        return known

    def read(self, name: str) -> Array:
        """A tensor as an array of its format; rows of quantised formats are bytes."""
        tensor = self.tensor(name)
        fmt = tensor.format
        assert fmt
        stored = self.rows(name, 0, prod(tensor.shape[:-1]))
        return stored.reshape(*tensor.shape[:-1], -1)

    def rows(self, name: str, first: int, count: int) -> Array:
        """Some rows of a tensor, whatever its outer dimensions: an array of two dimensions."""
        tensor = self.tensor(name)
        fmt = tensor.format
        assert fmt
        has, end = prod(tensor.shape[:-1]), first + count
        if not 0 <= first <= end <= has:
            raise BadGguf(
                f"{self.path}: tensor {name} has {has} rows; {first} to {end} are asked for"
            )
        row = fmt.items(tensor.shape[-1])
        stored = np.empty((count, row), fmt.dtype)
        with _open_gguf(self.path) as file:
            file.seek(tensor.offset + first * row * fmt.dtype.itemsize)
            _fill(self.path, file, stored.reshape(-1).view(np.uint8))
        return stored

    def sha(self, name: str) -> str:
        """The first digits of the SHA-256 of a tensor's bytes."""
        digest = hashlib.sha256()
        for part in self._parts(self.tensor(name)):
            digest.update(part)
        return digest.hexdigest()[:SHA_DIGITS]

    def _parts(self, tensor: Tensor) -> Iterator[bytes]:
        with _open_gguf(self.path) as file:
            file.seek(tensor.offset)
            left = tensor.bytes
            while left:
                part = file.read(min(left, _PART))
                if not part:
                    raise BadGguf(f"{self.path} became shorter while it was read")
                left -= len(part)
                yield part

    def _nearest_names(self, name: str) -> tuple[str, ...]:
        return names.nearest(name, list(self.tensors)) or tuple(self.tensors)[:3]


def _fill(path: Path, file: BinaryIO, target: NDArray[np.uint8]) -> None:
    """Read until the target is full: `read` and not a mapping, which kills where a file ends."""
    done = 0
    while done < len(target):
        got = file.readinto(target[done : done + _PART].data)  # type: ignore[attr-defined]
        if not got:
            raise BadGguf(f"{path} became shorter while it was read")
        done += got


def sha_of(stored: NDArray[np.generic]) -> str:
    """What `GgufFile.sha` says, of a tensor that was read."""
    return hashlib.sha256(stored.reshape(-1).view(np.uint8).data).hexdigest()[:SHA_DIGITS]


def sizes_of(shape: tuple[int, ...], dims: tuple[str, ...]) -> dict[str, int]:
    """Sizes that a tensor gives the dimensions of a binding: 1 for those it lacks."""
    padded = (1,) * (len(dims) - len(shape)) + shape
    return dict(zip(dims, padded[len(padded) - len(dims) :], strict=True))


def part_of(stored: Array, shape: tuple[int, ...]) -> Array:
    """The beginning of a tensor in another shape: its first matrices, and of those the first rows.

    Dimensions that only the tensor has count as one, those that only the shape has have to be 1.
    """
    check_part(stored.shape, shape)
    shorter = stored[(0,) * max(0, stored.ndim - len(shape))]
    whole = shorter.reshape((1,) * (len(shape) - shorter.ndim) + shorter.shape)
    part: Array = whole[tuple(map(slice, shape))].copy()
    return part


def check_part(has: tuple[int, ...], shape_needed: tuple[int, ...]) -> None:
    """UsageError unless `part_of` can take such a part; shapes are in items of storage."""
    padded = (1,) * (len(shape_needed) - len(has)) + has[max(0, len(has) - len(shape_needed)) :]
    rows = all(one <= other for one, other in zip(shape_needed[:-1], padded[:-1], strict=True))
    if not rows or shape_needed[-1] != padded[-1]:
        expected, actual = (" x ".join(map(str, shape)) for shape in (shape_needed, has))
        raise UsageError(f"the weights are {expected} items of storage; the tensor has {actual}")


def open_gguf(path: Path) -> GgufFile:
    """The file's tensors; BadGguf says what is wrong with it."""
    with _open_gguf(path) as file:
        stamp, header = _stamp(file), _Header(path, file)
        tensors = header.tensors()
    by_name = {tensor.name: tensor for tensor in tensors}
    return GgufFile(path=path, tensors=by_name, keys=header.keys, stamp=stamp)


def long_values(path: Path, keys: Collection[str]) -> dict[str, tuple[int | float | str, ...]]:
    """What these keys have if it is an array, however long: the words of a vocabulary."""
    with _open_gguf(path) as file:
        header = _Header(path, file, frozenset(keys))
        header.tensors()
    return {key: values for key in keys if isinstance(values := header.keys.get(key), tuple)}


def _open_gguf(path: Path) -> BinaryIO:
    try:
        return open_plain(path)
    except UsageError as error:
        raise BadGguf(str(error)) from error


def _stamp(file: BinaryIO) -> tuple[int, ...]:
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class _Header:
    """The beginning of a file, read from front to back."""

    def __init__(self, path: Path, file: BinaryIO, long: frozenset[str] = frozenset()) -> None:
        """Arrays of the keys `long` are kept whatever they hold."""
        self._path, self._long = path, long
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._alignment = _ALIGNMENT
        self.keys: dict[str, KeyValue] = {}

    def tensors(self) -> list[Tensor]:
        """All tensors, in the file's order, their places checked."""
        if self._take(4, "the magic") != MAGIC:
            raise BadGguf(f"{self._path} is no GGUF file: it does not begin with {MAGIC.decode()}")
        self._check_version(self._number("<I", "the version"))
        count, keys = self._number("<Q", "the tensor count"), self._number("<Q", "the key count")
        for _ in range(keys):
            self._read_key()
        described = [self._tensor() for _ in range(count)]
        start = -(-self._file.tell() // self._alignment) * self._alignment
        tensors = [self._place_tensor(*one, start) for one in described]
        self._check_places(tensors)
        return tensors

    def _check_version(self, version: int) -> None:
        if version in VERSIONS:
            return
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        what = "big-endian" if swapped in VERSIONS else f"version {version}"
        known = " and ".join(map(str, VERSIONS))
        raise BadGguf(f"{self._path} is {what}: only little-endian files of {known} are read")

    def _read_key(self) -> None:
        key = self._name("a key")
        if key in self.keys:
            raise self._corrupt(f"two values have the key {key}")
        kind = self._number("<I", f"the type of {key}")
        if key == "general.alignment":
            self._set_alignment(kind)
            self.keys[key] = self._alignment
        else:
            self.keys[key] = self._value(kind, key)

    def _set_alignment(self, kind: int) -> None:
        value = self._number("<I", "the alignment") if kind == _UINT32 else 0
        if value < 8 or value & (value - 1):
            raise self._corrupt(f"its alignment is no power of two from 8: {value}")
        self._alignment = value

    def _value(self, kind: int, key: str, depth: int = 0) -> KeyValue:
        """A value; None, and skipped, if it is long."""
        if kind == _STRING:
            return self._text(key)
        if kind == _ARRAY:
            return self._array(key, depth)
        if kind not in _CODES:
            raise self._corrupt(f"the value of {key} has the unknown type {kind}")
        number: int | float = _CODES[kind].unpack(self._take(_SIZES[kind], key))[0]
        return number

    def _text(self, key: str) -> str | None:
        size = self._number("<Q", key)
        if size > _MOST_TEXT:
            self._skip_bytes(size, key)
            return None
        return self._take(size, key).decode(errors="replace")

    def _array(self, key: str, depth: int) -> KeyValue:
        if depth > _MOST_DIMS:
            raise self._corrupt(f"{key} holds arrays within arrays without end")
        inner, count = self._number("<I", key), self._number("<Q", key)
        if inner in _CODES and (count <= _MOST_ITEMS or key in self._long):
            data = self._take(_SIZES[inner] * count, key)
            return tuple(value for (value,) in _CODES[inner].iter_unpack(data))
        if inner in _SIZES:
            self._skip_bytes(_SIZES[inner] * count, key)
            return None
        if inner == _STRING and key in self._long:
            return tuple(self._text(key) or "" for _ in range(count))
        for _ in range(count):
            self._skip(inner, key, depth + 1)
        return None

    def _skip(self, kind: int, key: str, depth: int) -> None:
        """Go past one of many values: strings are not read."""
        if kind == _STRING:
            self._skip_bytes(self._number("<Q", key), key)
        else:
            self._value(kind, key, depth)

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._name("a tensor's name")
        dims = self._number("<I", name)
        if not 1 <= dims <= _MOST_DIMS:
            raise self._corrupt(f"tensor {name} has {dims} dimensions")
        inner_first = [self._number("<Q", name) for _ in range(dims)]
        if not all(inner_first):
            raise self._corrupt(f"tensor {name} has a dimension of 0")
        number, offset = self._number("<I", name), self._number("<Q", name)
        return name, tuple(reversed(inner_first)), number, offset

    def _place_tensor(
        self, name: str, shape: tuple[int, ...], number: int, offset: int, start: int
    ) -> Tensor:
        tensor = Tensor(name=name, number=number, shape=shape, offset=start + offset)
        if offset % self._alignment:
            raise self._corrupt(f"tensor {name} begins at {offset}, off {self._alignment} bytes")
        if tensor.format and shape[-1] % tensor.format.elements:
            form = tensor.format
            raise self._corrupt(
                f"tensor {name} has rows of {shape[-1]}; {form.name} has blocks of {form.elements}"
            )
        return tensor

    def _check_places(self, tensors: list[Tensor]) -> None:
        if len({tensor.name for tensor in tensors}) < len(tensors):
            raise self._corrupt("two tensors have one name")
        for tensor in tensors:
            end = tensor.offset + tensor.bytes
            if end > self._size:
                raise BadGguf(
                    f"{self._path} is truncated or corrupt: tensor {tensor.name} ends at byte "
                    f"{end}, the file at {self._size}"
                )
        by_place = sorted(tensors, key=lambda tensor: tensor.offset)
        for tensor, after in pairwise(by_place):
            if tensor.offset + tensor.bytes > after.offset:
                raise self._corrupt(f"tensors {tensor.name} and {after.name} overlap")

    def _name(self, what: str) -> str:
        data = self._take(self._number("<Q", what), what)
        try:
            name = data.decode()
        except UnicodeDecodeError as error:
            raise self._corrupt(f"{what} is no UTF-8") from error
        if not 0 < len(data) <= _MOST_NAME or not name.isprintable():
            raise self._corrupt(f"{what} is no name")
        return name

    def _number(self, form: str, what: str) -> int:
        data = self._take(struct.calcsize(form), what)
        return int(struct.unpack(form, data)[0])

    def _take(self, count: int, what: str) -> bytes:
        self._check_left(count, what)
        data = self._file.read(count)
        if len(data) < count:
            raise BadGguf(f"{self._path} became shorter while it was read")
        return data

    def _skip_bytes(self, count: int, what: str) -> None:
        self._check_left(count, what)
        self._file.seek(count, os.SEEK_CUR)

    def _check_left(self, count: int, what: str) -> None:
        left = self._size - self._file.tell()
        if count > left:
            raise BadGguf(
                f"{self._path} is truncated or corrupt: {what} takes {count} bytes at "
                f"{self._file.tell()}, and {left} are left"
            )

    def _corrupt(self, complaint: str) -> BadGguf:
        return BadGguf(f"{self._path} is corrupt: {complaint}")
